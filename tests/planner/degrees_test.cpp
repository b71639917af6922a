// Degrees of context and expert parallelism that the search chooses by itself: as good as trying
// all, never worse than without, and in the certificate.

#include <set>

#include "planner/analysis/certificate.hpp"
#include "planner/plan/parallelism_fault.hpp"
#include "planner/plan/plan_fault.hpp"
#include "profiles/devices.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/planner/compared.hpp"
#include "tests/planner/mixed_cases.hpp"
#include "tests/planner/shared_cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// A few blocks with four experts each, of which a token goes through two.
Model few_experts(std::int64_t feed_forward, std::int64_t sequence) {
  Transformer transformer = *builtin_model("mixtral-8x7b").transformer;
  transformer.hidden = 512;
  transformer.heads = 4;
  transformer.key_value_heads = 4;
  transformer.head_width = 128;
  transformer.feed_forward = feed_forward;
  transformer.vocabulary = 1000;
  transformer.positions = sequence;
  transformer.experts = Experts{.count = 4, .active = 2, .feed_forward = feed_forward};
  return make_transformer("few experts", transformer, 2, sequence);
}

/// Of all degrees that two or four devices allow.
std::vector<Parallelism> all_degrees() {
  std::vector<Parallelism> all;
  for (const int context : {1, 2}) {
    for (const int expert : {1, 2, 4}) {
      for (const int expert_tensor : {0, 1})
        all.push_back({.context = context, .expert = expert, .expert_tensor = expert_tensor});
    }
  }
  return all;
}

Problem problem_with_degrees(const Model& model, const std::string& cluster,
                             std::vector<Parallelism> degrees) {
  Problem problem = problem_of({.model = model, .entries = {}}, parse_cluster(cluster), 8, {2, 4});
  problem.precision = Precision::bfloat16;
  problem.sequence = model.sequence;
  problem.tensor_parallel = {1, 2};
  problem.schedules = {{.name = "1f1b"}};
  problem.parallelism = degrees.front();
  problem.other_parallelism.assign(degrees.begin() + 1, degrees.end());
  return problem;
}

Problem with_memory(Problem problem, Bytes memory) {
  for (DeviceKind& kind : problem.cluster.kinds) {
    kind.memory = memory;
    kind.reserve = 0;
  }
  return problem;
}

}  // namespace

TEST_CASE("exact is as good as trying everything over context and expert degrees",
          "[parallelism][seconds]") {
  struct Case {
    std::int64_t width, sequence;
    Bytes memory;
  };
  int shared = 0;
  for (const auto& [width, sequence, memory] :
       {Case{256, 256, Bytes{1} << 34}, Case{4096, 256, Bytes{300} << 20},
        Case{256, 16384, Bytes{400} << 20}, Case{4096, 16384, Bytes{1} << 34}}) {
    INFO(width << " wide, " << sequence << " tokens, " << memory << " bytes");
    const Problem problem = with_memory(
        problem_with_degrees(few_experts(width, sequence), "4xh100", all_degrees()), memory);
    require_as_good_as_brute_force(problem);
    const SearchResult result = search_exact(problem, {});
    if (result.plans.empty()) continue;
    const Parallelism& chosen = result.plans.front().plan.parallelism;
    shared += chosen.context > 1 || chosen.expert > 1 ? 1 : 0;
  }
  CHECK(shared > 0);
}

TEST_CASE("context-parallel peers may fill several nodes: as good as trying everything",
          "[parallelism][seconds]") {
  const std::vector<Parallelism> degrees{{}, {.context = 2}, {.context = 4}};
  int across = 0;
  for (const Bytes memory : {Bytes{1} << 34, Bytes{500} << 20, Bytes{350} << 20}) {
    for (const std::int64_t batch : {1, 4}) {  // one sample's tokens are all there is to share
      INFO(memory << " bytes, a batch of " << batch);
      Problem problem =
          with_memory(problem_with_degrees(few_experts(1024, 32768), "2x2xh100", degrees), memory);
      problem.global_batch = batch;
      problem.microbatches = {1};
      require_as_good_as_brute_force(problem);
      const SearchResult result = search_exact(problem, {});
      if (result.plans.empty()) continue;
      const Plan& plan = result.plans.front().plan;
      CHECK_FALSE(find_fault(plan, problem.profile.model, problem.cluster));
      across += plan.stages.front().devices.front().size() > 2 ? 1 : 0;
    }
  }
  CHECK(across > 0);
}

