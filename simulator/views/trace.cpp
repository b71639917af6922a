// stagecraft-trace/1: Chrome's trace format, as ui.perfetto.dev and chrome://tracing show it. An
// event per line:
//
//   {"displayTimeUnit":"ms","otherData":{"format":"stagecraft-trace/1","devices":2,"stages":2,"microbatches":1,
//    "memory":0,"about":{"kind":"predicted"}},"traceEvents":[
//   {"ph":"M","pid":0,"name":"process_name","args":{"name":"device 0"}},
//   {"ph":"X","pid":0,"tid":1,"ts":10.000,"dur":1.500,"name":"SF0.0","cat":"send","args":{"op":"send_activation","stage":0,
//    "microbatch":0,"iteration":0,"peer":1,"start_ns":10000,"duration_ns":1500}},
//   {"ph":"s","id":1,"pid":0,"tid":1,"ts":10.000,"name":"message","cat":"message"},
//   {"ph":"f","bp":"e","id":1,"pid":1,"tid":2,"ts":11.499,"name":"message","cat":"message"},
//   {"ph":"C","pid":0,"ts":10.000,"name":"memory","args":{"parameters":4096,…},"time_ns":10000}]}
//
// pid = device, tid = lane. `start_ns`, `duration_ns` and `time_ns` are what is read back:
// microseconds are for the viewers. "memory" is the number of devices whose memory is known;
// categories stand in the order of `memory_categories`.

#include "simulator/views/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/json.hpp"
#include "simulator/views/alike_rows.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view format_name = "stagecraft-trace/1";

// --- Writing
// --------------------------------------------------------------------------------------------------------------

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with three decimals: nanoseconds, exactly.
std::string microseconds(Duration time) {
  const std::int64_t count = time.count();
  // The remainder's sign is that of the count; -1ns is "-0.001".
  const std::string_view sign = count < 0 ? "-" : "";
  const auto size =
      count < 0 ? 0 - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
}

/// What both ends of a message know about it: iteration, kind, the sender's stage (where it is not
/// a partner's), microbatch, and the two devices.
using MessageKey = std::tuple<int, Op, int, int, int, int>;

/// The send that this one is, or that it meets.
Op send_of(Op op) {
  switch (op) {
    case Op::receive_activation: return Op::send_activation;
    case Op::receive_gradient: return Op::send_gradient;
    case Op::take_in: return Op::evict;
    case Op::load: return Op::give_back;
    default: return op;
  }
}

/// What the last stage feeds back comes from the stage "before" the first.
int sender_stage(const Instruction& it, int stages) {
  switch (it.op) {
    case Op::send_activation:
    case Op::send_gradient: return it.stage;
    case Op::receive_activation: return it.stage > 0 ? it.stage - 1 : stages - 1;
    case Op::receive_gradient: return it.stage + 1;
    default: return 0;
  }
}

std::optional<MessageKey> message_key(const Span& span, int stages) {
  const Op op = span.instruction.op;
  if (!span.peer || !(is_send(op) || is_receive(op))) return {};
  const int from = is_send(op) ? span.device : *span.peer;
  const int to = is_send(op) ? *span.peer : span.device;
  return MessageKey{span.iteration,
                    send_of(op),
                    sender_stage(span.instruction, stages),
                    span.instruction.microbatch,
                    from,
                    to};
}

/// The span of each message's other end, by index; messages alike in everything are paired in
/// order.
std::vector<std::pair<std::size_t, std::size_t>> pair_messages(const Timeline& timeline) {
  const std::vector<Span>& spans = timeline.spans;
  std::vector<std::tuple<MessageKey, std::size_t>> sends, receives;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (const auto key = message_key(spans[i], timeline.stages)) {
      (is_send(spans[i].instruction.op) ? sends : receives).emplace_back(*key, i);
    }
  }
  std::sort(sends.begin(), sends.end());
  std::sort(receives.begin(), receives.end());
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  auto receive = receives.begin();
  for (const auto& [key, send] : sends) {
    while (receive != receives.end() && std::get<0>(*receive) < key) ++receive;
    if (receive == receives.end()) break;
    if (std::get<0>(*receive) == key) pairs.emplace_back(send, std::get<1>(*receive++));
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace), timeline_(trace.timeline) {}

  std::string run() {
    head();
    for (int device = 0; device < timeline_.devices; ++device) name_device(device);
    for (const Span& span : timeline_.spans) slice(span);
    int id = 0;
    for (const auto& [send, receive] : pair_messages(timeline_)) {
      arrow(++id, timeline_.spans[send], timeline_.spans[receive]);
    }
    for (std::size_t device = 0; device < timeline_.memory.size(); ++device) {
      for (const MemorySample& sample : timeline_.memory[device]) counter(device, sample);
    }
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void add(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Parts>(parts)...);
  }

  void next_event() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
  }

  void head() {
    add(R"({{"displayTimeUnit":"ms","otherData":{{"format":"{}","devices":{},"stages":{},"microbatches":{},"memory":{})",
        format_name, timeline_.devices, timeline_.stages, timeline_.microbatches,
        timeline_.memory.size());
    text_ += R"(,"about":{)";
    bool first = true;
    for (const auto& [name, value] : trace_.about) {
      add("{}{}:{}", first ? "" : ",", quoted(name), quoted(value));
      first = false;
    }
    text_ += R"(}},"traceEvents":[)";
  }

  void name_device(int device) {
    next_event();
    add(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"{}"}}}})", device,
        device_words(devices_of({device}, trace_.row_devices)));
    next_event();
    add(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", device,
        device);
    for (const Lane lane : lanes) {
      const int thread = static_cast<int>(lane);
      next_event();
      add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})", device,
          thread, to_string(lane));
      next_event();
      add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})",
          device, thread, thread);
    }
  }

  void slice(const Span& span) {
    const Instruction& it = span.instruction;
    next_event();
    add(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}","args":{{"op":"{}","stage":{},)",
        span.device, static_cast<int>(span.lane), microseconds(span.start),
        microseconds(span.time()), to_string(it), to_string(span.lane), to_string(it.op), it.stage);
    add(R"("microbatch":{},"iteration":{},)", it.microbatch, span.iteration);
    if (span.peer) add(R"("peer":{},)", *span.peer);
    add(R"("start_ns":{},"duration_ns":{}}}}})", span.start.count(), span.time().count());
  }

  // Both ends lie within their slices: the arrow leaves where sending starts and arrives in the
  // receive's last nanosecond.
  void arrow(int id, const Span& send, const Span& receive) {
    const auto end = [&](const char* phase, const Span& span, Duration time) {
      next_event();
      add(R"({{"ph":"{}",{}"id":{},"pid":{},"tid":{},"ts":{},"name":"message","cat":"message"}})",
          phase, phase[0] == 'f' ? R"("bp":"e",)" : "", id, span.device,
          static_cast<int>(span.lane), microseconds(time));
    };
    end("s", send, send.start);
    end("f", receive, std::max(receive.start, receive.end - Duration{1}));
  }

  void counter(std::size_t device, const MemorySample& sample) {
    next_event();
    add(R"({{"ph":"C","pid":{},"ts":{},"name":"memory","args":{{)", device,
        microseconds(sample.time));
    for (std::size_t i = 0; i < memory_categories.size(); ++i) {
      add(R"({}"{}":{})", i == 0 ? "" : ",", to_string(memory_categories[i]), sample.use[i]);
    }
    add(R"(}},"time_ns":{}}})", sample.time.count());
  }

  const Trace& trace_;
  const Timeline& timeline_;
  std::string text_;
  bool first_ = true;
};

