// Schedules whose plans are only simulated, against all plans there are.

#include "planner/search/simulated_search.hpp"

#include "planner/analysis/certificate.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> simulated_names() {
  std::vector<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds) {
    const std::string name(kind.name);
    // The cases' samples are no sequences.
    if (is_only_simulated({.name = name}) && name != "seq1f1b") names.push_back(name);
  }
  return names;
}

/// A random problem under this schedule, with enough microbatches for it on up to four devices.
Problem problem_under(const std::string& schedule, std::uint32_t seed) {
  Problem problem = random_problem(seed, {6, 4});
  // Where to cut is looked for as if all backwards were split, of which dualpipe splits half.
  for (ProfileEntry& entry : problem.profile.entries)
    for (LayerCost& cost : entry.layers) cost.split_overhead = 0ns;
  problem.global_batch = problem.microbatches.front() * 8;
  problem.schedules = schedule_choices(schedule);
  problem.min_layers_per_stage = 1;
  return problem;
}

Problem equal_problem(const std::string& schedule, int layers, int devices, int microbatches) {
  const std::vector<LayerCost> costs(static_cast<std::size_t>(layers), layer_cost(1ms, 2ms));
  Problem problem =
      problem_of(profile_of(costs), cluster_of({{devices, {}}}), microbatches, {1}, {schedule});
  problem.schedules = schedule_choices(schedule);
  return problem;
}

}  // namespace

TEST_CASE("schedules that are only simulated: plans are in the space, and bounds below the best",
          "[search]") {
  const std::string name = GENERATE(from_range(simulated_names()));
  int compared = 0, equal = 0, unfound = 0;
  double ratio = 0;
  // Orders made for durations take long to make.
  const bool is_made = name == "zb-auto" || name == "zbv-auto";
  const std::uint32_t seeds = (is_made ? 6 : 24) / (is_watched ? 3 : 1);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    INFO(name << ", seed " << seed);
    const Problem problem = problem_under(name, seed);
    const SearchResult all = search_brute_force(problem, {});
    const SearchResult found = search_exact(problem, {});
    if (all.plans.empty()) {
      REQUIRE(found.plans.empty());
      REQUIRE(found.infeasible);
      CHECK_FALSE(found.infeasible->reason.empty());
      continue;
    }
    const Duration best = pace(*all.plans.front().prediction);
    REQUIRE(found.lower_bound <= best);
    if (found.plans.empty()) {
      ++unfound;  // only uneven stages fit
      continue;
    }
    const Candidate& plan = found.plans.front();
    REQUIRE(pace(*plan.prediction) >= best);
    REQUIRE(plan.prediction->fits);
    REQUIRE(find_schedule(plan.plan.schedule.name).name == name);
    REQUIRE(predict(plan.plan, problem.profile, problem.cluster).step == plan.prediction->step);
    CHECK_FALSE(found.question);
    ratio += seconds(pace(*plan.prediction)) / seconds(best);
    equal += pace(*plan.prediction) == best ? 1 : 0;
    ++compared;
  }
  INFO(name << ": " << compared << " compared, " << equal << " equal, " << unfound << " not found, "
            << ratio / compared << " times the best on average");
  if (is_watched) return;  // too few for averages
  CHECK(3 * compared >= static_cast<int>(seeds));
  CHECK(2 * equal >= compared);
  CHECK(5 * unfound <= compared);
  CHECK(ratio / compared < 1.06);
}

TEST_CASE("schedules that are only simulated: equal layers take what closed forms say",
          "[search]") {
  // Two copies of the model: half of the bubble of 1F1B (Li and Hoefler 2021), no messages.
  const SearchResult chimera = search_exact(equal_problem("chimera", 4, 4, 4), {});
  REQUIRE_FALSE(chimera.plans.empty());
  const SearchResult straight = search_exact(equal_problem("1f1b", 4, 4, 4), {});
  REQUIRE_FALSE(straight.plans.empty());
  // No waiting at all on one device, or with replicas: nothing beats that, and the bound says so.
  CHECK(chimera.plans.front().prediction->step == straight.plans.front().prediction->step);
  CHECK(chimera.proved_optimal);
  Problem problem = equal_problem("chimera", 4, 4, 4);
  problem.straight = true;
  problem.use_fewer_devices = false;
  const SearchResult deep = search_exact(problem, {});
  REQUIRE_FALSE(deep.plans.empty());
  CHECK(deep.plans.front().plan.stages.size() == 4);
  for (ProfileEntry& entry : problem.profile.entries) {
    entry.layers.assign(entry.layers.size(), layer_cost(1ms, 1ms));
  }
  // N = D = 4 with equal passes: D - 2 of them idle, beside 2 N at work.
  const SearchResult equal = search_exact(problem, {});
  REQUIRE_FALSE(equal.plans.empty());
  CHECK(equal.plans.front().prediction->bubble == Approx(2.0 / 10));
  CHECK(equal.plans.front().prediction->step == 10ms);
  CHECK(equal.lower_bound == 8ms);
}

