// A line per event:
//
//   [[{"type":"F","start_time":0,"end_time":10000000,"minibatch":0,"stage":0},
//     {"type":"Optimizer","start_time":90000000,"end_time":91000000}],
//    […]]

#include "simulator/views/nvtx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace stagecraft {

namespace {

/// Empty: not written as an event of its own.
std::string_view type_of(Op op) {
  switch (op) {
    case Op::forward:
    case Op::recompute: return "F";
    case Op::backward:
    case Op::backward_input: return "B";
    case Op::backward_weight: return "W";
    case Op::send_activation: return "SEND_FORWARD";
    case Op::receive_activation: return "RECV_FORWARD";
    case Op::send_gradient: return "SEND_BACKWARD";
    case Op::receive_gradient: return "RECV_BACKWARD";
    default: return "";
  }
}

struct Extent {
  Duration start = Duration::max();
  Duration end = Duration::min();
};

struct Event {
  Duration start{0};
  std::string text;
};

std::string event_text(const Span& span, std::string_view type) {
  return fmt::format(R"({{"type":"{}","start_time":{},"end_time":{},"minibatch":{},"stage":{}}})",
                     type, span.start.count(), span.end.count(), span.instruction.microbatch,
                     span.instruction.stage);
}

std::vector<Event> events_of(const std::vector<const Span*>& spans) {
  std::vector<Event> events;
  std::map<int, Extent> optimizer;  // by iteration
  for (const Span* pointer : spans) {
    const Span& span = *pointer;
    const std::string_view type = type_of(span.instruction.op);
    const bool shown = span.lane == Lane::compute || span.time() > Duration{0};
    if (!type.empty() && shown) events.push_back({span.start, event_text(span, type)});
    if (span.instruction.op != Op::update) continue;
    Extent& extent = optimizer[span.iteration];
    extent = {std::min(extent.start, span.start), std::max(extent.end, span.end)};
  }
  for (const auto& [iteration, extent] : optimizer) {
    events.push_back(
        {extent.start, fmt::format(R"({{"type":"Optimizer","start_time":{},"end_time":{}}})",
                                   extent.start.count(), extent.end.count())});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.start < b.start; });
  return events;
}

}  // namespace

std::string write_nvtx(const Timeline& timeline) {
  std::vector<std::vector<const Span*>> devices(static_cast<std::size_t>(timeline.devices));
  for (const Span& span : timeline.spans) {
    devices[static_cast<std::size_t>(span.device)].push_back(&span);
  }
  std::string text = "[";
  for (const auto& spans : devices) {
    text += text.size() == 1 ? "[" : ",\n [";
    bool first = true;
    for (const Event& event : events_of(spans)) {
      text += (first ? "" : ",\n  ") + event.text;
      first = false;
    }
    text += "]";
  }
  return text + "]\n";
}

}  // namespace stagecraft
