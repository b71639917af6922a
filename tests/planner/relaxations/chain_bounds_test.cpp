#include "planner/relaxations/chain_bounds.hpp"

#include "planner/layouts/layouts.hpp"
#include "planner/plan/plan.hpp"
#include "planner/relaxations/bisection.hpp"
#include "planner/search/enumerate/chains.hpp"
#include "planner/timing/fast_clock.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/random_layouts.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// One device under 1F1B with a window of K, and a world behind it that answers every forward after
/// D.
Time step_of_one_device(Time forward, Time backward, Time round_trip, int window, int m) {
  std::vector<Time> answer(static_cast<std::size_t>(m));
  Time now = 0;
  int next = 0;
  const auto run_forward = [&] {
    now += forward;
    answer[static_cast<std::size_t>(next++)] = now + round_trip;
  };
  while (next < std::min(window, m)) run_forward();
  for (int k = 0; k < m; ++k) {
    now = std::max(now, answer[static_cast<std::size_t>(k)]) + backward;
    if (next < m) run_forward();
  }
  return now;
}

/// The most that any stage of the layout says of its step, if all that is known of the others is
/// what they are.
Time bound_along(const ChainBounds& bounds, const Layout& layout) {
  struct Place {
    LayerRange layers;
    int device = 0;
    Head head;
    StageChoice choice;
  };
  std::vector<Place> places;
  const StageBounds& stage = bounds.stage(bounds.kinds().front());
  const int stages = layout.stages();
  int device = 0;
  for (int s = 0; s < stages; ++s) {
    const auto i = static_cast<std::size_t>(s);
    Place place{.layers = {layout.cuts[i], layout.cuts[i + 1]}, .device = device};
    if (s > 0) {
      const Place& before = places.back();
      place.head = bounds.after(before.head, before.choice, layout.replicas[i - 1], device,
                                layout.replicas[i], place.layers.first);
    } else {
      place.head = StageBounds::start();
    }
    const auto choice = stage.choose(place.layers, device, layout.replicas[i], stages - s);
    REQUIRE(choice);
    place.choice = *choice;
    places.push_back(place);
    device += layout.replicas[i];
  }
  Time least = 0;
  Beyond beyond{.round_trip = 0, .tie = 0, .last_replicas = layout.replicas.back(), .others = {}};
  for (int s = stages - 1; s >= 0; --s) {
    const auto i = static_cast<std::size_t>(s);
    const auto& [layers, at, head, choice] = places[i];
    least = std::max(least,
                     stage.bound(head, choice, layers, at, layout.replicas[i], stages - s, beyond));
    if (s == 0) break;
    const Place& before = places[i - 1];
    const Time messages = head.fill_and_return - before.head.fill_and_return - before.choice.fill -
                          before.choice.drain;
    beyond.round_trip += choice.fill + choice.drain + messages;
    beyond.others = most_of(beyond.others, choice.others);
  }
  return least;
}

}  // namespace

TEST_CASE("round trip gaps never exceed what one device must idle", "[bounds]") {
  for (std::uint32_t seed = 0; seed < 20000; ++seed) {
    Random random(seed);
    const Time forward = random.between(0, 30), backward = random.between(0, 30);
    const Time round_trip = random.between(0, 400);
    const int window = random.between(1, 8), m = random.between(1, 20);
    const Time gaps = round_trip_gaps(forward, backward, round_trip, window, m);
    const Time step = step_of_one_device(forward, backward, round_trip, window, m);
    INFO("f " << forward << " g " << backward << " D " << round_trip << " K " << window << " m "
              << m);
    REQUIRE(m * (forward + backward) + gaps <= step);
  }
}

TEST_CASE("for equal stages the bound is the step itself", "[bounds]") {
  const std::string name = GENERATE("1f1b", "gpipe", "zb-h1");
  const int p = GENERATE(1, 5);
  const int m = GENERATE(1, 2, 7, 8);
  using namespace std::chrono_literals;
  Problem problem = problem_of(profile_of(std::vector<LayerCost>(5, layer_cost(10ns, 20ns))),
                               cluster_of({{p, {}}}), m, {1}, {name});
  problem.straight = true;
  problem.max_stages = p;
  problem.use_fewer_devices = false;
  const Space space(problem);
  ChainBounds bounds(space, space.settings().front());
  const Time step = Time{m + p - 1} * 30 * (5 / p);
  if (name == "zb-h1") {
    // As simulator/schedules/zb_h1.cpp has it, of parts that are equally long.
    if (m < p) return;
    const Time split = step - Time{p - 1} * 20;
    CHECK(bounds.probe(split));
    CHECK_FALSE(bounds.probe(split - 1));
    return;
  }
  CHECK(bounds.probe(step));
  CHECK_FALSE(bounds.probe(step - 1));
}