TEST_CASE("groups of peers lie within nodes or fill them, with tensor-parallel ones in one",
          "[parallelism]") {
  const Model model = few_experts(256, 4096);
  const auto groups = [&](const std::string& cluster, std::vector<int> excluded) {
    Problem problem = problem_with_degrees(model, cluster, {{}, {.context = 2}, {.context = 4}});
    problem.tensor_parallel = {1, 2, 4};
    problem.excluded = std::move(excluded);
    const Space space(problem);
    const int width = problem.cluster.levels.back().count;
    std::set<std::pair<int, int>> known;  // tensor- and context-parallel ones
    for (const Setting& setting : space.settings()) {
      const int context = space.parallelism(setting).context, tensor = setting.peers / context;
      known.emplace(tensor, context);
      std::set<int> used;
      for (int group = 0; group < space.devices(setting); ++group) {
        const std::vector<int> peers = space.peers(setting, group);
        for (std::size_t peer = 0; peer < peers.size(); ++peer) {
          CHECK(used.insert(peers[peer]).second);
          const std::size_t first = peer - peer % static_cast<std::size_t>(tensor);
          CHECK(peers[peer] / width == peers[first] / width);
        }
        const int nodes = peers.back() / width - peers.front() / width + 1;
        CHECK(nodes == std::max(setting.peers / width, 1));
      }
    }
    return known;
  };
  using Degrees = std::set<std::pair<int, int>>;
  CHECK(groups("4x4xh100", {}) ==
        Degrees{{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}, {4, 2}, {1, 4}, {2, 4}, {4, 4}});
  // Of nodes of six, neither four nor eight peers fill one or several.
  CHECK(groups("4x6xh100", {}) == Degrees{{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 4}});
  CHECK(groups("4x4xh100", {5}) ==
        Degrees{{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}, {4, 2}, {1, 4}, {2, 4}});
}

TEST_CASE("what every degree gives alone, all of them together give", "[parallelism][seconds]") {
  const Model model = few_experts(4096, 16384);
  std::optional<Duration> best;
  for (const Parallelism& degrees : all_degrees()) {
    const SearchResult alone =
        search_exact(problem_with_degrees(model, "4xh100", {degrees}), {.explain = false});
    if (alone.plans.empty()) continue;
    const Duration step = alone.plans.front().prediction->step;
    best = std::min(best.value_or(step), step);
  }
  REQUIRE(best);
  const SearchResult together =
      search_exact(problem_with_degrees(model, "4xh100", all_degrees()), {});
  REQUIRE_FALSE(together.plans.empty());
  CHECK(together.plans.front().prediction->step == *best);
}

TEST_CASE("the certificate says which degrees were tried, and is verified over them",
          "[parallelism]") {
  const Problem problem = problem_with_degrees(few_experts(4096, 16384), "4xh100", all_degrees());
  const SearchResult result = search_exact(problem, {});
  REQUIRE_FALSE(result.plans.empty());
  Plan plan = result.plans.front().plan;
  REQUIRE(plan.search->question);
  CHECK(plan.search->question->parallelism == all_degrees());
  const Plan read = read_plan(Json::parse(write_plan(plan), "a.json"));
  CHECK(read.search->question->parallelism == plan.search->question->parallelism);
  CHECK(verify_bound(read, problem.profile, problem.cluster).holds());
  plan.search->lower_bound += Duration{1};
  CHECK_FALSE(verify_bound(plan, problem.profile, problem.cluster).holds());
}

TEST_CASE("degrees that no plan can have make no settings", "[parallelism]") {
  const Model model = few_experts(256, 256);
  const std::size_t without =
      Space(problem_with_degrees(model, "4xh100", {Parallelism{}})).settings().size();
  // Experts over four devices need a microbatch for as many, or as many peers.
  const Space space(problem_with_degrees(model, "4xh100", all_degrees()));
  CHECK(space.settings().size() > without);
  for (const Setting& setting : space.settings()) {
    const Parallelism& degrees = space.parallelism(setting);
    const int replicas = replicas_of_experts(degrees, setting.peers);
    CHECK(setting.microbatch % replicas == 0);
    CHECK(setting.peers % degrees.context == 0);
  }
  // Where none can be, plans are refused one by one.
  const Space none(problem_with_degrees(model, "2xh100", {{.expert = 4}, {.context = 4}}));
  for (const Setting& setting : none.settings()) CHECK(setting.choice == 0);
  // Three experts' tensor degree of two is another name for that of all else.
  std::vector<Parallelism> twice{Parallelism{.expert = 2},
                                 Parallelism{.expert = 2, .expert_tensor = 1},
                                 Parallelism{.expert = 2, .expert_tensor = 2}};
  Problem problem = problem_with_degrees(model, "4xh100", twice);
  problem.tensor_parallel = {2};
  const Space named(problem);
  for (const Setting& setting : named.settings()) CHECK(setting.choice < 2);
}

TEST_CASE("a degree that no plan can have changes no bound of stages with degrees of their own",
          "[parallelism][seconds]") {
  int open = 0;
  for (std::uint32_t seed = 60; seed < 100; ++seed) {
    for (const std::int64_t effort : {30'000, 100'000}) {
      INFO("seed " << seed << ", effort " << effort);
      const SearchControl control{.effort = effort, .explain = false};
      Problem problem = with_degrees(seed);
      const SearchResult without = search_exact(problem, control);
      problem.other_parallelism = {{.context = 8}};  // of four devices
      const SearchResult with = search_exact(problem, control);
      REQUIRE(with.plans.empty() == without.plans.empty());
      if (with.plans.empty()) continue;
      const Plan& plan = without.plans.front().plan;
      if (!is_mixed_chain(Space(problem), plan)) continue;
      CHECK(with.plans.front().prediction->step == without.plans.front().prediction->step);
      CHECK(with.lower_bound == without.lower_bound);
      CHECK(with.proved_optimal == without.proved_optimal);
      open += without.proved_optimal ? 0 : 1;
    }
  }
  CHECK(open > 0);
}

