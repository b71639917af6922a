#include "planner/problem/problem.hpp"
#include "planner/analysis/binding.hpp"

#include <algorithm>
#include <stop_token>

#include "planner/search/heuristics/usual_choices.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

TEST_CASE("strategies are found by name, with a suggestion for others", "[search]") {
  CHECK(find_strategy("exact").search == search_with_finer_stages);
  try {
    find_strategy("exakt");
    FAIL("no such strategy");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    CHECK_THAT(error.message(), ContainsSubstring("did you mean \"exact\""));
  }
}

TEST_CASE("every strategy plans, keeps to the problem and says what it did", "[search]") {
  const Strategy& strategy = GENERATE(from_range(strategies));
  INFO(strategy.name);
  CHECK_FALSE(strategy.summary.empty());
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms))),
                               cluster_of({{2, {}}}), 4, {1});
  SearchControl control;
  if (strategy.takes_argument) control.argument = "layer";
  const SearchResult result = strategy.search(problem, control);
  CHECK(result.strategy == strategy.name);
  REQUIRE(result.plans.size() == 1);
  const Plan& plan = result.plans.front().plan;
  validate(plan, problem.profile.model, problem.cluster);
  REQUIRE(plan.predicted);
  CHECK(plan.predicted->step == predict(plan, problem.profile, problem.cluster).step);
  REQUIRE(plan.search);
  CHECK(plan.search->lower_bound <= plan.predicted->step);
}

TEST_CASE("schedules that the search does not count with are refused", "[search]") {
  const auto refusal = [](const std::string& name, ObjectiveKind objective) {
    Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms))),
                                 cluster_of({{2, {}}}), 4, {1}, {name});
    problem.objective = objective;
    try {
      search_exact(problem, {});
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  for (const std::string name : {"pipedream", "pipedream-vertical-sync", "pipedream-2bw"}) {
    CHECK_THAT(refusal(name, ObjectiveKind::step), ContainsSubstring(name + " never drains"));
    CHECK(refusal(name, ObjectiveKind::throughput).empty());
  }
  CHECK_THAT(refusal("1f1b", ObjectiveKind::latency), ContainsSubstring("1f1b trains"));
  CHECK(refusal("inference", ObjectiveKind::latency).empty());
}

TEST_CASE("the usual choices are what a person would try", "[search]") {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(7, layer_cost(1ms, 2ms)), 2),
                               cluster_of({{3, {}}}), 8, {2});
  problem.straight = true;
  const std::vector<Candidate> usual = usual_choices(problem);
  REQUIRE(usual.size() == 5);
  CHECK(usual[0].name == "even split");
  const auto& stages = usual[0].plan.stages;
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].layers.size() == 3);
  CHECK(stages[1].layers.size() == 2);
  CHECK(stages[2].layers.size() == 2);
  // Three replicas cannot share two samples, but they can take turns at four microbatches.
  CHECK(usual[2].name == "data parallelism");
  REQUIRE(usual[2].prediction);
  CHECK(usual[2].plan.replicas == ReplicaPolicy::round_robin);
  CHECK(usual[3].prediction->step == 4 * 21ms);
  // All three replicate everything: nothing is faster without weights.
  CHECK(usual[4].name == "pipedream-released");
  CHECK(usual[4].prediction->step == usual[2].prediction->step);
}

TEST_CASE("a usual choice that does not fit recomputes, or says that it does not fit", "[search]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.saved = 1000;
  Problem problem = problem_of(profile_of({cost, cost}), cluster_of({{2, {}}}, 1500), 4, {1});
  const Candidate even = usual_choices(problem).front();
  CHECK(even.name == "even split, recomputing");
  CHECK(even.prediction->fits);
  problem.recompute = {Recompute::none};
  const Candidate plain = usual_choices(problem).front();
  CHECK(plain.name == "even split");
  CHECK_FALSE(plain.prediction->fits);
}

TEST_CASE("what limits a plan is named with what it would bring", "[search]") {
  Problem problem = problem_of(profile_of({layer_cost(1ms, 2ms), layer_cost(10ms, 20ms)}),
                               cluster_of({{2, {}}}), 8, {1});
  problem.straight = true;
  const SearchResult result = search_exact(problem, {});
  std::vector<Binding> bindings = binding(problem, result.plans.front());
  REQUIRE_FALSE(bindings.empty());
  // Two copies of the model, in opposite directions, share the large stage: 8 of 33 ms in two,
  // instead of 8 of 30 and 3.
  CHECK(bindings[0].what == "schedule");
  CHECK(bindings[0].value == "chimera: step at least 45.7 % shorter (same stages)");
  std::erase_if(bindings, [](const Binding& own) { return own.what == "schedule"; });
  REQUIRE_FALSE(bindings.empty());
  CHECK(bindings[0].what == "compute");
  CHECK(bindings[0].where == "stage 1");
}

TEST_CASE("stopped early, there is a usual choice that fits, and no search for prices",
          "[search][seconds]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1000;
  Problem problem =
      problem_of(profile_of(std::vector<LayerCost>(6, cost)),
                 cluster_of({{4, link_of(1us, 1'000'000)}}), 8, {1}, {"1f1b", "gpipe"});
  std::stop_source source;
  const auto all = usual_choices(problem, source.get_token());
  const Candidate best = search_exact(problem, {}).plans.front();
  CHECK(binding(problem, best, source.get_token()).size() > 1);
  source.request_stop();
  const auto some = usual_choices(problem, source.get_token());
  REQUIRE_FALSE(some.empty());
  CHECK(some.size() < all.size());
  CHECK(std::any_of(some.begin(), some.end(), [](const Candidate& choice) {
    return choice.prediction && choice.prediction->fits;
  }));
  // It is the fastest of them, whichever setting it has.
  Duration fastest = Duration::max(), first = Duration::max();
  for (const Candidate& choice : all) {
    const bool counts = choice.name != "pipedream-released" && choice.prediction->fits;
    if (counts) fastest = std::min(fastest, choice.prediction->step);
  }
  for (const Candidate& choice : some) first = std::min(first, choice.prediction->step);
  CHECK(first == fastest);
  for (const Binding& limit : binding(problem, best, source.get_token())) {
    CHECK(limit.value.find("searched again") == std::string::npos);
  }
}

TEST_CASE("what a small search did not prove is said to be so much at least", "[search][seconds]") {
  // On 24 devices only equal columns are searched, and near the plan.
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms)), 8),
                               cluster_of({{3, link_of(1us, 10'000'000)}, {8, {}}}), 16, {8});
  LayerCost& first = problem.profile.entries.front().layers.front();
  first.parameters = first.gradients = 1'000'000;
  const Candidate best = search_exact(problem, {.effort = 100'000}).plans.front();
  int prices = 0;
  for (const Binding& limit : binding(problem, best)) {
    if (limit.value.find("searched again") == std::string::npos) continue;
    ++prices;
    CHECK_THAT(limit.value, ContainsSubstring("at least"));
    CHECK(limit.saved > 0ns);
  }
  CHECK(prices > 0);
}

TEST_CASE("only strategies that take an argument may be given one", "[search]") {
  CHECK(choose_strategy("exact").strategy->search == search_with_finer_stages);
  CHECK_THROWS_WITH(choose_strategy("exact:9"),
                    ContainsSubstring("exact takes no argument after a colon"));
}
