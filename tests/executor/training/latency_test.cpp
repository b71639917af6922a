#include "executor/training/latency.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("a request's latency lasts from its first forward to its last") {
  const auto span = [](int stage, int request, int start, int end) {
    return Span{.device = stage,
                .instruction = {Op::forward, stage, request},
                .start = Duration{start},
                .end = Duration{end}};
  };
  const Timeline timeline{
      .devices = 2,
      .stages = 2,
      .microbatches = 2,
      .spans = {span(0, 0, 5, 10), span(0, 1, 10, 15), span(1, 0, 12, 20), span(1, 1, 20, 28)},
      .memory = {}};
  CHECK(request_latencies(timeline) == std::vector{Duration{15}, Duration{18}});
}

TEST_CASE("inference has the losses of the reference, and no more than two requests per stage") {
  const Setting setting{.schedule = "inference", .devices = 3, .microbatches = 30, .rows = 1};
  const Prepared prepared = prepare(setting);
  const RunResult result = run(prepared, {.steps = 2});
  CHECK(first_difference(result, reference(prepared, {.steps = 2})) == "");
  CHECK(result.losses[0] != result.losses[1]);  // other samples, by the same weights
  CHECK(request_latencies(result.timeline).size() == 30);

  std::vector<std::pair<Duration, int>> changes;  // what leaves comes first
  for (const Span& span : result.timeline.spans) {
    if (span.instruction.op != Op::forward) continue;
    if (span.instruction.stage == 0) changes.emplace_back(span.start, 1);
    if (span.instruction.stage == 2) changes.emplace_back(span.end, -1);
  }
  std::sort(changes.begin(), changes.end());
  int under_way = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, under_way += change);
  CHECK(most <= 6);
}

TEST_CASE("what only infers holds weights, and nothing of the requests that have left") {
  const auto peak = [](const std::string& schedule, int microbatches) {
    const Setting setting{.schedule = schedule, .microbatches = microbatches, .rows = 1};
    return run(prepare(setting), {}).peak_memory.front();
  };
  CHECK(peak("inference", 2) == peak("inference", 20));
  CHECK(3 * peak("inference", 2) < peak("gpipe", 2));  // no gradients, no moments
}
