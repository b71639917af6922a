// Traces as torch.profiler writes them for a program of stagecraft.torch: names and members are
// those of PyTorch 2.15 with gloo.

#include "simulator/views/kineto_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "profiles/error.hpp"
#include "simulator/values/measured_steps.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Start and length in microseconds.
std::string range(const std::string& name, double start, double length) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"{}\", \"pid\": 7, \"tid\": 7, "
      "\"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{\"External id\": 3}}}},\n",
      name, start, length);
}

std::string kernel(int number, double launched, double start, double length) {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 7, "
      "\"tid\": 8, \"ts\": {}, \"dur\": 2, \"args\": {{\"correlation\": {}}}}},\n"
      "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": "
      "{}, "
      "\"dur\": {}, \"args\": {{\"correlation\": {}}}}},\n",
      launched, number, start, length, number);
}

struct Written {
  int rank = 0, processes = 2;
  std::string events;
  long offset = 0;  ///< nanoseconds of the clock
  std::string more;
};

KinetoRunFile file_of(const Written& it) {
  return {
      fmt::format("run/rank{}.json", it.rank),
      fmt::format("{{\"schemaVersion\": 1, \"distributedInfo\": {{\"backend\": \"gloo\", \"rank\": "
                  "{}, \"world_size\": {}}},\n\"stagecraft\": {{\"clock_offset_ns\": {}{}}}, "
                  "\"baseTimeNanoseconds\": 1790857026000000000,\n\"traceEvents\": [{}"
                  "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 7, \"args\": {{}}}}]}}",
                  it.rank, it.processes, it.offset, it.more, it.events)};
}

/// Steps of two stages and two microbatches, 1f1b; each is 1000 us after the one before.
std::string events_of(int rank, int steps, double at = 5e12) {
  std::string text = range("gloo:all_reduce", at - 50, 20);
  for (int step = 0; step < steps; ++step, at += 1000) {
    text += range(fmt::format("step {}", step + 1), at, 900);
    if (rank == 0) {
      text += range("PP:0F0", at + 5, 115) + range("forward stage 0 microbatch 0", at + 10, 100) +
              range("send_activation stage 0 microbatch 0 to rank 1", at + 111, 0.5) +
              range("forward stage 0 microbatch 1", at + 120, 100) +
              range("send_activation stage 0 microbatch 1 to rank 1", at + 221, 0.5) +
              range("backward stage 0 microbatch 0", at + 350, 150) +
              range("backward stage 0 microbatch 1", at + 600, 150) +
              range("update stage 0 microbatch 1", at + 760, 40) +
              range("Optimizer.step#AdamW.step", at + 761, 30);
    } else {
      text += range("forward stage 1 microbatch 0", at + 131, 80) +
              range("backward stage 1 microbatch 0", at + 215, 120) +
              range("send_gradient stage 1 microbatch 0 to rank 0", at + 336, 0.5) +
              range("forward stage 1 microbatch 1", at + 340, 80) +
              range("backward stage 1 microbatch 1", at + 425, 120) +
              range("send_gradient stage 1 microbatch 1 to rank 0", at + 546, 0.5) +
              range("update stage 1 microbatch 1", at + 560, 50);
    }
  }
  return text;
}

std::vector<KinetoRunFile> two_processes(int steps = 2) {
  return {file_of({.rank = 0, .events = events_of(0, steps)}),
          file_of({.rank = 1, .events = events_of(1, steps)})};
}

const Span* find(const Timeline& timeline, int device, const std::string& name, int iteration = 0) {
  const auto found = std::ranges::find_if(timeline.spans, [&](const Span& span) {
    return span.device == device && to_string(span.instruction) == name &&
           span.iteration == iteration;
  });
  return found == timeline.spans.end() ? nullptr : &*found;
}

std::string without(const std::string& text, const std::string& word) {
  std::string kept;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at);
    if (line.find(word) == std::string::npos) kept += line;
    at = end;
  }
  return kept;
}

}  // namespace