namespace {

struct Large {
  const char* model;
  const char* cluster;
  std::int64_t sequence, batch;
  std::vector<Parallelism> others;  ///< beside none
};

const std::vector<Large> large_cases{
    {"mixtral-8x7b", "8xh100", 4096, 32, {{.expert = 2}, {.expert = 4}, {.expert = 8}}},
    {"mixtral-8x7b",
     "8x8xh100",
     4096,
     256,
     {{.expert = 2}, {.expert = 8}, {.expert = 8, .expert_tensor = 1}}},
    {"deepseek-v2-lite", "8xa100-80gb", 4096, 32, {{.expert = 2}, {.expert = 4}, {.expert = 8}}},
    {"mixtral-8x7b", "2x8xh100", 4096, 32, {{.expert = 8}, {.expert = 8, .expert_tensor = 1}}},
    {"llama3-8b", "8xh100", 65536, 8, {{.context = 2}, {.context = 4}, {.context = 8}}},
};

/// Without other degrees.
Problem plain_problem(const Large& large) {
  Problem problem = problem_of({.model = builtin_model(large.model), .entries = {}},
                               parse_cluster(large.cluster), large.batch, {1, 2, 4, 8, 16});
  std::erase_if(problem.microbatches, [&](std::int64_t size) { return large.batch % size != 0; });
  problem.precision = Precision::bfloat16;
  problem.sequence = large.sequence;
  problem.tensor_parallel = {1, 2, 4, 8};
  problem.parallelism.sequence = true;
  problem.schedules = {{.name = "1f1b"}};
  return problem;
}

Problem with_others(Problem problem, const Large& large) {
  for (Parallelism degrees : large.others) {
    degrees.sequence = true;
    problem.other_parallelism.push_back(degrees);
  }
  return problem;
}

/// Whether the others made it better.
bool require_no_worse(const Large& large, const SearchControl& control,
                      const std::vector<Recomputed>& layers = {}) {
  INFO(large.model << " on " << large.cluster);
  Problem plain = plain_problem(large);
  plain.recompute_layers = layers;
  const SearchResult without = search_exact(plain, control);
  const SearchResult with = search_exact(with_others(plain, large), control);
  if (without.plans.empty()) return !with.plans.empty();
  REQUIRE_FALSE(with.plans.empty());
  const Duration step = with.plans.front().prediction->step;
  REQUIRE(step <= without.plans.front().prediction->step);
  REQUIRE(with.lower_bound <= step);
  REQUIRE(with.lower_bound <= without.families.searched());
  return step < without.plans.front().prediction->step;
}

}  // namespace

TEST_CASE("more degrees to try are never worse, with however little effort",
          "[parallelism][minutes]") {
  int better = 0;
  for (const Large& large : large_cases) {
    for (const std::int64_t effort : {1'000, 1'000'000}) {
      INFO("effort " << effort);
      better += require_no_worse(large, {.effort = effort, .explain = false}) ? 1 : 0;
    }
  }
  CHECK(better > 3);
}

TEST_CASE("more degrees to try are never worse where the search is stopped at once",
          "[parallelism][seconds]") {
  std::stop_source stop;
  stop.request_stop();
  for (const Large& large : large_cases) {
    require_no_worse(large, {.stop = stop.get_token(), .explain = false});
  }
}

TEST_CASE("more degrees to try are never worse where layers choose what they do again",
          "[parallelism][seconds]") {
  for (const Large& large : {large_cases[0], large_cases[2]}) {
    require_no_worse(large, {.effort = 1'000'000, .explain = false}, {Recomputed::selective});
  }
}

TEST_CASE("however little effort there is the bound over all degrees holds",
          "[parallelism][seconds]") {
  int open = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    INFO("seed " << seed);
    const Problem problem = shared_problem(seed);
    const SearchResult every = search_brute_force(problem, {});
    if (every.plans.empty()) continue;
    for (const std::int64_t effort : {1, 3'000, 30'000}) {
      SearchControl control;
      control.effort = effort;
      const SearchResult result = search_exact(problem, control);
      CHECK(result.lower_bound <= pace(*every.plans.front().prediction));
      open += result.proved_optimal ? 0 : 1;
    }
  }
  CHECK(open > 5);
}

TEST_CASE("a gap that is good enough holds over all degrees", "[parallelism]") {
  const Problem problem = problem_with_degrees(few_experts(4096, 16384), "4xh100", all_degrees());
  const SearchResult best = search_exact(problem, {});
  const SearchResult near = search_exact(problem, {.gap = 0.2});
  REQUIRE_FALSE(near.plans.empty());
  CHECK(near.gap <= 0.2);
  CHECK(near.lower_bound <= best.plans.front().prediction->step);
  CHECK(near.plans.front().prediction->step >= best.plans.front().prediction->step);
}