TEST_CASE("schedules that are only simulated are searched beside others", "[search]") {
  Problem problem = equal_problem("chimera", 8, 4, 8);
  problem.straight = true;
  problem.use_fewer_devices = false;
  const Duration alone = pace(*search_exact(problem, {}).plans.front().prediction);
  for (const std::string name : {"gpipe", "zb-h2"}) {
    Problem both = problem;
    for (const ScheduleChoice& choice : schedule_choices(name)) both.schedules.push_back(choice);
    Problem other = problem;
    other.schedules = schedule_choices(name);
    const Duration by_itself = pace(*search_exact(other, {}).plans.front().prediction);
    const SearchResult result = search_exact(both, {});
    INFO(name);
    CHECK(pace(*result.plans.front().prediction) == std::min(alone, by_itself));
    CHECK(result.lower_bound <= std::min(alone, by_itself));
    CHECK_FALSE(result.question);
  }
}

TEST_CASE("schedules that are only simulated: the answer does not depend on threads", "[search]") {
  for (const std::string& name : simulated_names()) {
    INFO(name);
    const Problem problem = problem_under(name, 7);
    std::vector<std::string> plans;
    for (const int threads : {1, 3}) {
      SearchControl control;
      control.threads = threads;
      control.effort = 3'000'000;
      const SearchResult result = search_exact(problem, control);
      plans.push_back(result.plans.empty() ? "" : write_plan(result.plans.front().plan));
    }
    CHECK(plans[0] == plans[1]);
  }
}

TEST_CASE("schedules that are only simulated: sequences are cut into pieces", "[search]") {
  Problem problem;
  problem.model_name = problem.profile.model.name = "tiny-gpt";
  problem.profile.model = builtin_model("tiny-gpt");
  problem.cluster_name = "4xa100";
  problem.cluster = parse_cluster("4xa100");
  problem.global_batch = 4;
  problem.microbatches = {1};
  problem.sequence = 64;
  problem.straight = true;
  problem.use_fewer_devices = false;
  problem.schedules = schedule_choices("seq1f1b");
  const SearchResult result = search_exact(problem, {});
  REQUIRE_FALSE(result.plans.empty());
  CHECK(result.plans.front().plan.schedule.sequence_chunks > 1);
  CHECK(result.lower_bound == Duration{0});  // pieces may cost less than their part
}

TEST_CASE("schedules that are only simulated: what cannot be is said", "[search]") {
  // DualPipe has two stages and more, and twice as many microbatches.
  const SearchResult few = search_exact(equal_problem("dualpipe", 4, 2, 2), {});
  CHECK(few.plans.empty());
  REQUIRE(few.infeasible);
  CHECK_THAT(few.infeasible->reason,
             ContainsSubstring("no number of devices and microbatches allows dualpipe: "));
  CHECK(few.infeasible->remedies == std::vector<std::string>{"--schedule 1f1b (now dualpipe)"});
  Problem small = equal_problem("chimera", 4, 2, 4);
  for (ProfileEntry& entry : small.profile.entries) {
    for (LayerCost& cost : entry.layers) cost.parameters = cost.gradients = 1000;
  }
  small.straight = true;
  small.use_fewer_devices = false;
  small.optimizer.kind = OptimizerKind::sgd;
  small.cluster.kinds.front().memory_unlimited = false;
  small.cluster.kinds.front().memory = 5000;  // 1F1B holds two layers of four on each device
  const SearchResult short_of = search_exact(small, {});
  CHECK(short_of.plans.empty());
  REQUIRE(short_of.infeasible);
  CHECK(short_of.infeasible->short_by == 3000);
  CHECK_THAT(short_of.infeasible->reason,
             ContainsSubstring("no balanced plan under chimera fits, the closest lacks"));
  CHECK(short_of.infeasible->remedies == std::vector<std::string>{"--schedule 1f1b (now chimera)"});
}

TEST_CASE("schedules that are only simulated: a plan carries no proof, and says why", "[search]") {
  const Problem problem = equal_problem("chimera", 4, 4, 4);
  const SearchResult result = search_exact(problem, {});
  REQUIRE_FALSE(result.plans.empty());
  CHECK_THROWS_WITH(verify_bound(result.plans.front().plan, problem.profile, problem.cluster),
                    ContainsSubstring("plans under chimera are bounded by their work alone"));
}
