// Protocol buffers' wire format (protobuf.dev/programming-guides/encoding): a message is a list of
// fields, each a key (number × 8 + kind) and a value: a variable-length integer (kind 0), eight
// bytes (1), or bytes behind their number (2). Field numbers are those of Perfetto's
// protos/perfetto/trace, which never change.
//
// Names are written once per trace and then called by number; slices nest by time, so each is two
// packets: a begin and an end. Packets travel in bundles that zlib has compressed, which Perfetto
// takes for what is inside (TracePacket.compressed_packets).

#include "simulator/views/perfetto.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/views/alike_rows.hpp"

namespace stagecraft {

namespace {

class WireMessage {
 public:
  WireMessage& number(std::uint32_t field, std::uint64_t value) {
    add(field << 3U);
    add(value);
    return *this;
  }
  WireMessage& fixed(std::uint32_t field, std::uint64_t value) {
    add(field << 3U | 1U);
    for (unsigned shift = 0; shift < 64; shift += 8)
      bytes_ += static_cast<char>(value >> shift & 255U);
    return *this;
  }
  WireMessage& bytes(std::uint32_t field, std::string_view value) {
    add(field << 3U | 2U);
    add(value.size());
    bytes_ += value;
    return *this;
  }
  WireMessage& message(std::uint32_t field, const WireMessage& value) {
    return bytes(field, value.bytes_);
  }
  const std::string& text() const { return bytes_; }

 private:
  void add(std::uint64_t value) {
    for (; value >= 128; value >>= 7U) bytes_ += static_cast<char>((value & 127U) | 128U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

/// Field numbers of the messages that are written.
namespace field {
constexpr std::uint32_t trace_packet = 1;
// TracePacket
constexpr std::uint32_t timestamp = 8, sequence = 10, track_event = 11, interned_data = 12,
                        sequence_flags = 13, compressed_packets = 50, track_descriptor = 60;
// TrackDescriptor
constexpr std::uint32_t uuid = 1, track_name = 2, process = 3, thread = 4, parent = 5, counter = 8;
// ProcessDescriptor, ThreadDescriptor, CounterDescriptor
constexpr std::uint32_t pid = 1, process_name = 6, thread_pid = 1, thread_id = 2, thread_name = 5,
                        counter_unit = 3;
// TrackEvent
constexpr std::uint32_t event_type = 9, event_name = 10, event_track = 11, counter_value = 30,
                        flow = 47, flow_end = 48;
// InternedData, EventName
constexpr std::uint32_t event_names = 2, name_number = 1, name_text = 2;
}  // namespace field

constexpr std::uint64_t slice_begin = 1, slice_end = 2, counter_sample = 4;
constexpr std::uint64_t in_bytes = 3;                      // CounterDescriptor.UNIT_SIZE_BYTES
constexpr std::uint64_t begins_anew = 1, needs_names = 2;  // TracePacket.SequenceFlags

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                             reinterpret_cast<const Bytef*>(bytes.data()),
                             static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
  if (code != Z_OK) fail("zlib cannot compress ", bytes.size(), " bytes: error ", code);
  out.resize(size);
  return out;
}

class PerfettoWriter {
 public:
  explicit PerfettoWriter(const Trace& trace) : trace_(trace), timeline_(trace.timeline) {}

  std::string write() {
    describe();
    for (const Span& span : timeline_.spans) add_slice(span);
    add_memory();
    // By time; what ends comes before what begins at the same moment, and a slice without a time
    // begins before it ends.
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tie(a.time, a.rank) < std::tie(b.time, b.rank);
    });
    for (const Event& event : events_) add_event(event);
    bundle();
    return out_.text();
  }

 private:
  struct Event {
    std::int64_t time = 0;
    int rank = 0;  ///< 0 ends, 1 begins, 2 begins and ends without time, 3 counts
    std::uint64_t track = 0;
    std::uint32_t name = 0;              ///< of a begin
    std::int64_t value = 0;              ///< of a counter
    std::optional<std::uint64_t> sends;  ///< a flow that starts here
    std::optional<std::uint64_t> receives;
  };