// --- Reading
// --------------------------------------------------------------------------------------------------------------

Span read_slice(const Json& event, int devices) {
  const Json args = event["args"];
  Span span;
  span.device = event["pid"].small_integer(0, devices - 1);
  span.lane = static_cast<Lane>(event["tid"].small_integer(0, static_cast<int>(lanes.size()) - 1));
  const Json op = args["op"];
  try {
    span.instruction.op = read_op(op.string());
  } catch (const Error& error) {
    op.fail(error.message());
  }
  span.instruction.stage = static_cast<int>(args["stage"].integer(INT32_MIN, INT32_MAX));
  span.instruction.microbatch = static_cast<int>(args["microbatch"].integer(INT32_MIN, INT32_MAX));
  span.iteration = static_cast<int>(args["iteration"].integer(INT32_MIN, INT32_MAX));
  if (args.contains("peer"))
    span.peer = static_cast<int>(args["peer"].integer(INT32_MIN, INT32_MAX));
  span.start = Duration(args["start_ns"].integer());
  const std::int64_t duration = args["duration_ns"].integer(0);
  if (span.start.count() > 0 && duration > INT64_MAX - span.start.count())
    args.fail("ends too late to count");
  span.end = span.start + Duration(duration);
  return span;
}

MemorySample read_sample(const Json& event) {
  const Json args = event["args"];
  MemorySample sample;
  sample.time = Duration(event["time_ns"].integer());
  for (std::size_t i = 0; i < memory_categories.size(); ++i) {
    const std::string_view name = to_string(memory_categories[i]);
    // Traces of before there was a reserve have none.
    if (memory_categories[i] == MemoryCategory::reserve && !args.contains(name)) continue;
    sample.use[i] = args[name].integer();
  }
  return sample;
}

void read_event(const Json& event, Timeline& timeline) {
  const std::string phase = event["ph"].string();
  if (phase == "X") {
    timeline.spans.push_back(read_slice(event, timeline.devices));
  } else if (phase == "C") {
    const int devices = static_cast<int>(timeline.memory.size());
    timeline.memory[index(event["pid"].small_integer(0, devices - 1))].push_back(
        read_sample(event));
  }
}

}  // namespace

std::string write_trace(const Trace& trace) {
  return Writer(trace).run();
}

Trace read_trace(const Json& json) {
  if (!json.is_object() || !json.contains("otherData") || !json.contains("traceEvents")) {
    json.fail(fmt::format(
        "not a trace of ours: expected \"traceEvents\" and \"otherData\" with format \"{}\"",
        format_name));
  }
  const Json other = json["otherData"];
  other.expect_format(format_name);
  Trace trace;
  trace.timeline.devices = other["devices"].small_integer(0, INT32_MAX);
  trace.timeline.stages = other["stages"].small_integer(0, INT32_MAX);
  trace.timeline.microbatches = other["microbatches"].small_integer(0, INT32_MAX);
  trace.timeline.memory.resize(index(other["memory"].small_integer(0, trace.timeline.devices)));
  const Json about = other["about"];
  for (const std::string& name : about.names()) trace.about[name] = about[name].string();
  for (const Json& event : json["traceEvents"].elements()) read_event(event, trace.timeline);
  return trace;
}

bool is_perfetto_trace(const std::string& content) {
  // A message of protobuf begins with a field's tag, and holds bytes that no JSON does.
  return content.starts_with('\n') && content.find('\0') != std::string::npos;
}

Trace read_trace(const std::string& content, const std::string& path) {
  if (is_perfetto_trace(content)) {
    throw Error(
        ErrorKind::input,
        concat(path, ": a trace in Perfetto's own format, which viewers read; expected the ",
               "JSON that a trace file not named .pftrace has"));
  }
  return read_trace(Json::parse(content, path));
}

}  // namespace stagecraft
