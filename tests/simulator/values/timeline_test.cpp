#include "simulator/values/timeline.hpp"

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Span span(int device, Lane lane, Instruction instruction, Duration start, Duration end) {
  return {.device = device,
          .lane = lane,
          .instruction = instruction,
          .peer = {},
          .iteration = 0,
          .start = start,
          .end = end};
}

/// Two devices; the second starts late, waits 10 between forward and backward, and updates for 5.
Timeline example() {
  return {.devices = 2,
          .stages = 2,
          .microbatches = 1,
          .spans = {span(0, Lane::compute, {Op::forward, 0, 0}, 0ns, 10ns),
                    span(0, Lane::send, {Op::send_activation, 0, 0}, 10ns, 15ns),
                    span(0, Lane::compute, {Op::backward, 0, 0}, 60ns, 80ns),
                    span(0, Lane::compute, {Op::update, 0, 0}, 90ns, 90ns),
                    span(1, Lane::compute, {Op::forward, 1, 0}, 15ns, 25ns),
                    span(1, Lane::compute, {Op::backward_input, 1, 0}, 35ns, 45ns),
                    span(1, Lane::compute, {Op::backward_weight, 1, 0}, 45ns, 60ns),
                    span(1, Lane::compute, {Op::update, 1, 0}, 60ns, 65ns)},
          .memory = {}};
}

}  // namespace

TEST_CASE("a timeline's numbers are read off its spans") {
  const Timeline timeline = example();
  CHECK(step_time(timeline) == 90ns);
  CHECK(busy_times(timeline) == std::vector<Duration>{30ns, 35ns});
  // An update without duration does not lengthen a device's span, a real one does.
  CHECK(span_times(timeline) == std::vector<Duration>{80ns, 50ns});
  CHECK(bubble(timeline) == Approx(1 - 32.5 / 90));
  CHECK(span_bubble(timeline) == Approx(1 - 30.0 / 80));
  CHECK(peak_in_flight(timeline) == std::vector{1, 1});
  CHECK(messages_sent(timeline, Op::send_activation) == std::vector{1, 0});
  CHECK(messages_sent(timeline, Op::send_gradient) == std::vector{0, 0});
}

TEST_CASE("a step is counted from its first start") {
  Timeline timeline = example();
  for (Span& item : timeline.spans) {
    item.start += 1s;
    item.end += 1s;
  }
  CHECK(step_time(timeline) == 90ns);
  CHECK(span_times(timeline) == std::vector<Duration>{80ns, 50ns});
}

TEST_CASE("a timeline without spans has no time and no bubble") {
  const Timeline empty{.devices = 2, .stages = 1, .microbatches = 1, .spans = {}, .memory = {}};
  CHECK(step_time(empty) == 0ns);
  CHECK(bubble(empty) == 0);
  CHECK(span_bubble(empty) == 0);
  CHECK(span_times(empty) == std::vector<Duration>{0ns, 0ns});
}

TEST_CASE("a peak is the first of the highest samples, with what it consists of") {
  const auto use = [](Bytes activations, Bytes workspace) {
    MemoryUse bytes{};
    bytes[static_cast<std::size_t>(MemoryCategory::activations)] = activations;
    bytes[static_cast<std::size_t>(MemoryCategory::workspace)] = workspace;
    return bytes;
  };
  Timeline timeline = example();
  timeline.memory = {{{0ns, use(10, 0)}, {5ns, use(10, 20)}, {9ns, use(30, 0)}, {12ns, use(0, 0)}},
                     {}};
  const std::vector<MemoryPeak> peaks = memory_peaks(timeline);
  REQUIRE(peaks.size() == 2);
  CHECK(peaks[0].bytes == 30);
  CHECK(peaks[0].time == 5ns);
  CHECK(peaks[0].use == use(10, 20));
  CHECK(peaks[1].bytes == 0);
}