TEST_CASE("ranges of a program's processes become the timeline of a run") {
  const std::vector<KinetoRunFile> files = two_processes();
  REQUIRE(is_kineto_run(files[0].content));
  const Trace trace = read_kineto_run({files[1], files[0]});  // in any order
  CHECK(trace.about.at("kind") == "measured");
  CHECK_FALSE(trace.about.contains("busy"));
  const Timeline& timeline = trace.timeline;
  CHECK(timeline.devices == 2);
  CHECK(timeline.stages == 2);
  CHECK(timeline.microbatches == 2);
  // Of each step: five passes on both, four messages with two ends.
  REQUIRE(timeline.spans.size() == 2 * (5 + 5 + 8));
  const Span* forward = find(timeline, 0, "F0.1", 1);
  REQUIRE(forward != nullptr);
  CHECK(forward->lane == Lane::compute);
  CHECK(forward->start == 1120us);
  CHECK(forward->end == 1220us);
  REQUIRE(find(timeline, 1, "U1.1") != nullptr);
  CHECK(find(timeline, 1, "U1.1")->time() == 50us);
  CHECK(median_iteration(timeline).spans.size() == 18);
}

TEST_CASE("sharded weights are summed by parts and gathered beside the passes") {
  const auto sharded = [](int rank) {
    std::string events = events_of(rank, 1);
    events += range(fmt::format("reduce_scatter stage {} microbatch 1", rank), 5e12 + 810, 20) +
              range(fmt::format("gather_parameters stage {} microbatch 1", rank), 5e12 + 840, 30);
    return file_of({.rank = rank, .events = events});
  };
  const Timeline timeline = read_kineto_run({sharded(0), sharded(1)}).timeline;
  REQUIRE(find(timeline, 0, "GS0.1") != nullptr);
  CHECK(find(timeline, 0, "GS0.1")->lane == Lane::collective);
  CHECK(find(timeline, 0, "GS0.1")->time() == 20us);
  REQUIRE(find(timeline, 1, "P1.1") != nullptr);
  CHECK(find(timeline, 1, "P1.1")->time() == 30us);
}

TEST_CASE("a forward that runs again within a backward comes before it") {
  std::string events = events_of(0, 1);
  events += range("recompute stage 0 microbatch 0", 5e12 + 352, 90) +
            range("recompute stage 0 microbatch 1", 5e12 + 602, 90);
  const Timeline timeline = read_kineto_run({file_of({.rank = 0, .events = events}),
                                             file_of({.rank = 1, .events = events_of(1, 1)})})
                                .timeline;
  REQUIRE(find(timeline, 0, "R0.0") != nullptr);
  CHECK(find(timeline, 0, "R0.0")->start == 352us);
  CHECK(find(timeline, 0, "R0.0")->time() == 90us);
  CHECK(find(timeline, 0, "B0.0")->start == 442us);
  CHECK(find(timeline, 0, "B0.0")->end == 500us);
  CHECK(find(timeline, 0, "RB0.0")->end == 352us);  // what the stage waited for
}

TEST_CASE("a message lasts until the pass that waited for it, or as long as others do") {
  const Timeline timeline = read_kineto_run(two_processes()).timeline;
  const Span* first = find(timeline, 0, "SF0.0");
  REQUIRE(first != nullptr);
  CHECK(first->peer == 1);
  CHECK(first->start == 111us);
  CHECK(first->end == 131us);  // rank 1 had nothing else to do
  const Span* second = find(timeline, 1, "RF1.1");
  REQUIRE(second != nullptr);
  CHECK(second->lane == Lane::receive);
  CHECK(second->start == 221us);
  CHECK(second->end == 241us);  // rank 1 was busy until later: as the first one
  CHECK(find(timeline, 0, "RB0.0")->end == 350us);
  CHECK(find(timeline, 1, "SB1.1")->end == 600us);
}

TEST_CASE("messages without a gradient take no time") {
  std::string events = events_of(1, 2);
  const std::string name = "send_gradient stage 1 microbatch 0 to rank 0";
  for (std::size_t at = 0; (at = events.find(name, at)) != std::string::npos; at += name.size() + 7)
    events.insert(at + name.size(), ", empty");
  const Timeline timeline =
      read_kineto_run({two_processes()[0], file_of({.rank = 1, .events = events})}).timeline;
  CHECK(find(timeline, 1, "SB1.0")->time() == 0us);
}

