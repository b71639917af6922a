#include "simulator/views/perfetto.hpp"

#include <zlib.h>

#include <map>
#include <set>

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

// A message's fields by number, each with its values in order.
struct WireFields {
  std::map<std::uint32_t, std::vector<std::uint64_t>> numbers;
  std::map<std::uint32_t, std::vector<std::string>> texts;
  std::uint64_t number(std::uint32_t field) const { return numbers.at(field).at(0); }
  bool has(std::uint32_t field) const { return numbers.contains(field) || texts.contains(field); }
};

std::uint64_t read_varint(const std::string& bytes, std::size_t& place) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(place++));
    value |= static_cast<std::uint64_t>(byte & 127U) << shift;
    if (byte < 128) return value;
  }
}

WireFields read_fields(const std::string& bytes) {
  WireFields fields;
  for (std::size_t place = 0; place < bytes.size();) {
    const std::uint64_t key = read_varint(bytes, place);
    const auto field = static_cast<std::uint32_t>(key >> 3U);
    switch (key & 7U) {
      case 0: fields.numbers[field].push_back(read_varint(bytes, place)); break;
      case 1: {
        std::uint64_t value = 0;
        for (unsigned i = 0; i < 8; ++i)
          value |= std::uint64_t{static_cast<unsigned char>(bytes.at(place + i))} << 8U * i;
        fields.numbers[field].push_back(value);
        place += 8;
        break;
      }
      case 2: {
        const std::uint64_t size = read_varint(bytes, place);
        REQUIRE(place + size <= bytes.size());
        fields.texts[field].push_back(bytes.substr(place, size));
        place += size;
        break;
      }
      default: FAIL("unknown kind of field " << (key & 7U));
    }
  }
  return fields;
}

// What a trace says, by the numbers of protos/perfetto/trace.
struct ReadSlice {
  std::uint64_t track = 0;
  std::string name;
  std::int64_t start = 0, end = 0;
  auto operator<=>(const ReadSlice&) const = default;
};
struct ReadTrace {
  std::multiset<ReadSlice> slices;
  std::map<std::uint64_t, std::string> tracks;
  std::map<std::uint64_t, std::int64_t> highest;  // of counters
  std::set<std::uint64_t> flows, ended_flows;
};

// All packets, out of the bundles they are compressed in.
std::vector<std::string> packets_of(const std::string& text) {
  std::string bytes;
  const WireFields bundles = read_fields(text);
  for (const std::string& packet : bundles.texts.at(1)) {
    const std::string bundle = read_fields(packet).texts.at(50).front();
    std::string inflated(std::size_t{1} << 21, '\0');
    uLongf size = inflated.size();
    REQUIRE(uncompress(reinterpret_cast<Bytef*>(inflated.data()), &size,
                       reinterpret_cast<const Bytef*>(bundle.data()), bundle.size()) == Z_OK);
    bytes += inflated.substr(0, size);
  }
  const WireFields packets = read_fields(bytes);
  return packets.texts.at(1);
}

ReadTrace read_native(const std::string& text) {
  ReadTrace trace;
  std::map<std::uint64_t, std::string> names;
  std::map<std::uint64_t, std::vector<ReadSlice>> open;
  std::uint64_t before = 0;
  for (const std::string& bytes : packets_of(text)) {
    const WireFields packet = read_fields(bytes);
    CHECK(packet.number(10) == 1);
    if (packet.has(60)) {
      const WireFields track = read_fields(packet.texts.at(60).front());
      trace.tracks[track.number(1)] =
          track.texts.contains(2) ? track.texts.at(2).front() : std::string();
    }
    if (packet.has(12)) {
      const WireFields interned = read_fields(packet.texts.at(12).front());
      for (const std::string& name : interned.texts.at(2))
        names[read_fields(name).number(1)] = read_fields(name).texts.at(2).front();
    }
    if (!packet.has(11)) continue;
    const WireFields event = read_fields(packet.texts.at(11).front());
    const std::uint64_t track = event.number(11), time = packet.number(8);
    CHECK(trace.tracks.contains(track));
    CHECK(time >= before);
    before = time;
    if (event.number(9) == 1) {
      open[track].push_back(
          {track, names.at(event.number(10)), static_cast<std::int64_t>(time), 0});
      if (event.has(47)) trace.flows.insert(event.number(47));
      if (event.has(48)) trace.ended_flows.insert(event.number(48));
    } else if (event.number(9) == 2) {
      REQUIRE_FALSE(open[track].empty());
      open[track].back().end = static_cast<std::int64_t>(time);
      trace.slices.insert(open[track].back());
      open[track].pop_back();
    } else {
      auto& highest = trace.highest[track];
      highest = std::max(highest, static_cast<std::int64_t>(event.number(30)));
    }
  }
  for (const auto& [track, left] : open) CHECK(left.empty());
  return trace;
}

}  // namespace

TEST_CASE("Perfetto's own format has every instruction of every schedule, to the nanosecond") {
  for (const ScheduleKind& kind : schedule_kinds) {
    const ScheduleShape shape{
        .devices = 4, .microbatches = 8, .virtual_stages = fewest_virtual_stages(kind.placement)};
    const std::optional<Schedule> schedule = generated(kind, shape);
    if (!schedule) continue;
    INFO(kind.name);
    const Timeline timeline = run(*schedule, split_costs(10ms, 12ms, 8ms), 1ms);
    const ReadTrace trace = read_native(write_perfetto({.timeline = timeline, .about = {}}));
    std::multiset<ReadSlice> expected;
    std::size_t messages = 0;
    for (const Span& span : timeline.spans) {
      expected.insert({static_cast<std::uint64_t>(32 * (span.device + 1) + 1) +
                           static_cast<std::uint64_t>(span.lane),
                       to_string(span.instruction), span.start.count(), span.end.count()});
      if (is_send(span.instruction.op) && span.peer) ++messages;
    }
    CHECK(trace.slices == expected);
    CHECK(trace.flows.size() == messages);
    CHECK(trace.flows == trace.ended_flows);
  }
}

TEST_CASE("Perfetto's own format counts memory by category") {
  Timeline timeline = run(one_f_one_b({.devices = 2, .microbatches = 4}), chunk_costs(10ms, 20ms));
  MemoryUse low{}, high{};
  low[0] = 5'000'000'000;
  high[0] = 5'000'000'000;
  high[4] = 70;
  timeline.memory = {{{0ms, low}, {10ms, high}, {30ms, low}}, {{0ms, low}}};
  const ReadTrace trace = read_native(write_perfetto({.timeline = timeline, .about = {}}));
  std::map<std::string, std::int64_t> peaks;
  for (const auto& [track, most] : trace.highest) peaks[trace.tracks.at(track)] = most;
  CHECK(peaks == std::map<std::string, std::int64_t>{{"memory: activations", 70},
                                                     {"memory: parameters", 5'000'000'000}});
}
