#include "planner/bounds/bounds.hpp"

#include "planner/layouts/layouts.hpp"
#include "planner/searches/walk.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/planner/random_layouts.hpp"

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
  if (name == "1f1b" || m >= p) CHECK_FALSE(bounds.probe(step - 1));
}

TEST_CASE("a bound never exceeds the step of any plan it covers", "[bounds]") {
  const std::string name = GENERATE("1f1b", "zb-h1", "zb-h2");
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
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
