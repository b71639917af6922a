// Fronts of memory and throughput against all plans there are; shadow prices; absurd questions.

#include "planner/analysis/answers.hpp"

#include <algorithm>

#include "planner/analysis/binding.hpp"
#include "planner/problem/defaults.hpp"
#include "planner/problem/objective.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

using Point = std::pair<Bytes, Duration>;  // peak, time

Point point_of(const Candidate& candidate) {
  return {largest_peak(candidate), pace(*candidate.prediction)};
}

/// By definition: those that no other is at least as good as in both.
std::vector<Point> front_of(const std::vector<Candidate>& plans) {
  std::vector<Point> front;
  for (const Candidate& plan : plans) {
    const Point point = point_of(plan);
    const bool is_beaten = std::any_of(plans.begin(), plans.end(), [&](const Candidate& other) {
      const Point by = point_of(other);
      return by != point && by.first <= point.first && by.second <= point.second;
    });
    if (!is_beaten) front.push_back(point);
  }
  std::sort(front.begin(), front.end(), std::greater<>());
  front.erase(std::unique(front.begin(), front.end()), front.end());
  return front;
}

LayerCost heavy_layer() {
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.saved = Bytes{1} << 29;
  cost.output = 1 << 20;
  cost.parameters = cost.gradients = Bytes{1} << 28;
  return cost;
}

std::vector<std::string> names_of(const std::vector<Binding>& bindings) {
  std::vector<std::string> names;
  for (const Binding& binding : bindings) names.push_back(binding.what);
  return names;
}

std::vector<Binding> limits_of(const Problem& problem) {
  return binding(problem, search_exact(problem, {}).plans.front());
}

}  // namespace

TEST_CASE("the front of memory and throughput is that of all plans", "[answers][seconds]") {
  int larger_fronts = 0;
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    CAPTURE(seed);
    Problem problem = random_problem(seed, {4, 3});
    SearchControl control;
    control.explain = false;
    const SearchResult front = pareto_front(search_exact, problem, control, 1000, 0);
    control.top = 100'000;
    const std::vector<Point> expected = front_of(search_brute_force(problem, control).plans);
    std::vector<Point> found;
    for (const Candidate& plan : front.plans) found.push_back(point_of(plan));
    if (!front.plans.empty() && !front.proved_optimal) {
      // A plan of another planner, which the space does not have, is on the front.
      for (const Point& point : expected) {
        REQUIRE(std::any_of(found.begin(), found.end(), [&](const Point& by) {
          return by.first <= point.first && by.second <= point.second;
        }));
      }
      continue;
    }
    REQUIRE(found == expected);
    if (found.size() > 1) ++larger_fronts;
  }
  CHECK(larger_fronts > 5);
}

TEST_CASE("plans of a front with spacing are the best that need so much less memory",
          "[answers][seconds]") {
  constexpr double spacing = 0.25;
  int left_out = 0;
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    CAPTURE(seed);
    const Problem problem = random_problem(seed, {4, 3});
    SearchControl control;
    control.explain = false;
    const auto all = pareto_front(search_exact, problem, control, 1000, 0).plans;
    const auto some = pareto_front(search_exact, problem, control, 1000, spacing).plans;
    std::vector<Point> expected, found;
    for (const Candidate& plan : all) {
      const Point point = point_of(plan);
      const auto may_have = [](Bytes before) {
        return before -
               std::max<Bytes>(static_cast<Bytes>(spacing * static_cast<double>(before)), 1);
      };
      if (expected.empty() || point.first <= may_have(expected.back().first))
        expected.push_back(point);
    }
    for (const Candidate& plan : some) found.push_back(point_of(plan));
    left_out += static_cast<int>(all.size()) - static_cast<int>(some.size());
    REQUIRE(found == expected);
  }
  CHECK(left_out > 5);
}

