#include "planner/analysis/risk.hpp"

#include <cmath>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Two layers of 30 ms on one or two devices: in a pipeline two microbatches take 90 ms and two
/// messages of 10 ms there and back, on one device 120 ms.
Problem two_layers() {
  Problem problem;
  problem.model_name = "chain";
  problem.cluster_name = "test";
  problem.profile = profile_of({layer_cost(10ms, 20ms), layer_cost(10ms, 20ms)});
  for (LayerCost& cost : problem.profile.entries.front().layers) {
    cost.output = 1'000'000;
    cost.saved = 1'000'000;
  }
  problem.cluster = cluster_of({{.count = 2, .link = link_of(0ms, 100'000'000)}});
  problem.global_batch = 2;
  problem.microbatches = {1};
  problem.schedules = {{.name = "1f1b"}};
  problem.straight = true;
  return problem;
}

Risk risk_of(std::string_view name, const Spreads& spreads) {
  return {.level = risk_level(name),
          .compute = spreads.compute,
          .communication = spreads.communication,
          .memory = spreads.memory};
}

SearchResult planned(const Problem& problem, std::string_view level, const Spreads& spreads) {
  return search_at_risk(search_exact, problem, {}, risk_of(level, spreads));
}

std::size_t stages(const SearchResult& result) {
  return result.plans.at(0).plan.stages.size();
}

Compiled compiled(const Problem& problem, const Plan& plan) {
  return compile(plan, problem.profile, problem.cluster);
}

}  // namespace

TEST_CASE("p50 is the prediction, and the step grows with the level and the spreads") {
  const Problem problem = two_layers();
  const SearchResult found = planned(problem, "p50", {0.1, 0.3, 0.1});
  const Plan& plan = found.plans.front().plan;
  const Compiled program = compiled(problem, plan);
  CHECK(step_at(program, {0.1, 0.3, 0.1}, 0) == predict(plan, program).step);
  Duration before{0};
  for (const double deviations : {-2.0, -1.0, 0.0, 0.5, 1.0, 2.0}) {
    const Duration step = step_at(program, {0.1, 0.3, 0.1}, deviations);
    CHECK(step > before);
    before = step;
  }
  CHECK(step_at(program, {0.1, 0.3, 0}, 1) < step_at(program, {0.2, 0.3, 0}, 1));
  CHECK(step_at(program, {0.1, 0.3, 0}, 1) < step_at(program, {0.1, 0.6, 0}, 1));
  CHECK(step_at(program, {0, 0, 0}, 2) == step_at(program, {0, 0, 0}, 0));
}

TEST_CASE("a step of compute alone is log-normal as its layers are") {
  Problem problem = two_layers();
  problem.max_stages = 1;
  const SearchResult found = planned(problem, "p90", {0.2, 0.5, 0});
  const Compiled program = compiled(problem, found.plans.front().plan);
  const double p90 = seconds(step_at(program, {0.2, 0.5, 0}, 1.281552));
  CHECK(p90 == Approx(0.120 * std::exp(0.2 * 1.281552)).epsilon(1e-6));
}

TEST_CASE("a plan that leans on an uncertain link is the best at p50, and not at p90",
          "[seconds]") {
  const Problem problem = two_layers();
  const Spreads spreads{.compute = 0.02, .communication = 1.0, .memory = 0};
  const SearchResult median = planned(problem, "p50", spreads);
  const SearchResult careful = planned(problem, "p90", spreads);
  CHECK(stages(median) == 2);
  CHECK(median.plans[0].prediction->step < 120ms);
  REQUIRE(stages(careful) == 1);
  CHECK(careful.plans[0].prediction->step == 120ms);
  CHECK(!careful.proved_optimal);
  CHECK(careful.lower_bound <= median.plans[0].prediction->step);
  // What is chosen is better at its level than what the other level chooses.
  const auto at_90 = [&](const SearchResult& result) {
    return interval_of(compile_for(problem, result.plans[0].plan), spreads, risk_level("p90"))
        .level;
  };
  CHECK(at_90(careful) < at_90(median));
  // Links that are sure keep the pipeline.
  CHECK(stages(planned(problem, "p90", {0.02, 0.01, 0})) == 2);
}

