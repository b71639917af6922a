// The arcs mirror the clock's rules (clock.cpp, compiled.hpp):
//
//   compute      its waits, and the compute before it on the device
//   send         its waits, and the occupancy of the send before it on the channel
//   receive      the start of its send, and its other waits
//   collective   the waits of all members, and the collective before it on each of their devices

#include "simulator/engines/timing_graph.hpp"

#include <algorithm>
#include <map>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr int no_work = -1;

}  // namespace

TimingGraph::TimingGraph(const Program& program, const Costs& costs)
    : program_(program), costs_(costs), times_(CompiledProgram(program).times(costs)) {
  for (int work = 0; work < works(); ++work) {
    step_ = std::max(step_, end(work));
    event_of_.push_back(work);
    next_.push_back(no_work);
  }
  find_lane_predecessors();
  join_collectives();
  join_fused_pairs();
}

void TimingGraph::find_lane_predecessors() {
  before_.assign(program_.work.size(), no_work);
  std::vector<int> last_of_channel(program_.channels.size(), no_work);
  for (const std::vector<int>& order : program_.order) {
    int last_compute = no_work;
    int last_collective = no_work;
    for (const int i : order) {
      const Work& work = program_.work[index(i)];
      int* last = nullptr;
      switch (work.lane) {
        case Lane::compute: last = &last_compute; break;
        case Lane::send: last = &last_of_channel[index(*work.channel)]; break;
        case Lane::receive: continue;
        case Lane::collective: last = &last_collective; break;
      }
      before_[index(i)] = *last;
      *last = i;
    }
  }
}

/// The n-th works of a group on its chunks meet.
void TimingGraph::join_collectives() {
  std::map<std::pair<int, int>, int> held;   // [group, chunk] → meetings so far
  std::map<std::pair<int, int>, int> first;  // [group, number] → first member
  for (const std::vector<int>& order : program_.order) {
    for (const int i : order) {
      const Work& work = program_.work[index(i)];
      if (!work.group) continue;
      const int number = held[{*work.group, work.chunk}]++;
      const auto [place, is_first] = first.try_emplace({*work.group, number}, i);
      if (!is_first) join(place->second, i);
    }
  }
}

void TimingGraph::join_fused_pairs() {
  for (int work = 0; work < works(); ++work) {
    const std::optional<int> other = program_.work[index(work)].fused_with;
    if (other && *other > work) join(work, *other);
  }
}

void TimingGraph::join(int event, int work) {
  event_of_[index(work)] = event;
  next_[index(work)] = next_[index(event)];
  next_[index(event)] = work;
}

std::optional<int> TimingGraph::send_of(int i) const {
  const Work& work = program_.work[index(i)];
  if (work.lane != Lane::receive) return {};
  for (int w = work.waits.first; w < work.waits.end; ++w) {
    const Work& other = program_.work[index(program_.waits[index(w)])];
    if (other.lane == Lane::send && other.channel == work.channel) return program_.waits[index(w)];
  }
  return {};
}

void TimingGraph::add_arcs(std::vector<Arc>& arcs, int i) const {
  const Work& work = program_.work[index(i)];
  if (const int before = before_[index(i)]; before != no_work) {
    const Duration delay =
        work.lane == Lane::send ? costs_.channels[index(*work.channel)].occupancy : time(before);
    arcs.push_back({before, delay});
  }
  const std::optional<int> send = send_of(i);
  for (int w = work.waits.first; w < work.waits.end; ++w) {
    const int on = program_.waits[index(w)];
    arcs.push_back({on, on == send ? Duration{0} : time(on)});
  }
}

std::vector<TimingGraph::Arc> TimingGraph::arcs_into(int event) const {
  std::vector<Arc> arcs;
  for (int work = event; work != no_work; work = next_[index(work)]) add_arcs(arcs, work);
  std::erase_if(arcs, [&](const Arc& arc) { return event_of(arc.from) == event; });
  return arcs;
}

}  // namespace stagecraft