  static constexpr std::uint64_t tracks_of_device = 32;
  static std::uint64_t device_track(int device) {
    return (static_cast<std::uint64_t>(device) + 1) * tracks_of_device;
  }
  static std::uint64_t lane_track(int device, Lane lane) {
    return device_track(device) + 1 + static_cast<std::uint64_t>(lane);
  }
  static std::uint64_t memory_track(int device, std::size_t category) {
    return device_track(device) + 8 + category;
  }

  void packet(WireMessage message) {
    packets_.message(field::trace_packet, message.number(field::sequence, 1));
    constexpr std::size_t bundle_size = std::size_t{1} << 19;
    if (packets_.text().size() >= bundle_size) bundle();
  }
  /// What was written since the last one.
  void bundle() {
    out_.message(field::trace_packet,
                 WireMessage().bytes(field::compressed_packets, deflated(packets_.text())));
    packets_ = {};
  }
  void describe_track(const WireMessage& descriptor) {
    WireMessage message;
    packet(message.message(field::track_descriptor, descriptor));
  }

  /// Tracks, and that names are numbered from here on.
  void describe() {
    std::string about;
    for (const auto& [name, value] : trace_.about)
      about += fmt::format("{}{}: {}", about.empty() ? "" : ", ", name, value);
    WireMessage start;
    packet(start.number(field::sequence_flags, begins_anew)
               .message(field::track_descriptor,
                        WireMessage()
                            .number(field::uuid, 1)
                            .bytes(field::track_name, "stagecraft, " + about)));
    for (int device = 0; device < timeline_.devices; ++device) {
      const auto number = static_cast<std::uint64_t>(device) + 1;
      describe_track(WireMessage()
                         .number(field::uuid, device_track(device))
                         .message(field::process, WireMessage()
                                                      .number(field::pid, number)
                                                      .bytes(field::process_name,
                                                             device_words(devices_of(
                                                                 {device}, trace_.row_devices)))));
      for (const Lane lane : lanes) {
        describe_track(
            WireMessage()
                .number(field::uuid, lane_track(device, lane))
                .number(field::parent, device_track(device))
                .message(field::thread,
                         WireMessage()
                             .number(field::thread_pid, number)
                             .number(field::thread_id,
                                     number * tracks_of_device + static_cast<std::uint64_t>(lane))
                             .bytes(field::thread_name, to_string(lane))));
      }
      if (timeline_.memory.empty()) continue;
      for (std::size_t category = 0; category < memory_categories.size(); ++category) {
        if (!is_used(device, category)) continue;
        describe_track(
            WireMessage()
                .number(field::uuid, memory_track(device, category))
                .number(field::parent, device_track(device))
                .bytes(field::track_name,
                       fmt::format("memory: {}", to_string(memory_categories[category])))
                .message(field::counter, WireMessage().number(field::counter_unit, in_bytes)));
      }
    }
  }

  bool is_used(int device, std::size_t category) const {
    return std::ranges::any_of(timeline_.memory[index(device)], [&](const MemorySample& sample) {
      return sample.use[category] != 0;
    });
  }

  std::uint32_t name_of(const Instruction& instruction) {
    const auto next = static_cast<std::uint32_t>(names_.size()) + 1;
    return names_.try_emplace(instruction, next).first->second;
  }

  /// The flow of the message that a send or receive carries: the k-th of its kind between both.
  std::uint64_t flow_of(const Span& span) {
    const bool sends = is_send(span.instruction.op);
    const int from = sends ? span.device : *span.peer;
    const int to = sends ? *span.peer : span.device;
    const auto cargo = static_cast<int>(sends ? span.instruction.op : sending(span.instruction.op));
    std::vector<std::uint64_t>& flows = flows_[{from, to, cargo}];
    std::size_t& place = sent_[{from, to, cargo, sends}];
    if (place == flows.size()) flows.push_back(++last_flow_);
    return flows[place++];
  }

