// Plans for shared links, against all plans there are.

#include "planner/analysis/shared.hpp"

#include "planner/strategies.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Two nodes of four, whose sums of gradients all of a node send through one link.
Problem two_nodes() {
  std::vector<LayerCost> costs{layer_cost(10ms, 20ms), layer_cost(200us, 200us),
                               layer_cost(10ms, 19800us)};
  costs[0].output = 200'000'000;
  costs[1].output = 4'000'000;
  for (LayerCost& cost : costs) cost.parameters = cost.gradients = 100'000'000;
  Problem problem = problem_of(
      profile_of(costs, 4),
      cluster_of({{2, link_of(0us, 5'000'000'000)}, {4, link_of(0us, 50'000'000'000)}}), 640, {4});
  problem.use_fewer_devices = false;
  problem.max_stages = 2;
  return problem;
}

}  // namespace

TEST_CASE("a plan for shared links is faster on them than one that knows nothing of it",
          "[answers][seconds]") {
  const Problem problem = two_nodes();
  const SearchResult alone = search_exact(problem, {});
  const SearchResult shared = search_with_shared_links(search_exact, problem, {}, {});
  REQUIRE_FALSE(alone.plans.empty());
  REQUIRE_FALSE(shared.plans.empty());
  const Plan& there = alone.plans.front().plan;
  const Plan& here = shared.plans.front().plan;
  CHECK(step_with_shared_links(problem, here, {}) < step_with_shared_links(problem, there, {}));
  CHECK(predict(here, problem.profile, problem.cluster).step >
        predict(there, problem.profile, problem.cluster).step);
  // The step without sharing is what the plan's file has; the note has the other.
  CHECK(here.predicted->step == predict(here, problem.profile, problem.cluster).step);
  CHECK_FALSE(shared.question);
  const auto& notes = shared.plans.front().prediction->notes;
  CHECK(std::ranges::any_of(notes, [](const std::string& note) {
    return note.starts_with("where links are shared the step takes ");
  }));
  // Each device with a link of its own shares nothing.
  const LinkSharing own{.sharing = Sharing::fair, .devices_per_link = 1};
  CHECK(step_with_shared_links(problem, there, own) == pace(*alone.plans.front().prediction));
  const SearchResult apart = search_with_shared_links(search_exact, problem, {}, own);
  CHECK(step_with_shared_links(problem, apart.plans.front().plan, own) ==
        pace(*alone.plans.front().prediction));
  CHECK(apart.proved_optimal == alone.proved_optimal);
}

TEST_CASE("plans for shared links are no faster than the best of all, and bounds below it",
          "[answers][seconds]") {
  int equal = 0, compared = 0;
  double ratio = 0, unaware = 0;
  for (std::uint32_t seed = 0; seed < (is_watched ? 15 : 60); ++seed) {
    INFO("seed " << seed);
    Problem problem = random_problem(seed + 300, {5, 4});
    problem.tensor_parallel = {1};  // brute force knows no stages of several degrees
    const Sharing sharing = seed % 2 == 0 ? Sharing::fair : Sharing::fifo;
    const SearchResult found = search_with_shared_links(search_exact, problem, {}, {sharing, {}});
    if (found.plans.empty()) continue;
    SearchControl all;
    all.top = 100'000;
    Duration best = Duration::max();
    for (const Candidate& candidate : search_brute_force(problem, all).plans) {
      const Duration step = step_with_shared_links(problem, candidate.plan, {sharing, {}});
      // Messages that wait for others make nothing faster: what bounds plans alone bounds these.
      // Rings are rounded message by message there.
      REQUIRE(step + 20ns >= pace(*candidate.prediction));
      best = std::min(best, step);
    }
    const Duration ours = step_with_shared_links(problem, found.plans.front().plan, {sharing, {}});
    REQUIRE(ours >= best);
    REQUIRE(found.lower_bound <= best + 20ns);
    const Plan alone = search_exact(problem, {}).plans.front().plan;
    unaware += seconds(step_with_shared_links(problem, alone, {sharing, {}})) / seconds(best);
    ratio += seconds(ours) / seconds(best);
    equal += ours == best ? 1 : 0;
    ++compared;
  }
  INFO(compared << " compared, " << equal << " equal, " << ratio / compared
                << " times the best on average, " << unaware / compared << " without a thought");
  CHECK(compared >= (is_watched ? 8 : 40));
  CHECK(10 * equal >= 9 * compared);
  CHECK(ratio / compared < 1.005);
  CHECK(ratio <= unaware);
}

TEST_CASE("sharing goes with the step as objective", "[answers]") {
  Problem problem = two_nodes();
  problem.objective = ObjectiveKind::throughput;
  CHECK_THAT(message_of([&] { search_with_shared_links(search_exact, problem, {}, {}); }),
             ContainsSubstring("--sharing chooses by the step"));
  Problem large = two_nodes();
  large.cluster = parse_cluster("200x8xgeneric@1GB/s,10GB/s");
  CHECK_THAT(message_of([&] { search_with_shared_links(search_exact, large, {}, {}); }),
             ContainsSubstring("--sharing simulates every device, of 1024 at most; found 1600"));
}
