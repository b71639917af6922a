// Times that were measured by events: they fit together over all ranks, though the process never
// waited for an instruction.

#include <algorithm>
#include <map>

#include "tests/cuda/stand_in/training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const Span* find(const Timeline& timeline, Op op, int stage, int microbatch) {
  for (const Span& span : timeline.spans) {
    if (span.instruction == Instruction{op, stage, microbatch}) return &span;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a timeline measured by events has every instruction behind what it waited for") {
  using namespace std::chrono_literals;
  const GraphUse graphs = GENERATE(GraphUse::off, GraphUse::on);
  stand_in::set_up({});
  constexpr int microbatches = 4;
  const Prepared prepared =
      prepare({.schedule = "1f1b", .devices = 2, .microbatches = microbatches});
  const RunResult run =
      run_on_stand_in(prepared, {.steps = 5, .cuda = {.graphs = graphs}, .traced_steps = 2});
  require_no_complaints();
  const Timeline& timeline = run.timeline;
  for (int m = 0; m < microbatches; ++m) {
    const Span* first = find(timeline, Op::forward, 0, m);
    const Span* second = find(timeline, Op::forward, 1, m);
    const Span* back = find(timeline, Op::backward, 1, m);
    const Span* last = find(timeline, Op::backward, 0, m);
    REQUIRE((first && second && back && last));
    CHECK(first->end <= second->start);
    CHECK(second->end <= back->start);
    CHECK(back->end <= last->start);
    // On the stand-in a kernel takes a microsecond and more.
    for (const Span* span : {first, second, back, last}) CHECK(span->end - span->start > 10us);
  }
  // One stream does one thing at a time.
  std::map<int, Duration> end_of;
  for (const Span& span : timeline.spans) {
    if (span.lane != Lane::compute) continue;
    CHECK(span.start >= end_of[span.device]);
    end_of[span.device] = span.end;
  }
  CHECK(
      std::ranges::any_of(run.traced.spans, [](const Span& span) { return span.iteration == 1; }));
}