  /// The send that a receive is of.
  static Op sending(Op receive) {
    switch (receive) {
      case Op::receive_activation: return Op::send_activation;
      case Op::receive_gradient: return Op::send_gradient;
      case Op::take_in: return Op::evict;
      case Op::load: return Op::give_back;
      case Op::receive_norm: return Op::send_norm;
      default: return Op::send_validation;
    }
  }

  void add_slice(const Span& span) {
    Event begin{.time = span.start.count(),
                .rank = span.end > span.start ? 1 : 2,
                .track = lane_track(span.device, span.lane),
                .name = name_of(span.instruction),
                .sends = {},
                .receives = {}};
    if (span.peer) (is_send(span.instruction.op) ? begin.sends : begin.receives) = flow_of(span);
    events_.push_back(begin);
    events_.push_back({.time = span.end.count(),
                       .rank = span.end > span.start ? 0 : 2,
                       .track = begin.track,
                       .sends = {},
                       .receives = {}});
  }

  /// Each category where it changes.
  void add_memory() {
    for (std::size_t device = 0; device < timeline_.memory.size(); ++device) {
      MemoryUse before{};
      bool is_first = true;
      for (const MemorySample& sample : timeline_.memory[device]) {
        for (std::size_t category = 0; category < sample.use.size(); ++category) {
          if (sample.use[category] == before[category] && !is_first) continue;
          if (!is_used(static_cast<int>(device), category)) continue;
          events_.push_back({.time = sample.time.count(),
                             .rank = 3,
                             .track = memory_track(static_cast<int>(device), category),
                             .value = sample.use[category],
                             .sends = {},
                             .receives = {}});
        }
        before = sample.use;
        is_first = false;
      }
    }
  }

  void add_event(const Event& event) {
    WireMessage packet_fields, fields;
    packet_fields.number(field::timestamp, static_cast<std::uint64_t>(event.time));
    if (event.rank == 3) {
      fields.number(field::event_type, counter_sample)
          .number(field::event_track, event.track)
          .number(field::counter_value, static_cast<std::uint64_t>(event.value));
    } else if (event.name == 0) {
      fields.number(field::event_type, slice_end).number(field::event_track, event.track);
    } else {
      fields.number(field::event_type, slice_begin)
          .number(field::event_track, event.track)
          .number(field::event_name, event.name);
      if (event.sends) fields.fixed(field::flow, *event.sends);
      if (event.receives) fields.fixed(field::flow_end, *event.receives);
      packet_fields.number(field::sequence_flags, needs_names);
      introduce(event.name, packet_fields);
    }
    packet(packet_fields.message(field::track_event, fields));
  }

  /// A name is told where it is first used.
  void introduce(std::uint32_t name, WireMessage& packet_fields) {
    if (told_.size() <= name) told_.resize(names_.size() + 1, false);
    if (told_[name]) return;
    told_[name] = true;
    if (texts_.empty()) {
      texts_.resize(names_.size() + 1);
      for (const auto& [instruction, number] : names_) texts_[number] = to_string(instruction);
    }
    packet_fields.message(
        field::interned_data,
        WireMessage().message(
            field::event_names,
            WireMessage().number(field::name_number, name).bytes(field::name_text, texts_[name])));
  }

  const Trace& trace_;
  const Timeline& timeline_;
  WireMessage out_;
  WireMessage packets_;  ///< not bundled yet
  std::vector<Event> events_;
  std::map<Instruction, std::uint32_t> names_;
  std::vector<std::string> texts_;
  std::vector<bool> told_;
  std::map<std::tuple<int, int, int>, std::vector<std::uint64_t>> flows_;
  std::map<std::tuple<int, int, int, bool>, std::size_t> sent_;
  std::uint64_t last_flow_ = 0;
};

}  // namespace

std::string write_perfetto(const Trace& trace) {
  return PerfettoWriter(trace).write();
}

}  // namespace stagecraft