TEST_CASE("clocks of processes are put right by what the program measured of them") {
  // Rank 1's clock is 3 s ahead.
  const Timeline timeline =
      read_kineto_run(
          {two_processes()[0],
           file_of({.rank = 1, .events = events_of(1, 2, 5e12 + 3e6), .offset = 3'000'000'000})})
          .timeline;
  CHECK(timeline == read_kineto_run(two_processes()).timeline);
}

TEST_CASE("where passes ran on a GPU, their kernels say when") {
  const std::string kernels = kernel(1, 5e12 + 20, 5e12 + 40, 30) +
                              kernel(2, 5e12 + 30, 5e12 + 75, 25) +
                              kernel(3, 5e12 + 115, 5e12 + 116, 1);
  const Timeline timeline =
      read_kineto_run(
          {file_of({.rank = 0, .events = events_of(0, 2) + kernels}), two_processes()[1]})
          .timeline;
  CHECK(find(timeline, 0, "F0.0")->start == 40us);
  CHECK(find(timeline, 0, "F0.0")->end == 100us);
  CHECK(find(timeline, 0, "F0.1")->start == 120us);
}

TEST_CASE("a run on a busy machine says so") {
  const Trace trace = read_kineto_run(
      {two_processes()[0], file_of({.rank = 1,
                                    .events = events_of(1, 2),
                                    .more = ", \"busy\": \"4 threads on 2 cores\""})});
  CHECK(trace.about.at("busy") == "4 threads on 2 cores");
}

TEST_CASE("traces that are no whole run are refused with what is missing") {
  const std::vector<KinetoRunFile> good = two_processes();
  const auto message = [](const std::vector<KinetoRunFile>& files) {
    return message_of([&] { read_kineto_run(files); });
  };
  CHECK_THAT(message({good[1]}),
             ContainsSubstring("2 processes, and the trace of rank 0 is not here"));
  CHECK_THAT(message({good[0], good[0]}), ContainsSubstring("another trace of rank 0"));
  CHECK_THAT(message({good[0], file_of({.rank = 1, .processes = 4, .events = events_of(1, 2)})}),
             ContainsSubstring("a trace of 4 processes beside one of 2"));
  CHECK_THAT(message({good[0], file_of({.rank = 1, .events = events_of(1, 3)})}),
             ContainsSubstring("it has 3 steps, and run/rank0.json has 2"));
  CHECK_THAT(
      message({file_of({.rank = 0, .events = without(events_of(0, 2), "\"step ")}), good[1]}),
      ContainsSubstring("no range \"step N\""));
  CHECK_THAT(
      message({file_of({.rank = 0, .events = without(events_of(0, 2), "\"step 2\"")}), good[1]}),
      ContainsSubstring("\"forward stage 0 microbatch 0\" lies in no step"));
  CHECK_THAT(
      message(
          {good[0], file_of({.rank = 1,
                             .events = without(events_of(1, 2), "forward stage 1 microbatch 1")})}),
      ContainsSubstring("step 0 has no forward of stage 1, microbatch 1, which rank 0 sends to"));
  const std::string far = range("send_activation stage 0 microbatch 0 to rank 9", 5e12 + 112, 1);
  CHECK_THAT(message({file_of({.rank = 0, .events = events_of(0, 2) + far}), good[1]}),
             ContainsSubstring("it sends to rank 9 of 2 processes"));
  KinetoRunFile alone = good[0];
  alone.content.replace(alone.content.find("distributedInfo"), 15, "other");
  CHECK_THAT(message({alone, good[1]}), ContainsSubstring("which of how many processes"));
}

TEST_CASE("ranges that only resemble a program's are none of it") {
  const std::string others = range("forward stage x microbatch 0", 5e12 + 1, 5) +
                             range("forward stage 0 microbatch 0 again", 5e12 + 1, 5) +
                             range("send_activation stage 0 microbatch 0", 5e12 + 1, 5) +
                             range("reduce_norm stage 0 microbatch 0", 5e12 + 1, 5);
  const Timeline timeline =
      read_kineto_run(
          {file_of({.rank = 0, .events = events_of(0, 2) + others}), two_processes()[1]})
          .timeline;
  CHECK(timeline == read_kineto_run(two_processes()).timeline);
  CHECK_FALSE(
      is_kineto_run("{\"traceEvents\": [{\"cat\": \"user_annotation\", \"name\": \"block.0\"}]}"));
}
