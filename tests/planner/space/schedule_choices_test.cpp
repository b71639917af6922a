#include "planner/space/schedule_choices.hpp"

#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

TEST_CASE("breadth-first pipelines are usual on up to 64 devices that may be used", "[schedules]") {
  Problem problem =
      problem_of(profile_of({layer_cost(10us, 20us)}), cluster_of({{128, {}}}), 4, {1}, {"1f1b"});
  const auto has_some = [&] {
    return std::ranges::any_of(usual_schedule_choices(problem), [](const ScheduleChoice& choice) {
      return choice.name == "looped-bfs";
    });
  };
  CHECK_FALSE(has_some());
  CHECK(usual_schedule_choices(problem) == all_schedule_choices());
  problem.devices = 65;
  CHECK_FALSE(has_some());
  problem.devices = 64;
  CHECK(has_some());
  problem.devices.reset();
  for (int device = 0; device < 64; ++device) problem.excluded.push_back(device);
  CHECK(has_some());
  // What is usual on more devices comes first.
  const auto all = all_schedule_choices(), usual = usual_schedule_choices(problem);
  CHECK(std::equal(all.begin(), all.end(), usual.begin()));
}
