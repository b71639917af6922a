#include "simulator/engines/events/precedence.hpp"

#include <map>
#include <utility>

namespace stagecraft::events {

std::string_view to_string(Why why) {
  switch (why) {
    case Why::data: return "waits for";
    case Why::lane: return "comes after";
    case Why::buffer: return "needs a buffer that is emptied by";
    case Why::posted: return "needs a receive that is posted after";
    case Why::queue: return "stands in line behind";
    case Why::exchange: return "is held up by the exchange of";
    case Why::step: return "is in a later step than";
  }
  return "";
}

Precedence::Precedence(const Program& source, const Environment& environment)
    : program(source),
      nodes(static_cast<int>(source.work.size())),
      leader(source.work.size()),
      members(source.work.size()),
      send_of(source.work.size(), nobody),
      receive_of(source.work.size(), nobody),
      never(source.work.size(), 0) {
  find_leaders();
  find_messages();
  add_waits();
  add_carried();
  add_lanes();
  add_policy(*this, environment);
}

int Precedence::device_of(int work) const {
  return program.chunks[index(program.work[index(work)].chunk)].device;
}
const Work& Precedence::work(int i) const {
  return program.work[index(i)];
}

int Precedence::add_point() {
  never.push_back(0);
  return nodes++;
}

void Precedence::add(const Arc& arc) {
  const auto lead = [&](int node) { return is_point(node) ? node : leader[index(node)]; };
  Arc led = arc;
  led.from = lead(arc.from);
  led.to = lead(arc.to);
  if (led.from != led.to) arcs.push_back(led);
}

void Precedence::chain(const std::vector<int>& sequence, Moment moment, Why why) {
  if (sequence.empty()) return;
  for (std::size_t i = 1; i < sequence.size(); ++i) {
    add({.from = sequence[i - 1], .to = sequence[i], .moment = moment, .why = why});
  }
  arcs.push_back({.from = leader[index(sequence.back())],
                  .to = leader[index(sequence.front())],
                  .moment = moment,
                  .why = why,
                  .later = 1});
}

void Precedence::find_leaders() {
  std::vector<char> issued(program.work.size(), 0);
  for (const auto& order : program.order) {
    for (const int i : order) issued[index(i)] = 1;
  }
  for (std::size_t i = 0; i < leader.size(); ++i) {
    const std::optional<int> other = program.work[i].fused_with;
    leader[i] = std::min(static_cast<int>(i), other.value_or(static_cast<int>(i)));
    if (other) members[index(leader[i])].push_back(static_cast<int>(i));
    if (issued[i] == 0) never[index(leader[i])] = 1;
  }
  find_collectives();
}

/// The k-th collective of a group on each of its chunks are one.
void Precedence::find_collectives() {
  std::vector<std::vector<int>> leaders(program.groups.size());
  std::map<std::pair<int, int>, std::size_t> seen;  // of a group, on a chunk
  for (const auto& order : program.order) {
    for (const int i : order) {
      if (!work(i).group) continue;
      const int group = *work(i).group;
      const std::size_t turn = seen[{group, work(i).chunk}]++;
      auto& meetings = leaders[index(group)];
      if (turn == meetings.size()) meetings.push_back(i);
      leader[index(i)] = meetings[turn];
      members[index(meetings[turn])].push_back(i);
    }
  }
  for (std::size_t group = 0; group < leaders.size(); ++group) {
    for (const int first : leaders[group]) {
      if (members[index(first)].size() < program.groups[group].chunks.size()) {
        never[index(first)] = 1;
      }
    }
  }
}

void Precedence::find_messages() {
  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    if (work(i).lane != Lane::receive) continue;
    for (int w = work(i).waits.first; w < work(i).waits.end; ++w) {
      const int on = program.waits[index(w)];
      if (!is_send(work(on).instruction.op) || work(on).channel != work(i).channel) continue;
      send_of[index(i)] = on;
      receive_of[index(on)] = i;
    }
  }
}

void Precedence::add_waits() {
  for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
    for (int w = work(i).waits.first; w < work(i).waits.end; ++w) {
      const int on = program.waits[index(w)];
      add({.from = on, .to = i, .moment = on == send_of[index(i)] ? Moment::start : Moment::end});
    }
  }
}

void Precedence::add_carried() {
  for (const CarriedWait& wait : program.carried) {
    add({.from = wait.on, .to = wait.work, .later = 1});
  }
}

/// Compute and collectives one at a time per device, messages one at a time per channel.
void Precedence::add_lanes() {
  std::vector<std::vector<int>> sends(program.channels.size());
  for (const auto& order : program.order) {
    std::vector<int> compute, collective;
    for (const int i : order) {
      switch (work(i).lane) {
        case Lane::compute: compute.push_back(i); break;
        case Lane::send: sends[index(*work(i).channel)].push_back(i); break;
        case Lane::receive: break;
        case Lane::collective: collective.push_back(i); break;
      }
    }
    chain(compute, Moment::end, Why::lane);
    chain(collective, Moment::end, Why::lane);
  }
  for (const auto& channel : sends) chain(channel, Moment::sent, Why::lane);
}

}  // namespace stagecraft::events
