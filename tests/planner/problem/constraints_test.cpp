// Every strategy with every wish: obeyed, or refused with the flag's name.

#include "planner/problem/constraints.hpp"

#include <algorithm>

#include "planner/space/target_question.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// How to ask, and how to see that a plan keeps to it.
struct Asked {
  unsigned bit;
  void (*ask)(Problem& problem);
  bool (*is_kept)(const Plan& plan);
};

bool all_stages(const Plan& plan, bool (*is_kept)(const Stage&)) {
  return std::all_of(plan.stages.begin(), plan.stages.end(), is_kept);
}

const std::vector<Asked> asked{
    {wish::fix,
     [](Problem& problem) {
       problem.fixed = {{0, {0, 1}}};
     },
     [](const Plan& plan) {
       return plan.stages.front().layers == LayerRange{0, 1};
     }},
    {wish::least_layers, [](Problem& problem) { problem.min_layers_per_stage = 2; },
     [](const Plan& plan) {
       return all_stages(plan, [](const Stage& stage) { return stage.layers.size() >= 2; });
     }},
    {wish::most_stages, [](Problem& problem) { problem.max_stages = 2; },
     [](const Plan& plan) { return plan.stages.size() <= 2; }},
    {wish::straight, [](Problem& problem) { problem.straight = true; },
     [](const Plan& plan) {
       return all_stages(plan, [](const Stage& stage) { return stage.devices.size() == 1; });
     }},
    {wish::exclude, [](Problem& problem) { problem.excluded = {1}; },
     [](const Plan& plan) {
       return all_stages(plan, [](const Stage& stage) {
         return std::none_of(stage.devices.begin(), stage.devices.end(), [](const auto& peers) {
           return std::find(peers.begin(), peers.end(), 1) != peers.end();
         });
       });
     }},
    {wish::recompute, [](Problem& problem) { problem.recompute = {Recompute::full}; },
     [](const Plan& plan) {
       return all_stages(plan,
                         [](const Stage& stage) { return stage.recompute == Recompute::full; });
     }},
    {wish::tensor_parallel, [](Problem& problem) { problem.tensor_parallel = {2}; },
     [](const Plan& plan) {
       return all_stages(plan,
                         [](const Stage& stage) { return stage.devices.front().size() == 2; });
     }},
    {wish::parallelism,
     [](Problem& problem) {
       problem.profile = {.model = builtin_model("tiny-gpt"), .entries = {}};
       problem.cluster = parse_cluster("4xh100");
       problem.sequence = problem.profile.model.sequence;
       problem.parallelism.context = 2;
     },
     [](const Plan& plan) { return plan.parallelism.context == 2; }},
    {wish::target,
     [](Problem& problem) {
       problem.profile = {.model = builtin_model("tiny-gpt"), .entries = {}};
       problem.cluster = parse_cluster("4xh100");
       problem.sequence = problem.profile.model.sequence;
       problem = for_target(problem, find_target("torch"), SaidOfPlans());
     },
     [](const Plan& plan) {
       return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
         return stage.devices.size() == plan.stages.front().devices.size();
       });
     }},
    {wish::pins, [](Problem& problem) { problem.pinned = {.pipeline = 2, .replicas = 2}; },
     [](const Plan& plan) {
       return pipeline_devices(plan) == 2 &&
              all_stages(plan, [](const Stage& stage) { return stage.devices.size() == 2; });
     }},
};

/// Six layers on four devices, measured alone and by two tensor-parallel peers.
Problem six_layers() {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(6, layer_cost(1ms, 2ms))),
                               cluster_of({{4, {}}}), 8, {1});
  problem.profile.entries.push_back(problem.profile.entries.front());
  problem.profile.entries.back().setting.tensor_parallel = 2;
  return problem;
}

}  // namespace

TEST_CASE("every wish has a test of its own", "[wishes]") {
  unsigned all = 0;
  for (const Wish& wish : wishes) {
    all |= wish.bit;
    const auto known = std::find_if(asked.begin(), asked.end(),
                                    [&](const Asked& one) { return one.bit == wish.bit; });
    REQUIRE(known != asked.end());
    Problem problem = six_layers();
    CHECK_FALSE(wish.is_asked(problem));
    known->ask(problem);
    CHECK(wish.is_asked(problem));
  }
  CHECK(all == wish::all);
}

TEST_CASE("strategies obey what they are asked, or refuse it by name", "[wishes][seconds]") {
  const Strategy& strategy = GENERATE(from_range(strategies));
  const Wish& wish = GENERATE(from_range(wishes));
  INFO(strategy.name << " with " << wish.flag);
  const Asked& here = *std::find_if(asked.begin(), asked.end(),
                                    [&](const Asked& one) { return one.bit == wish.bit; });
  Problem problem = six_layers();
  here.ask(problem);
  if ((strategy.obeys & wish.bit) == 0) {
    CHECK_THROWS_WITH(require_obeyed(strategy, problem),
                      ContainsSubstring(std::string(strategy.name)) &&
                          ContainsSubstring("cannot be told " + std::string(wish.flag)));
    return;
  }
  require_obeyed(strategy, problem);
  SearchControl control;
  if (strategy.takes_argument) control.argument = "layer";
  const SearchResult result = strategy.search(problem, control);
  if (result.plans.empty()) {
    REQUIRE(result.infeasible);
    CHECK_FALSE(result.infeasible->reason.empty());
    return;
  }
  CHECK(here.is_kept(result.plans.front().plan));
}

TEST_CASE("our own strategies obey everything", "[wishes]") {
  CHECK(find_strategy("exact").obeys == wish::all);
  CHECK(find_strategy("brute-force").obeys == wish::all);
}