TEST_CASE("all plans are looked at once for a front", "[answers]") {
  int larger_fronts = 0;
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    CAPTURE(seed);
    const Problem problem = random_problem(seed, {4, 3});
    SearchControl control;
    control.explain = false;
    const SearchResult all = brute_force_front(problem, control, 1000, 0);
    const SearchResult again = pareto_front(search_brute_force, problem, control, 1000, 0);
    std::vector<Point> found, expected;
    for (const Candidate& plan : all.plans) found.push_back(point_of(plan));
    for (const Candidate& plan : again.plans) expected.push_back(point_of(plan));
    REQUIRE(found == expected);
    CHECK(all.proved_optimal == again.proved_optimal);
    CHECK(all.candidates == search_brute_force(problem, control).candidates);
    if (found.size() > 1) ++larger_fronts;
  }
  CHECK(larger_fronts > 5);
}

TEST_CASE("a front has no more plans than asked for, then its end, and then claims nothing",
          "[answers]") {
  const Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, heavy_layer())),
                                     cluster_of({{2, {}}}), 4, {1});
  REQUIRE(pareto_front(search_exact, problem, {}, 100, 0).plans.size() > 1);
  const SearchResult front = pareto_front(search_exact, problem, {}, 1, 0);
  CHECK(front.plans.size() == 2);
  CHECK_FALSE(front.proved_optimal);
}

TEST_CASE("another planner's front has its plans that fit, each once, and proves nothing",
          "[answers]") {
  const Problem problem = problem_of(profile_of(std::vector<LayerCost>(2, heavy_layer())),
                                     cluster_of({{2, {}}}), 4, {1});
  for (const Strategy& strategy : strategies) {
    if (strategy.takes_argument || strategy.name == "exact" || strategy.name == "brute-force")
      continue;
    CAPTURE(strategy.name);
    const SearchResult front = pareto_front(strategy.search, problem, {}, 100, 0);
    std::vector<Point> found;
    for (const Candidate& plan : front.plans) {
      CHECK(plan.prediction->fits);
      found.push_back(point_of(plan));
    }
    CHECK(found == front_of(front.plans));
    CHECK_FALSE(front.proved_optimal);
  }
  // A schedule of two stages on each device, which Alpa's plans do not have.
  Problem unscored = problem;
  unscored.schedules = {{.name = "zb-v", .virtual_stages = 2}};
  const SearchResult front = pareto_front(search_alpa, unscored, {}, 100, 0);
  REQUIRE(front.plans.size() == 1);
  CHECK_FALSE(front.plans.front().prediction);
}

TEST_CASE("schedules that were not tried have a price where one of them is faster",
          "[answers][seconds]") {
  int faster = 0, equal = 0;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Problem problem = random_problem(seed, {5, 3});
    problem.objective = ObjectiveKind::step;
    problem.schedules = {{.name = "1f1b"}, {.name = "gpipe"}};
    Problem all = problem;
    all.schedules = all_schedule_choices();
    for (const ScheduleChoice& choice : rarer_schedule_choices()) all.schedules.push_back(choice);
    const auto plans = search_exact(problem, {}).plans;
    if (plans.empty() || plans.front().plan.weights != WeightPolicy::flush) continue;
    const SearchResult best = search_exact(all, {});
    const Duration saved = pace(*plans.front().prediction) - pace(*best.plans.front().prediction);
    const std::vector<Binding> limits = binding(problem, plans.front());
    const auto schedule = std::ranges::find(limits, "schedule", &Binding::what);
    if (schedule == limits.end()) {
      CHECK(saved == Duration{0});
      ++equal;
      continue;
    }
    CHECK(schedule->where == plans.front().plan.schedule.name);
    CHECK(schedule->saved == saved);
    CHECK(schedule->value.starts_with(best.plans.front().plan.schedule.name));
    ++faster;
    // Where all are tried there is nothing to say.
    const auto names = names_of(binding(all, best.plans.front()));
    CHECK(std::ranges::find(names, "schedule") == names.end());
  }
  CHECK(faster > 2);
  CHECK(equal > 0);
}

