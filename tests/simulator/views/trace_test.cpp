#include "simulator/views/trace.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;
using namespace std::chrono_literals;

namespace {

Trace read_back(const std::string& text) {
  return read_trace(Json::parse(text, "t.json"));
}

/// Valid in every field, meaningful in none.
Timeline random_timeline(std::mt19937_64& random) {
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  Timeline timeline{.devices = 1 + below(4), .stages = 1 + below(5), .microbatches = 1 + below(9)};
  for (int count = below(30); count > 0; --count) {
    Span span{.device = below(timeline.devices),
              .lane = lanes[random() % lanes.size()],
              .instruction = {static_cast<Op>(below(13)), below(5), below(9)},
              .iteration = below(3),
              .start = Duration(static_cast<std::int64_t>(random() >> (1 + below(63)))),
              .end = {}};
    if (below(2) == 0) span.peer = below(timeline.devices);
    span.end =
        span.start + std::min(Duration(static_cast<std::int64_t>(random() >> (1 + below(63)))),
                              Duration::max() - span.start);
    timeline.spans.push_back(span);
  }
  if (below(2) == 0) timeline.memory.resize(static_cast<std::size_t>(timeline.devices));
  for (auto& samples : timeline.memory) {
    for (int count = below(5); count > 0; --count) {
      MemorySample sample{.time = Duration(static_cast<std::int64_t>(random() >> (1 + below(63)))),
                          .use = {}};
      for (Bytes& bytes : sample.use) bytes = static_cast<Bytes>(random() >> (1 + below(63)));
      samples.push_back(sample);
    }
  }
  return timeline;
}

Timeline simulated(int devices, int microbatches) {
  const Program program =
      lower(find_schedule("1f1b").generate({.devices = devices, .microbatches = microbatches}));
  return simulate(program, uniform(program, {.forward = 10ms, .backward = 20ms}, 1500us));
}

nlohmann::json events(const std::string& text) {
  return nlohmann::json::parse(text)["traceEvents"];
}

/// Nanoseconds of an event's "ts" or "dur".
std::int64_t nanoseconds(const nlohmann::json& microseconds) {
  return static_cast<std::int64_t>(std::llround(microseconds.get<double>() * 1000));
}

}  // namespace

TEST_CASE("trace: a timeline written and read is the same timeline") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    const Timeline timeline = random_timeline(random);
    const std::string text = write_trace({timeline, {{"kind", "predicted"}, {"plan", "xxh3:0f"}}});
    const Trace trace = read_back(text);
    CHECK(trace.timeline == timeline);
    CHECK(trace.about ==
          std::map<std::string, std::string>{{"kind", "predicted"}, {"plan", "xxh3:0f"}});
    CHECK(write_trace(trace) == text);
  }
}

TEST_CASE("trace: the empty timeline, and words that need escapes") {
  const Trace trace{{}, {{"plan \"x\"", "line\nbreak \\ µ"}, {"", ""}}};
  const Trace again = read_back(write_trace(trace));
  CHECK(again.timeline == Timeline{});
  CHECK(again.about == trace.about);
}

TEST_CASE("trace: a file is what its first page says") {
  const Timeline timeline{.devices = 2,
                          .stages = 2,
                          .microbatches = 1,
                          .spans = {{.device = 0,
                                     .lane = Lane::compute,
                                     .instruction = {Op::forward, 0, 0},
                                     .start = 0ns,
                                     .end = 10us},
                                    {.device = 0,
                                     .lane = Lane::send,
                                     .instruction = {Op::send_activation, 0, 0},
                                     .peer = 1,
                                     .start = 10us,
                                     .end = 11500ns},
                                    {.device = 1,
                                     .lane = Lane::receive,
                                     .instruction = {Op::receive_activation, 1, 0},
                                     .peer = 0,
                                     .start = 10us,
                                     .end = 11500ns}},
                          .memory = {{{10us, MemoryUse{4096, 0, 0, 0, 1, 0, 0}}}, {}}};
  CHECK(write_trace({timeline, {}, {{0, 1, 2, 3}, {4, 5, 6, 7}}})
            .find(R"("name":"process_name","args":{"name":"devices 4-7"}})") != std::string::npos);
  const std::string text = write_trace({timeline, {{"kind", "predicted"}}});
  for (
      const std::string line : {
          R"({"displayTimeUnit":"ms","otherData":{"format":"stagecraft-trace/1","devices":2,"stages":2,"microbatches":1,"memory":2,"about":{"kind":"predicted"}},"traceEvents":[)",
          R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"device 1"}},)",
          R"({"ph":"M","pid":0,"tid":3,"name":"thread_name","args":{"name":"collective"}},)",
          R"({"ph":"X","pid":0,"tid":1,"ts":10.000,"dur":1.500,"name":"SF0.0","cat":"send","args":{"op":"send_activation","stage":0,"microbatch":0,"iteration":0,"peer":1,"start_ns":10000,"duration_ns":1500}},)",
          R"({"ph":"s","id":1,"pid":0,"tid":1,"ts":10.000,"name":"message","cat":"message"},)",
          R"({"ph":"f","bp":"e","id":1,"pid":1,"tid":2,"ts":11.499,"name":"message","cat":"message"},)",
          R"({"ph":"C","pid":0,"ts":10.000,"name":"memory","args":{"parameters":4096,"gradients":0,"optimizer":0,"weight_versions":0,"activations":1,"transfer":0,"workspace":0,"reserve":0},"time_ns":10000})",
      }) {
    INFO(text);
    CHECK(text.find(line + "\n") != std::string::npos);
  }
}

