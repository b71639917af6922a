#include "simulator/schedules/variants.hpp"

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

namespace stagecraft {
namespace {

using namespace tests;

TEST_CASE("Microbatches held are the closed forms of each schedule's memory") {
  const auto held = [](std::string_view name, const ScheduleShape& shape) {
    return microbatches_held(find_schedule(name).generate(shape));
  };
  const ScheduleShape plain{.devices = 4, .microbatches = 8};
  CHECK(held("gpipe", plain) == 8);
  CHECK(held("1f1b", plain) == 4);
  CHECK(held("dapple-pb", plain) == 7);
  CHECK(held("zb-h1", plain) == 4);
  CHECK(held("zb-h2", plain) == 7);
  // Chunks of half a device: 2(p - 1) + (v - 1)p + 1 = 11, 2p = 8, p + 2 = 6.
  const ScheduleShape halves{.devices = 4, .microbatches = 8, .virtual_stages = 2};
  CHECK(held("interleaved", halves) == 5.5);
  CHECK(held("zb-v", halves) == 4);
  CHECK(held("v-half", halves) == 3);
}

TEST_CASE("Variants of 1F1B use the memory they are given and no more") {
  const ScheduleKind& kind = find_schedule("1f1b");
  const ScheduleShape shape{.devices = 4, .microbatches = 16};
  for (const int limit : {1, 2, 4, 7, 12, 40}) {
    double most = 0;
    for (const ScheduleShape& variant : variants(kind, shape, limit)) {
      most = std::max(most, microbatches_held(kind.generate(variant)));
      CHECK(microbatches_held(kind.generate(variant)) <= limit);
    }
    CHECK(most == std::min(limit, 16));
  }
}

TEST_CASE("Variants of 1F1B contain its own warm-up and DAPPLE's policy B where they fit") {
  const auto contains = [](int limit, const std::vector<int>& warm_up) {
    const auto all = variants(find_schedule("1f1b"), {.devices = 4, .microbatches = 16}, limit);
    return std::any_of(all.begin(), all.end(),
                       [&](const ScheduleShape& shape) { return shape.warm_up == warm_up; });
  };
  CHECK(contains(4, {4, 3, 2, 1}));
  CHECK(contains(7, {7, 5, 3, 1}));
  CHECK(!contains(6, {7, 5, 3, 1}));
}

TEST_CASE("What a shape sets is not varied, nor what has no knob") {
  const ScheduleShape shape{.devices = 4, .microbatches = 16, .group = {}, .warm_up = {4, 3, 2, 2}};
  CHECK(variants(find_schedule("1f1b"), shape, 16) == std::vector<ScheduleShape>{shape});
  const ScheduleShape plain{.devices = 4, .microbatches = 16};
  CHECK(variants(find_schedule("gpipe"), plain, 16) == std::vector<ScheduleShape>{plain});
  const ScheduleShape in_flight{
      .devices = 4, .microbatches = 16, .group = {}, .warm_up = {}, .in_flight = 6};
  CHECK(variants(find_schedule("zb-auto"), plain, 6) == std::vector<ScheduleShape>{in_flight});
  CHECK(variants(find_schedule("interleaved"),
                 {.devices = 4, .microbatches = 16, .virtual_stages = 2}, 9)
            .size() == 3);
}

TEST_CASE("Each schedule has a variant", "[seconds]") {
  const ScheduleKind& kind = GENERATE(from_range(schedule_kinds));
  for (const ScheduleShape& shape : legal_shapes(kind, 4)) {
    CHECK(!variants(kind, shape, shape.devices).empty());
  }
}

}  // namespace
}  // namespace stagecraft
