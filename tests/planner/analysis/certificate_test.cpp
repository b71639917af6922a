#include "planner/analysis/certificate.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "planner/problem/question.hpp"
#include "planner/strategies.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"
#include "tests/planner/mixed_cases.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// The best plan, as `plan` would write it; nothing if none fits.
std::optional<Plan> best_plan(const Problem& problem) {
  SearchControl control;
  control.explain = false;
  const SearchResult result = search_exact(problem, control);
  if (result.plans.empty()) return {};
  return result.plans.front().plan;
}

Problem small_problem() {
  const std::vector<LayerCost> costs(5, layer_cost(10us, 20us));
  return problem_of(profile_of(costs), cluster_of({{2, link_of(1us, 1'000'000'000)}}), 4, {1});
}

double gap_between(Duration bound, Duration step) {
  return seconds(step - bound) / seconds(step);
}

/// With everything recomputing, which takes longer; nothing where that was not asked for, or is no
/// longer than the bound.
std::optional<Plan> recomputing(Plan plan, const Problem& problem) {
  const auto& allowed = problem.recompute;
  if (std::find(allowed.begin(), allowed.end(), Recompute::full) == allowed.end()) return {};
  for (Stage& stage : plan.stages) stage.recompute = Recompute::full;
  const Prediction prediction = predict(plan, problem.profile, problem.cluster);
  if (!prediction.fits || prediction.step <= plan.search->lower_bound) return {};
  plan.predicted->step = prediction.step;
  plan.predicted->bubble = prediction.bubble;
  plan.predicted->peak_memory = device_peaks(plan, prediction);
  plan.search->proved_optimal = false;
  plan.search->gap = gap_between(plan.search->lower_bound, prediction.step);
  return plan;
}

Verification verified(const Plan& plan, const Problem& problem) {
  return verify_bound(plan, problem.profile, problem.cluster);
}

}  // namespace

TEST_CASE("every bound of the exact search holds, and no higher one does",
          "[certificate][seconds]") {
  int plans = 0, listed = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Problem problem = seed % 3 == 0   ? problem_with_columns(seed)
                            : seed % 3 == 1 ? random_problem(seed, {5, 4})
                                            : random_mixed(seed, {4, 3});
    auto plan = best_plan(problem);
    if (!plan || !plan->search->question) continue;
    ++plans;
    const Verification right = verified(*plan, problem);
    CHECK(right.fault.empty());
    CHECK(right.step == plan->predicted->step);
    CHECK(right.settings == right.by_work + right.by_listing + right.by_search);
    listed += right.by_search == 0 ? 1 : 0;
    if (!plan->search->proved_optimal || plan->predicted->step == 0ns) continue;
    // A worse plan with the same claim: what is better must turn up.
    plan->search->lower_bound += 1ns;
    CHECK_FALSE(verified(*plan, problem).holds());
    if (const auto worse = recomputing(*plan, problem))
      CHECK_THAT(verified(*worse, problem).fault, ContainsSubstring("less than the bound"));
  }
  CHECK(plans > 30);
  CHECK(listed > plans / 2);
}

TEST_CASE("the bound of a plan whose stages have several degrees holds, and no higher one does",
          "[certificate][seconds]") {
  int plans = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    INFO("seed " << seed);
    const Problem problem = with_degrees(seed);
    auto plan = best_plan(problem);
    if (!plan || !is_mixed_chain(Space(problem), *plan)) continue;
    ++plans;
    REQUIRE(plan->search->gap == 0);
    const Verification right = verified(*plan, problem);
    CHECK(right.fault.empty());
    CHECK(right.settings == static_cast<int>(Space(problem).settings().size()) + 1);
    // Of one degree nothing is as good: what refutes this is a plan of several.
    plan->search->lower_bound += 1ns;
    if (const auto worse = recomputing(*plan, problem))
      CHECK_THAT(verified(*worse, problem).fault, ContainsSubstring("less than the bound"));
  }
  CHECK(plans > 3);
}

TEST_CASE("a question is the same after a plan was written and read", "[certificate][seconds]") {
  int plans = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    Problem problem = random_mixed(seed, {4, 3});
    problem.max_stages = 3;
    problem.fixed = {{.stage = 0, .layers = {0, 1}}};
    const Question question = question_of(problem);
    auto plan = best_plan(problem);
    if (!plan || !plan->search->question) continue;
    ++plans;
    REQUIRE(plan->search->question == question);
    CHECK(read_plan(Json::parse(write_plan(*plan), "plan")).search->question == question);
    const Problem again = problem_of(question, *plan, problem.profile, problem.cluster);
    CHECK(question_of(again) == question);
  }
  CHECK(plans > 10);
}

TEST_CASE("plans of pinned degrees carry their question, and are verified among such plans",
          "[certificate]") {
  const std::vector<LayerCost> costs(8, layer_cost(10us, 20us));
  Problem problem =
      problem_of(profile_of(costs, 4), cluster_of({{4, link_of(1us, 1'000'000'000)}}), 16, {4});
  problem.microbatch_per_copy = true;
  const std::optional<Plan> free = best_plan(problem);
  REQUIRE(free);
  for (const PinnedDegrees& pins :
       {PinnedDegrees{.pipeline = 2, .replicas = 2}, PinnedDegrees{.pipeline = 4},
        PinnedDegrees{.replicas = 4}, PinnedDegrees{.samples_per_replica = true}}) {
    problem.pinned = pins;
    std::optional<Plan> plan = best_plan(problem);
    REQUIRE(plan);
    REQUIRE(plan->search->question);
    CHECK(plan->search->question->pinned == pins);
    const Question read = *read_plan(Json::parse(write_plan(*plan), "plan")).search->question;
    CHECK(read == question_of(problem));
    // Other plans that are faster refute nothing.
    CHECK(verified(*plan, problem).fault.empty());
    if (plan->stages.size() != free->stages.size()) {
      Plan other = *free;
      other.search->question = plan->search->question;
      CHECK_THAT(verified(other, problem).fault, ContainsSubstring("none of those"));
    }
    if (!plan->search->proved_optimal) continue;
    plan->search->lower_bound += 1ns;
    CHECK_FALSE(verified(*plan, problem).holds());
  }
}

TEST_CASE("a plan without a proof cannot be verified", "[certificate]") {
  const Problem problem = small_problem();
  auto plan = best_plan(problem);
  REQUIRE(plan);
  plan->search->question.reset();
  CHECK_THAT(message_of([&] { verified(*plan, problem); }), ContainsSubstring("carries no proof"));
  plan->search.reset();
  CHECK_THAT(message_of([&] { verified(*plan, problem); }), ContainsSubstring("nobody searched"));
}

TEST_CASE("a claim that contradicts itself is refused", "[certificate]") {
  const Problem problem = small_problem();
  auto plan = best_plan(problem);
  REQUIRE(plan);
  plan->search->lower_bound = plan->predicted->step + 1ns;
  CHECK_THAT(verified(*plan, problem).fault, ContainsSubstring("the plan itself takes"));
  plan->search->lower_bound = 1ns;
  plan->search->proved_optimal = true;
  CHECK_THAT(verified(*plan, problem).fault, ContainsSubstring("is called optimal"));
}

TEST_CASE("a gap or a peak that is not the plan's own is refused", "[certificate]") {
  Problem problem = small_problem();
  for (LayerCost& cost : problem.profile.entries.front().layers) cost.parameters = 1000;
  problem.cluster.kinds.front().memory_unlimited = false;
  problem.cluster.kinds.front().memory = 1 << 20;
  problem.cluster.kinds.front().reserve = 1 << 10;
  const auto plan = best_plan(problem);
  REQUIRE(plan);
  REQUIRE(verified(*plan, problem).holds());
  Plan changed = *plan;
  changed.search->gap = 0.001;
  CHECK_THAT(verified(changed, problem).fault, ContainsSubstring("says that its gap is 0.001"));
  // A lower bound than could be proved holds, with the gap that it has.
  changed.search->proved_optimal = false;
  changed.search->lower_bound = plan->predicted->step / 2;
  changed.search->gap = 0.5;
  CHECK(verified(changed, problem).fault.empty());
  changed.search->gap = 0;
  CHECK_THAT(verified(changed, problem).fault, ContainsSubstring("it is 0.5"));
  changed = *plan;
  --changed.predicted->peak_memory.back();
  CHECK_THAT(verified(changed, problem).fault, ContainsSubstring("but simulated again it needs"));
  changed = *plan;
  changed.predicted->bubble += 0.001;
  CHECK_THAT(verified(changed, problem).fault, ContainsSubstring("says that its bubble is"));
  changed = *plan;
  changed.predicted->peak_memory.pop_back();
  CHECK_THAT(verified(changed, problem).fault, ContainsSubstring("devices need at their peak"));
}

TEST_CASE("a plan that is no answer to its own question is refused", "[certificate]") {
  Problem problem = small_problem();
  for (LayerCost& cost : problem.profile.entries.front().layers) cost.parameters = 1000;
  const auto plan = best_plan(problem);
  REQUIRE(plan);
  REQUIRE(verified(*plan, problem).holds());
  const auto fault = [&](const std::function<void(Plan & plan, Question & question)>& change) {
    Plan changed = *plan;
    change(changed, *changed.search->question);
    return verified(changed, problem).fault;
  };
  CHECK_THAT(fault([](Plan&, Question& question) { question.memory = {Bytes{0}}; }),
             ContainsSubstring("does not fit"));
  CHECK_THAT(fault([](Plan&, Question& question) { question.min_layers_per_stage = 100; }),
             ContainsSubstring("not as asked"));
  CHECK_THAT(fault([](Plan&, Question& question) {
               question.fixed = {{.stage = 0, .layers = {0, 1}}, {.stage = 1, .layers = {1, 2}}};
             }),
             ContainsSubstring("not as asked"));
  CHECK_THAT(fault([](Plan&, Question& question) {
               question.schedules = {{.name = "interleaved", .virtual_stages = 2}};
             }),
             ContainsSubstring("schedule is not among them"));
  CHECK_THAT(fault([](Plan& changed, Question&) { changed.predicted->step -= 1ns; }),
             ContainsSubstring("simulated again it takes"));
}

TEST_CASE("a plan of a kind that was not searched is not called optimal", "[certificate]") {
  // A search by columns begins with the plan of one who may replicate each stage as often as it
  // likes.
  LayerCost large = layer_cost(80ms, 160ms), small = layer_cost(5ms, 10ms);
  small.parameters = small.gradients = 400'000'000;
  Problem problem = problem_of(profile_of({large, small}),
                               cluster_of({{17, link_of(1us, 100'000'000)}}), 48, {1});
  problem.straight = false;
  const SearchResult result = search_exact(problem, {});
  REQUIRE_FALSE(result.plans.empty());
  const Plan& plan = result.plans.front().plan;
  const std::size_t replicas = plan.stages.front().devices.size();
  const bool are_equal = std::ranges::all_of(
      plan.stages, [&](const Stage& stage) { return stage.devices.size() == replicas; });
  REQUIRE_FALSE(are_equal);
  CHECK_FALSE(plan.search->proved_optimal);
  CHECK(plan.search->lower_bound <= result.families.least_left_out());
  // What is the best of those that were searched holds, though this one is faster.
  SearchControl control;
  control.only_scope = true;
  const SearchResult searched = search_exact(problem, control);
  REQUIRE_FALSE(searched.plans.empty());
  const Candidate& best = searched.plans.front();
  CHECK(pace(*best.prediction) > pace(*result.plans.front().prediction));
  CHECK(best.plan.search->lower_bound > pace(*result.plans.front().prediction));
  CHECK_FALSE(best.plan.search->scope.empty());
  CHECK(verified(best.plan, problem).fault.empty());
}

TEST_CASE("a bound of some plans is not taken for one of all", "[certificate]") {
  // More devices than are walked through: what is proved are equal replicas in lockstep.
  std::vector<LayerCost> costs(4, layer_cost(40us, 80us));
  const std::array<Bytes, 4> outputs{4'000, 200'000, 4'000, 0};
  for (std::size_t layer = 0; layer < costs.size(); ++layer) costs[layer].output = outputs[layer];
  Problem problem =
      problem_of(profile_of(costs, 4), cluster_of({{18, link_of(0us, 1'000'000'000)}}), 4, {4});
  problem.schedules = {{.name = "zb-h1"}, {.name = "1f1b"}};
  auto plan = best_plan(problem);
  REQUIRE(plan);
  REQUIRE(plan->search->question);
  REQUIRE_FALSE(plan->search->scope.empty());
  REQUIRE(verified(*plan, problem).holds());
  plan->search->scope.clear();
  CHECK_THAT(verified(*plan, problem).fault, ContainsSubstring("could be proved again"));
}

TEST_CASE("peaks are the plan's own with what devices reserve, or without where all may be used",
          "[certificate]") {
  Problem problem = small_problem();
  for (LayerCost& cost : problem.profile.entries.front().layers) cost.parameters = 1000;
  const Cluster reserving = [&] {
    Cluster cluster = problem.cluster;
    for (DeviceKind& kind : cluster.kinds) {
      kind.memory_unlimited = false;
      kind.memory = 1'000'000;
      kind.reserve = 100'000;
    }
    return cluster;
  }();
  Problem given = problem;
  given.cluster = reserving;
  for (DeviceKind& kind : given.cluster.kinds) kind.reserve = 0;  // as of other files
  problem.cluster = reserving;
  for (const Problem& asked : {problem, given}) {
    const auto plan = best_plan(asked);
    REQUIRE(plan);
    CHECK(verify_bound(*plan, asked.profile, reserving).fault.empty());
  }
}