TEST_CASE("memory must fit at the level, too", "[seconds]") {
  Problem problem = two_layers();
  const SearchResult free = planned(problem, "p50", {});
  Bytes most = 0;
  for (const MemoryPeak& peak : free.plans[0].prediction->peaks) most = std::max(most, peak.bytes);
  problem.cluster = cluster_of({{.count = 2, .link = link_of(0ms, 100'000'000)}}, most + most / 20);
  const Spreads spreads{.compute = 0.01, .communication = 0.01, .memory = 0.1};
  CHECK(stages(planned(problem, "p50", spreads)) == 2);
  CHECK(memory_at(most, spreads, 1.281552) > most + most / 20);
  const SearchResult careful = planned(problem, "p90", spreads);
  if (careful.plans.empty()) {
    REQUIRE(careful.infeasible);
  } else {
    for (const MemoryPeak& peak : careful.plans[0].prediction->peaks)
      CHECK(memory_at(peak.bytes, spreads, 1.281552) <= most + most / 20);
  }
}

TEST_CASE("measured layers are as uncertain as they varied, and levels have names") {
  Profile profile = profile_of({layer_cost(1ms, 2ms)});
  CHECK(spreads_for(profile, Provenance::measured).compute == Approx(0.04));
  profile.entries.front().layers.front().spread = 0.5;
  CHECK(spreads_for(profile, Provenance::measured).compute == Approx(0.5 / 2.563));
  const Spreads fitted = spreads_for(profile, Provenance::fitted);
  const Spreads datasheet = spreads_for(profile, Provenance::datasheet);
  CHECK(fitted.compute < datasheet.compute);
  CHECK(fitted.communication < datasheet.communication);
  CHECK_THAT(message_of([] { risk_level("p9"); }), ContainsSubstring("unknown risk \"p9\""));
  const Compiled program = compiled(two_layers(), planned(two_layers(), "p50", {}).plans[0].plan);
  CHECK(spreads_of({.level = risk_level("p90"), .memory = 0.5}, profile, program) ==
        Spreads{.compute = 0.5 / 2.563, .communication = 0.40, .memory = 0.5});
  // One that was held up a thousand times as long still leaves a step that can be told.
  profile.entries.front().layers.front().spread = 1000;
  CHECK(step_at(program, spreads_for(profile, Provenance::measured), 2.326) >
        step_at(program, spreads_for(profile, Provenance::datasheet), 2.326));
  Problem problem = two_layers();
  problem.objective = ObjectiveKind::latency;
  CHECK(exit_code_of([&] { planned(problem, "p90", {}); }) == 2);
}

TEST_CASE("a plan along another order of the layers is compiled in that order") {
  Problem problem = two_layers();
  problem.profile = profile_of(
      {layer_cost(6ms, 12ms), layer_cost(9ms, 18ms), layer_cost(4ms, 8ms), layer_cost(1ms, 2ms)});
  problem.profile.model.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const SearchResult found = search_exact(problem, {});
  const Candidate& best = found.plans.at(0);
  REQUIRE(best.plan.order == std::vector{0, 2, 1, 3});
  const Compiled program = compile_for(problem, best.plan);
  CHECK(step_at(program, {}, 0) == best.prediction->step);
}

TEST_CASE("rates fall as steps grow, and several levels at once are as one by one") {
  const StepInterval interval{.p10 = 80ms, .p50 = 100ms, .p90 = 125ms};
  const RateRange range = range_of(1000, interval);
  CHECK(range.low == Approx(800));
  CHECK(range.high == Approx(1250));
  const Problem problem = two_layers();
  const Spreads spreads{.compute = 0.1, .communication = 0.3};
  const Compiled program = compiled(problem, planned(problem, "p50", spreads).plans[0].plan);
  const std::vector<double> levels{-1.0, 0.0, 2.0};
  std::vector<Duration> one_by_one;
  for (const double level : levels) one_by_one.push_back(step_at(program, spreads, level));
  CHECK(steps_at(program, spreads, levels) == one_by_one);
}
