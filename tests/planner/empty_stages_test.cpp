// Plans with empty stages, which only pass on what they get: valid, simulated, and searched for
// where they are asked for.

#include <algorithm>

#include "planner/analysis/certificate.hpp"
#include "planner/costs/compile.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/relaxations/chain_bounds.hpp"
#include "planner/search/enumerate/chains.hpp"
#include "profiles/json.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/simulate.hpp"
#include "tests/planner/compared.hpp"
#include "tests/planner/empty_cases.hpp"
#include "tests/planner/random_layouts.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Five alike layers of a kilobyte each, over one device after the other.
Problem chain_of_five(int devices, const std::string& schedule = "1f1b") {
  std::vector<LayerCost> costs(5, layer_cost(10us, 20us));
  for (LayerCost& cost : costs) {
    cost.parameters = cost.gradients = 100;
    cost.optimizer = 200;
    cost.saved = cost.output = 1000;
  }
  return problem_of(profile_of(costs), cluster_of({{devices, link_of(1us, 1'000'000'000)}}), 4, {1},
                    {schedule});
}

Plan plan_of_cuts(const Problem& problem, const std::vector<int>& replicas,
                  const std::vector<int>& cuts) {
  const Space space(problem);
  Layout layout{.replicas = replicas, .cuts = cuts, .recompute = {}};
  layout.recompute.assign(cuts.size() - 1, Recompute::none);
  return space.plan(space.settings().front(), layout);
}

}  // namespace

TEST_CASE("a plan with empty stages is simulated as one whose messages have farther to go") {
  const auto steps = [](const std::string& schedule) {
    const Problem problem = chain_of_five(4, schedule);
    const Plan plan = plan_of_cuts(problem, {1, 1, 1, 1}, {0, 3, 3, 3, 5});
    const Plan filled = plan_of_cuts(problem, {1, 1}, {0, 3, 5});
    validate(plan, problem.profile.model, problem.cluster);
    CHECK(check(compile(plan, problem.profile, problem.cluster).program).safe());
    return std::pair(predict(plan, problem.profile, problem.cluster).step,
                     predict(filled, problem.profile, problem.cluster).step);
  };
  // Four forwards, the last one there and on the last device, the first backward there and back,
  // four backwards. A hop takes 1 us and 1 us for its bytes.
  const auto [with, without] = steps("gpipe");
  CHECK(without == 4 * 30us + 2us + 20us + 40us + 2us + 4 * 60us);
  CHECK(with == without + 2 * 2 * 2us);
  // Of more stages 1F1B has more forwards ahead: here that is worth more than the hops.
  const auto [longer, shorter] = steps("1f1b");
  CHECK(longer < shorter);
}

TEST_CASE("a device with an empty stage alone holds what passes, and nothing else") {
  const Problem problem = chain_of_five(4);
  const Plan plan = plan_of_cuts(problem, {1, 1, 1, 1}, {0, 3, 3, 3, 5});
  const auto peaks = predict(plan, problem.profile, problem.cluster).peaks;
  for (const std::size_t device : {1U, 2U}) {
    const MemoryUse& use = peaks[device].use;
    const Bytes passing = use[static_cast<std::size_t>(MemoryCategory::activations)] +
                          use[static_cast<std::size_t>(MemoryCategory::transfer)];
    CHECK(total(use) == passing);
    CHECK(passing >= 1000);
    CHECK(passing <= 4'000);
  }
}

TEST_CASE("a plan with empty stages comes back from its file") {
  const Problem problem = chain_of_five(4);
  Plan plan = plan_of_cuts(problem, {1, 1, 1}, {0, 3, 3, 5});
  plan.stages[1].recompute = Recompute::full;
  const std::string text = write_plan(plan);
  CHECK(text.find("\"layers\": [3, 3]") != std::string::npos);
  CHECK(read_plan(Json::parse(text, "plan.json")) == plan);
}

TEST_CASE("replicas of an empty stage sum and gather nothing") {
  Problem problem = chain_of_five(6);
  problem.global_batch = 8;
  problem.microbatches = {2};
  problem.profile.entries.front().setting.microbatch = 2;
  for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
    problem.optimizer.sharding = sharding;
    const Plan plan = plan_of_cuts(problem, {2, 2, 2}, {0, 2, 2, 5});
    const Compiled compiled = compile(plan, problem.profile, problem.cluster);
    REQUIRE(check(compiled.program).safe());
    for (const Group& group : compiled.program.groups) {
      for (const int chunk : group.chunks) {
        CHECK(compiled.program.chunks[static_cast<std::size_t>(chunk)].stage != 1);
      }
    }
    CHECK(compiled.program.groups.size() == (sharding == Sharding::none ? 2 : 4));
  }
}

TEST_CASE("without being asked, the search leaves no stage empty", "[seconds]") {
  Problem problem = chain_of_five(8);
  problem.straight = true;
  const SearchResult few = search_exact(problem, {});
  REQUIRE_FALSE(few.plans.empty());
  CHECK_FALSE(has_empty_stage(few.plans.front().plan));
  problem.use_fewer_devices = false;
  CHECK(search_exact(problem, {}).plans.empty());
  // Eight devices have something to do only if some pass on.
  problem.min_layers_per_stage = 0;
  const SearchResult all = search_exact(problem, {});
  REQUIRE_FALSE(all.plans.empty());
  const Plan& plan = all.plans.front().plan;
  CHECK(has_empty_stage(plan));
  CHECK(used_devices(plan).size() == 8);
  CHECK(all.proved_optimal);
  validate(plan, problem.profile.model, problem.cluster);
  CHECK(verify_bound(plan, problem.profile, problem.cluster).holds());
}

TEST_CASE("with few layers schedules of several stages per device need empty ones", "[seconds]") {
  for (const std::string schedule : {"zb-v", "interleaved"}) {
    INFO(schedule);
    Problem problem = chain_of_five(3, schedule);
    problem.schedules.front().virtual_stages = 2;
    problem.global_batch = 6;
    problem.straight = true;
    problem.use_fewer_devices = false;
    CHECK(search_exact(problem, {}).plans.empty());
    problem.min_layers_per_stage = 0;
    const SearchResult exact = search_exact(problem, {});
    const SearchResult every = search_brute_force(problem, {});
    REQUIRE_FALSE(exact.plans.empty());
    REQUIRE_FALSE(every.plans.empty());
    CHECK(has_empty_stage(exact.plans.front().plan));
    CHECK(exact.plans.front().prediction->step == every.plans.front().prediction->step);
    CHECK(exact.proved_optimal);
  }
}

TEST_CASE("with empty stages, too, a bound never exceeds the step of a plan it covers",
          "[seconds]") {
  const std::string name = GENERATE("1f1b", "gpipe", "zb-h1", "zb-h2");
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Problem problem = problem_with_empty(seed + 16'000'000);
    for (ScheduleChoice& choice : problem.schedules) choice = {.name = name};
    problem.use_fewer_devices = false;
    problem.devices = device_count(problem.cluster);  // as they come
    const SearchResult best = search_brute_force(problem, {});
    if (best.plans.empty()) continue;
    const Time step = best.plans.front().prediction->step.count();
    const Space space(problem);
    const auto [open, least] = bounded(space, step);
    INFO(name << ", seed " << seed);
    CHECK(least <= step);
    // Orders of devices have settings of their own.
    if (is_searched(problem, best.plans.front().plan) && problem.cluster.kinds.size() == 1)
      CHECK(open);
  }
}

TEST_CASE("with empty stages, too, the fast clock says what the simulator does", "[seconds]") {
  int empty = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    Problem problem = random_problem(seed + 17'000'000, {5, 6});
    problem.min_layers_per_stage = 0;
    const Space space(problem);
    for (const Setting& setting : space.settings()) {
      Layout layout{.replicas = {}, .cuts = {0, space.layers()}, .recompute = {}};
      layout.replicas = random_replicas(random, space, setting);
      FastClock clock(space, setting);
      if (layout.replicas.empty() || clock.order_for(layout.replicas) == nullptr) continue;
      const int stages = layout.pipeline_devices() * setting.schedule.virtual_stages;
      if (space.layers() == 1 && stages > 1) continue;
      while (layout.stages() < stages) layout.cuts.push_back(random.between(1, space.layers() - 1));
      std::ranges::sort(layout.cuts);
      for (int s = 0; s < stages; ++s)
        layout.recompute.push_back(random.chance(50) ? Recompute::none : Recompute::full);
      const Candidate candidate = space.evaluate("", space.plan(setting, layout));
      INFO("seed " << seed << "\n" << write_plan(candidate.plan) << candidate.rejected);
      REQUIRE(candidate.prediction);
      empty += has_empty_stage(candidate.plan) ? 1 : 0;
      const Time step = candidate.prediction->step.count();
      REQUIRE(clock.step(layout) <= step);
      if (setting.schedule.virtual_stages == 1) REQUIRE(clock.step(layout) == step);
      for (int d = 0; d < layout.pipeline_devices(); ++d) {
        // What is ruled out really does not fit.
        REQUIRE((clock.may_fit(layout, d) || !candidate.prediction->fits));
      }
    }
  }
  CHECK(empty > 100);
}

TEST_CASE("where columns are searched, the scope says that none of their stages is empty",
          "[seconds]") {
  Problem problem = chain_of_five(24);
  problem.global_batch = 48;
  problem.microbatches = {1, 2};
  problem.profile.entries.push_back(problem.profile.entries.front());
  problem.profile.entries.back().setting.microbatch = 2;
  const SearchResult filled = search_exact(problem, {});
  CHECK_FALSE(filled.families.has(PlanFamily::empty_stages));
  problem.min_layers_per_stage = 0;
  const SearchResult result = search_exact(problem, {});
  REQUIRE_FALSE(result.plans.empty());
  CHECK(result.families.has(PlanFamily::empty_stages));
  CHECK(result.families.scope().ends_with("layers"));
  CHECK(result.families.least_left_out() <= result.plans.front().prediction->step);
  CHECK_FALSE(has_empty_stage(result.plans.front().plan));
  CHECK(result.plans.front().prediction->step == filled.plans.front().prediction->step);
}