TEST_CASE("trace: every message is an arrow whose ends lie within slices") {
  const int devices = 4, microbatches = 6;
  const auto all = events(write_trace({simulated(devices, microbatches), {}}));
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>>
      slices;  // by pid and tid
  for (const auto& event : all) {
    if (event["ph"] != "X") continue;
    CHECK(nanoseconds(event["ts"]) == event["args"]["start_ns"].get<std::int64_t>());
    CHECK(nanoseconds(event["dur"]) == event["args"]["duration_ns"].get<std::int64_t>());
    const std::int64_t start = event["args"]["start_ns"];
    slices[{event["pid"], event["tid"]}].emplace_back(
        start, start + event["args"]["duration_ns"].get<std::int64_t>());
  }
  std::map<int, std::int64_t> left;
  std::size_t arrows = 0;
  for (const auto& event : all) {
    if (event["ph"] != "s" && event["ph"] != "f") continue;
    const std::int64_t time = nanoseconds(event["ts"]);
    const auto& lane = slices[{event["pid"], event["tid"]}];
    CHECK(std::any_of(lane.begin(), lane.end(), [&](const auto& slice) {
      return slice.first <= time && time <= slice.second;
    }));
    if (event["ph"] == "s") {
      left[event["id"]] = time;
    } else {
      CHECK(event["bp"] == "e");
      REQUIRE(left.count(event["id"]) == 1);
      CHECK(left[event["id"]] <= time);
      ++arrows;
    }
  }
  CHECK(arrows == static_cast<std::size_t>(2 * microbatches * (devices - 1)));
  CHECK(left.size() == arrows);
}

TEST_CASE("trace: slices of a lane of a simulated timeline never overlap in part") {
  const auto all = events(write_trace({simulated(4, 8), {}}));
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> slices;
  for (const auto& event : all) {
    if (event["ph"] != "X" || event["tid"] != 0) continue;
    const std::int64_t start = event["args"]["start_ns"];
    slices[{event["pid"], event["tid"]}].emplace_back(
        start, start + event["args"]["duration_ns"].get<std::int64_t>());
  }
  CHECK(slices.size() == 4);
  for (auto& [lane, list] : slices) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i - 1].second <= list[i].first);
  }
}

TEST_CASE("trace: other files are refused with a sentence") {
  const auto message = [](const std::string& text) {
    try {
      read_back(text);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return error.message();
    }
    return std::string("accepted");
  };
  CHECK_THAT(message("[]"), ContainsSubstring("not a trace of ours"));
  CHECK_THAT(message(R"({"traceEvents": []})"), ContainsSubstring("not a trace of ours"));
  CHECK_THAT(message(R"({"traceEvents": [], "otherData": {"format": "stagecraft-plan/1"}})"),
             ContainsSubstring("stagecraft-trace/1"));
  const std::string text = write_trace({simulated(2, 2), {}});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string copy = text;
    REQUIRE(copy.find(from) != std::string::npos);
    return copy.replace(copy.find(from), from.size(), to);
  };
  CHECK_THAT(message(changed(R"("op":"forward")", R"("op":"foreward")")),
             ContainsSubstring("foreward"));
  CHECK_THAT(message(changed(R"("ph":"X","pid":0)", R"("ph":"X","pid":2)")),
             ContainsSubstring("pid"));
  CHECK_THAT(message(changed(R"("duration_ns":)", R"("duration_ns":-)")),
             ContainsSubstring("duration_ns"));
}