TEST_CASE("under GPipe the bound is the step itself however unlike stages are", "[bounds]") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const int p = random.between(1, 6), m = random.between(1, 9);
    std::vector<LayerCost> costs;
    Time all = 0, forward = 0, backward = 0;
    for (int i = 0; i < p; ++i) {
      const Duration there{random.between(0, 50)}, back{random.between(0, 50)};
      costs.push_back(layer_cost(there, back));
      all += (there + back).count();
      forward = std::max<Time>(forward, there.count());
      backward = std::max<Time>(backward, back.count());
    }
    Problem problem =
        problem_of(profile_of(std::move(costs)), cluster_of({{p, {}}}), m, {1}, {"gpipe"});
    problem.straight = true;
    problem.use_fewer_devices = false;
    problem.recompute = {Recompute::none};
    const Space space(problem);
    ChainBounds bounds(space, space.settings().front());
    INFO("seed " << seed << ", " << p << " stages, " << m << " microbatches");
    const Time step = all + (m - 1) * (forward + backward);
    CHECK(bounds.probe(step));
    CHECK_FALSE(bounds.probe(step - 1));
  }
}

TEST_CASE("no stage of a layout says more than its step", "[bounds][seconds]") {
  const std::string name = GENERATE("1f1b", "gpipe", "zb-h1", "zb-h2");
  int in_turn = 0, exact = 0;
  for (std::uint32_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    Problem problem = seed % 3 == 0 ? random_mixed(seed, {8, 6}) : random_problem(seed, {8, 6});
    for (ScheduleChoice& choice : problem.schedules) choice = {.name = name};
    problem.global_batch = problem.microbatches.front() * random.between(1, 12);
    problem.recompute = {random.chance(50) ? Recompute::none : Recompute::full};
    for (DeviceKind& kind : problem.cluster.kinds) kind.memory_unlimited = true;
    const Space space(problem);
    for (const Setting& setting : space.settings()) {
      const std::vector<int> replicas = random_replicas(random, space, setting);
      FastClock clock(space, setting);
      if (replicas.empty() || clock.order_for(replicas) == nullptr) continue;
      const auto stages = static_cast<int>(replicas.size());
      const Layout layout{.replicas = replicas,
                          .cuts = random_cuts(random, space.layers(), stages),
                          .recompute = std::vector(replicas.size(), problem.recompute.front())};
      const Candidate candidate = space.evaluate("", space.plan(setting, layout));
      INFO(name << ", seed " << seed << "\n" << write_plan(candidate.plan) << candidate.rejected);
      REQUIRE(candidate.prediction);
      const Time step = candidate.prediction->step.count();
      const Time bound = bound_along(ChainBounds(space, setting), layout);
      REQUIRE(bound <= step);
      exact += bound == step ? 1 : 0;
      in_turn += setting.replicas == ReplicaPolicy::round_robin && stages > 1 ? 1 : 0;
    }
  }
  CHECK(in_turn > 100);
  CHECK(exact > 100);
}

TEST_CASE("a bound never exceeds the step of any plan it covers", "[bounds][seconds]") {
  const std::string name = GENERATE("1f1b", "gpipe", "zb-h1", "zb-h2");
  for (std::uint32_t seed = 0; seed < (is_watched ? 50 : 150); ++seed) {
    Problem problem = random_problem(seed + 300, {5, 4});
    for (ScheduleChoice& choice : problem.schedules) choice = {.name = name};
    problem.devices = device_count(problem.cluster);  // as they come
    const SearchResult best = search_brute_force(problem, {});
    if (best.plans.empty()) continue;
    const Time step = best.plans.front().prediction->step.count();
    const Space space(problem);
    REQUIRE(std::ranges::all_of(space.settings(), has_chain_bounds));
    const auto [open, least] = bounded(space, step);
    INFO(name << ", seed " << seed);
    CHECK(least <= step);
    CHECK(open);
  }
}

TEST_CASE("bisection raises a bound to the first limit that something meets", "[bounds]") {
  for (const Time first : {Time{0}, Time{1}, Time{37}, Time{99}, Time{100}}) {
    int probes = 0;
    const auto probe = [&](Time limit) {
      ++probes;
      return limit >= first;
    };
    const auto to_the_end = [](Time least, Time& high) { return least < high; };
    CHECK(raise_by_bisection(0, 100, to_the_end, probe) == first);
    CHECK(probes <= 7);
    // An incumbent that is found meanwhile ends it.
    const auto to_incumbent = [](Time least, Time& high) {
      high = std::min<Time>(high, 40);
      return least < high;
    };
    CHECK(raise_by_bisection(0, 100, to_incumbent, probe) == std::min<Time>(first, 40));
  }
}

TEST_CASE("a probe that is to stop tells nothing: not even that there is no plan", "[bounds]") {
  std::stop_source stop;
  stop.request_stop();
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Problem problem = random_problem(seed, {5, 4});
    for (ScheduleChoice& choice : problem.schedules) choice = {.name = "1f1b"};
    const Space space(problem);
    for (const Setting& setting : space.settings()) {
      ChainBounds bounds(space, setting);
      CHECK(bounds.probe(0, stop.get_token()));
      for (int stages = 1; stages <= bounds.most_stages(); ++stages) {
        CHECK_FALSE(bounds.is_open(stages));
      }
    }
  }
}