TEST_CASE("what would bring less than is told has no price", "[answers]") {
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.output = 1;
  Problem problem =
      problem_of(profile_of({cost, cost}), cluster_of({{2, link_of(0ns, 100'000'000)}}), 4, {1});
  problem.straight = true;
  const auto names = names_of(limits_of(problem));
  CHECK(std::ranges::find(names, "transfer") == names.end());
  problem.profile.entries.front().layers.front().output = 100'000;
  const auto more = names_of(limits_of(problem));
  CHECK(std::ranges::find(more, "transfer") != more.end());
}

/// Two devices joined by a link; what the second one takes is so many times as long.
Problem on_two_kinds(int times) {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms))),
                               cluster_of({{2, link_of(5us, 1'000'000'000)}}), 4, {1});
  problem.cluster.kinds.front().generic = false;
  problem.cluster.kinds.push_back(problem.cluster.kinds.front());
  problem.cluster.kinds.back().name = "other";
  problem.cluster.devices.back() = 1;
  ProfileEntry other = problem.profile.entries.front();
  other.setting.device = "other";
  for (LayerCost& cost : other.layers) cost = layer_cost(1ms * times, 2ms * times);
  problem.profile.entries.push_back(std::move(other));
  return problem;
}

TEST_CASE("where devices cost, prices are those of the plan's own devices", "[answers]") {
  Problem problem = on_two_kinds(3);
  problem.objective = ObjectiveKind::cost;
  problem.cluster.kinds.front().price_per_hour = 9;
  problem.cluster.kinds.back().price_per_hour = 1;
  const SearchResult found = search_for_objective(search_exact, problem, {});
  REQUIRE(used_devices(found.plans.front().plan) == std::vector{1});
  // Alone, it waits for no link and has all the memory there is.
  const auto names = names_of(binding(problem, found.plans.front()));
  CHECK(std::ranges::find(names, "transfer") == names.end());
  CHECK(std::ranges::find(names, "compute") != names.end());
}

TEST_CASE("twice the bandwidth is that of links of their own, too", "[answers]") {
  LayerCost cost = layer_cost(10ms, 20ms);
  cost.output = 1'000'000;
  cost.parameters = cost.gradients = 1'000'000'000;
  Problem problem =
      problem_of(profile_of({cost, cost}), cluster_of({{2, link_of(0ns, 1'000'000'000)}}), 4, {1});
  const Link slow = link_of(0ns, 100'000'000);
  problem.cluster.overrides = {{0, 1, slow}, {1, 0, slow}};
  const std::vector<Binding> limits = limits_of(problem);
  const auto transfer = std::ranges::find(limits, "transfer", &Binding::what);
  REQUIRE(transfer != limits.end());
  // As with all of them twice as fast from the beginning.
  for (LinkOverride& entry : problem.cluster.overrides) {
    entry.link = link_of(0ns, 200'000'000);
  }
  const Duration slower = transfer->saved + pace(*search_exact(problem, {}).plans[0].prediction);
  problem.cluster.overrides = {{0, 1, slow}, {1, 0, slow}};
  CHECK(slower == pace(*search_exact(problem, {}).plans[0].prediction));
}

TEST_CASE("links that bring more than there is room for have no price", "[answers][seconds]") {
  for (std::uint32_t seed = 50; seed < 80; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<LayerCost> costs;
    for (int layer = 0; layer < 3; ++layer) costs.push_back(random_cost(random));
    Problem problem = problem_of(profile_of(costs), cluster_of({{3, random_link(random)}}), 8, {1});
    problem.straight = true;
    problem.use_fewer_devices = false;
    problem.recompute = {Recompute::none};
    const SearchResult roomy = search_exact(problem, {.explain = false});
    // As much as it takes: what comes earlier may find no room.
    DeviceKind& kind = problem.cluster.kinds.front();
    kind.memory_unlimited = false;
    kind.memory = largest_peak(roomy.plans.front());
    const SearchResult found = search_exact(problem, {.explain = false});
    Problem faster = problem;
    Link& link = faster.cluster.levels.front().link;
    link.point_to_point.bytes_per_second *= 2;
    link.collective.bytes_per_second *= 2;
    const SearchResult then = search_exact(faster, {.explain = false});
    const Candidate& best = found.plans.front();
    const Duration least =
        then.plans.empty() ? Duration::max() : pace(*then.plans.front().prediction);
    for (const Binding& limit : binding(problem, best)) {
      if (limit.what == "transfer") CHECK(pace(*best.prediction) - limit.saved >= least);
    }
  }
}

TEST_CASE("devices that nothing is known of can be left out", "[answers]") {
  Problem problem = on_two_kinds(1);
  problem.profile.entries.pop_back();  // what the other one takes
  const bool excludes = GENERATE(true, false);
  if (excludes) {
    problem.excluded = {1};
  } else {
    problem.devices = 1;
  }
  const auto names = names_of(limits_of(problem));
  CHECK(std::ranges::find(names, "devices") == names.end());
  CHECK(std::ranges::find(names, "compute") != names.end());
}

TEST_CASE("memory that makes stages recompute has a price", "[answers][seconds]") {
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, heavy_layer())),
                               cluster_of({{2, {}}}, Bytes{5} << 29), 8, {1});
  problem.straight = true;
  const std::vector<Binding> limits = limits_of(problem);
  const auto memory = std::find_if(limits.begin(), limits.end(),
                                   [](const Binding& limit) { return limit.what == "memory"; });
  REQUIRE(memory != limits.end());
  // Asked again with as much more memory: the same time is saved.
  Problem roomier = problem;
  for (DeviceKind& kind : roomier.cluster.kinds) kind.memory += Bytes{1} << 30;
  CHECK(memory->saved == pace(*search_exact(problem, {}).plans.front().prediction) -
                             pace(*search_exact(roomier, {}).plans.front().prediction));
  CHECK(memory->saved > 0ms);
}

TEST_CASE("what is in the way of nothing has no price", "[answers]") {
  // One stage on the only device: neither links nor memory nor microbatches matter.
  Problem problem = problem_of(profile_of({layer_cost(10ms, 20ms)}),
                               cluster_of({{1, link_of(1us, 1'000'000)}}, 1 << 20), 8, {1});
  std::vector<std::string> names = names_of(limits_of(problem));
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"compute", "devices"});
  problem.straight = true;
  CHECK(names_of(limits_of(problem)) == std::vector<std::string>{"compute"});
}

TEST_CASE("slow links are the first thing to change or to hide", "[answers]") {
  LayerCost talkative = layer_cost(1ms, 2ms);
  talkative.output = 4'000'000;
  Problem problem = problem_of(profile_of({talkative, talkative}),
                               cluster_of({{2, link_of(0ns, 1'000'000'000)}}), 16, {1});
  problem.straight = true;
  problem.use_fewer_devices = false;
  const std::vector<Binding> limits = limits_of(problem);
  REQUIRE(limits.size() > 1);
  // More microbatches on the way hide the links.
  CHECK(limits.front().what == "schedule");
  CHECK(limits.front().value.starts_with("zb-h2: "));
  CHECK(limits[1].what == "transfer");
  CHECK(limits[1].saved > 16ms);
}

namespace {

struct Absurdity {
  std::string name;
  void (*change)(Problem& problem);
  std::string answer;  ///< part of the error or of the reason; empty: there is a plan
};

const std::vector<Absurdity> absurdities{
    {"no memory",
     [](Problem& p) {
       for (auto& k : p.cluster.kinds) {
         k.memory = 0;
         k.memory_unlimited = false;
       }
     },
     "nothing fits: stage 0 needs"},
    {"one device", [](Problem& p) { p.devices = 1; }, ""},
    {"no devices", [](Problem& p) { p.devices = 0; }, "at least one device"},
    {"layers that cost nothing",
     [](Problem& p) { p.profile.entries[0].layers.assign(4, LayerCost{}); }, ""},
    {"centuries",
     [](Problem& p) { p.profile.entries[0].layers[1].forward = Duration{INT64_MAX / 4}; },
     "days for one microbatch"},
    {"exabytes", [](Problem& p) { p.profile.entries[0].layers[1].saved = INT64_MAX / 4; },
     "PB for one microbatch"},
    {"both ends of the number line",
     [](Problem& p) {
       for (LayerCost& cost : p.profile.entries[0].layers) cost.forward = Duration{INT64_MAX};
     },
     "days for one microbatch"},
    {"days, often",
     [](Problem& p) {
       p.profile.entries[0].layers[1].forward = 200h;
       p.global_batch = 64;
     },
     "expected at most 11"},
    {"a batch that is not divisible",
     [](Problem& p) {
       p.global_batch = 7;
       p.microbatches = {2};
     },
     "does not divide"},
    {"billions of microbatches", [](Problem& p) { p.global_batch = std::int64_t{1} << 40; },
     "expected at most 10000000"},
    {"no microbatch sizes", [](Problem& p) { p.microbatches.clear(); }, "no degree asked for"},
    {"more stages than layers", [](Problem& p) { p.min_layers_per_stage = 9; },
     "no plan has the shape asked for"},
};

/// What is said, be it an error or the reason why there is no plan.
std::string answer_to(const Problem& problem) {
  try {
    const SearchResult result = search_exact(problem, {});
    return result.infeasible ? result.infeasible->reason : "";
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

TEST_CASE("absurd questions get one clear answer", "[answers]") {
  for (const Absurdity& absurdity : absurdities) {
    CAPTURE(absurdity.name);
    LayerCost cost = layer_cost(1ms, 2ms);
    cost.parameters = cost.saved = 100;
    Problem problem =
        problem_of(profile_of(std::vector<LayerCost>(4, cost)), cluster_of({{2, {}}}), 4, {1});
    absurdity.change(problem);
    const std::string answer = answer_to(problem);
    if (absurdity.answer.empty()) {
      CHECK(answer.empty());
    } else {
      CHECK_THAT(answer, ContainsSubstring(absurdity.answer));
    }
  }
}

TEST_CASE("remedies that need other devices or lengths are tried, too", "[answers]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1 << 20;
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, cost)),
                               cluster_of({{2, {}}}, Bytes{3} << 20), 4, {1});
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.infeasible);
  const auto& remedies = result.infeasible->remedies;
  CHECK(std::find(remedies.begin(), remedies.end(), "4 such devices (now 2)") != remedies.end());
  problem.cluster = cluster_of({{4, {}}}, Bytes{3} << 20);
  CHECK(search_exact(problem, {}).plans.size() == 1);
}

TEST_CASE("the smallest of larger clusters is found, however large it is", "[answers]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1 << 20;
  const auto remedies_of = [&](std::size_t layers) {
    const Problem problem = problem_of(profile_of(std::vector<LayerCost>(layers, cost)),
                                       cluster_of({{2, {}}}, Bytes{3} << 20), 4, {1});
    const SearchResult result = search_exact(problem, {});
    REQUIRE(result.infeasible);
    return result.infeasible->remedies;
  };
  // A device has room for one layer.
  const auto six = remedies_of(6), sixty = remedies_of(60);
  CHECK(std::find(six.begin(), six.end(), "6 such devices (now 2)") != six.end());
  CHECK(std::find(sixty.begin(), sixty.end(), "64 such devices (now 2)") != sixty.end());
}

TEST_CASE("where experts are what does not fit, expert parallelism is a remedy", "[answers]") {
  if (is_watched) SKIP("searches take long without optimization");
  Problem problem;
  problem.profile.model = builtin_model("mixtral-8x7b");
  problem.cluster = load_cluster("2x8xh100");
  problem.precision = Precision::bfloat16;
  problem.sequence = 2048;
  problem.global_batch = 64;
  problem.microbatches = {8};
  problem.pinned.pipeline = 2;
  problem.schedules = schedule_choices("1f1b");
  problem.optimizer.sharding = Sharding::zero1;
  problem.recompute = {Recompute::none, Recompute::full};
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.infeasible);
  const auto& remedies = result.infeasible->remedies;
  CHECK(std::ranges::any_of(remedies, [](const std::string& remedy) {
    return remedy.starts_with("--expert-parallel ");
  }));
}

TEST_CASE("a front that is not complete ends with the plan that needs least memory", "[answers]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1 << 20;
  cost.saved = 4 << 20;
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(8, cost)),
                               cluster_of({{4, {}}}, Bytes{1} << 30), 8, {1});
  problem.recompute = {Recompute::none, Recompute::full};
  const auto all = pareto_front(search_exact, problem, {}, 1000, 0).plans;
  const auto some = pareto_front(search_exact, problem, {}, 2, 0).plans;
  REQUIRE(all.size() > 3);
  REQUIRE(some.size() == 3);
  CHECK(some[0].plan == all[0].plan);
  CHECK(largest_peak(some[2]) <= largest_peak(all.back()));
}

TEST_CASE("a larger cluster has as many excluded devices in each part", "[answers]") {
  LayerCost cost = layer_cost(1ms, 2ms);
  cost.parameters = cost.gradients = 1 << 20;
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(4, cost)),
                               cluster_of({{4, {}}}, Bytes{3} << 20), 4, {1});
  problem.excluded = {1, 2, 3};
  const SearchResult result = search_exact(problem, {});
  REQUIRE(result.infeasible);
  const auto& remedies = result.infeasible->remedies;
  const std::string_view four = "4 such devices that may be used (now 1)";
  CHECK(std::find(remedies.begin(), remedies.end(), four) != remedies.end());
}

TEST_CASE("devices of several kinds are planned for in what all of them have", "[answers]") {
  DeviceKind old;
  old.name = "old";
  old.flops_fp32 = 1e13;
  old.flops_fp16 = 1e14;
  DeviceKind fast = old;
  fast.name = "fast";
  fast.flops_bf16 = 1e14;
  Cluster cluster;
  cluster.kinds = {fast, old};
  cluster.devices = {0, 0, 1, 1};
  const auto precision = [&](std::optional<int> most, const std::vector<int>& excluded) {
    return usual_precision({}, kinds_in_use(cluster, most, excluded));
  };
  CHECK(precision({}, {}) == Precision::float32);
  CHECK(precision(2, {}) == Precision::bfloat16);
  CHECK(precision({}, {2, 3}) == Precision::bfloat16);
  CHECK(precision(1, {0, 1}) == Precision::float32);
  CHECK_THAT(
      why_usual_precision({}, kinds_in_use(cluster)),
      ContainsSubstring("old has no bf16, which fast") && ContainsSubstring("--precision fp16"));
  CHECK(why_usual_precision({}, kinds_in_use(cluster, 2)).empty());
}

TEST_CASE("brute force says that it tries one order of a branching model's layers", "[answers]") {
  // in -> left, right -> out
  Profile profile = profile_of(std::vector<LayerCost>(4, layer_cost(1ms, 2ms)));
  profile.model.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const std::string_view one_order = "the model's own order of layers";
  Problem problem = problem_of(profile, cluster_of({{2, {}}}), 2, {1});
  const auto said = [&](const SearchResult& result) {
    const auto& notes = result.plans.front().prediction->notes;
    return std::ranges::any_of(
        notes, [&](const std::string& note) { return note.find(one_order) != std::string::npos; });
  };
  CHECK(said(search_brute_force(problem, {})));
  for (LayerCost& cost : problem.profile.entries.front().layers) cost.parameters = 1 << 20;
  problem.cluster = cluster_of({{2, {}}}, 1 << 10);
  const SearchResult none = search_brute_force(problem, {});
  REQUIRE(none.infeasible);
  CHECK_THAT(none.infeasible->reason, ContainsSubstring(std::string(one_order)));
  problem.profile.model.edges = {{0, 1}, {1, 2}, {2, 3}};
  const SearchResult chain = search_brute_force(problem, {});
  REQUIRE(chain.infeasible);
  CHECK(chain.infeasible->reason.find(one_order) == std::string::npos);
}
