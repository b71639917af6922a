// In which order nodes are likely to start. Where they lie in that order, the engine goes through
// memory almost as it goes through time; in the order of the program, neighbours in time are as far
// apart as the devices are many. Only speed depends on it.

#include <algorithm>

#include "simulator/engines/events/engine.hpp"

namespace stagecraft::events {

ArcTable::ArcTable(const Precedence& precedence)
    : first(index(precedence.nodes) * moments + 1, 0), targets(precedence.arcs.size()) {
  const auto row_of = [](const Arc& arc) {
    return index(arc.from) * moments + static_cast<std::size_t>(arc.moment);
  };
  for (const Arc& arc : precedence.arcs) {
    ++first[row_of(arc) + 1];
    longest = std::max(longest, arc.later);
  }
  for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<int> next(first.begin(), first.end() - 1);
  for (const Arc& arc : precedence.arcs) {
    targets[index(next[row_of(arc)]++)] = {arc.to, arc.later};
  }
}

namespace {

class LikelyOrder {
 public:
  LikelyOrder(const ArcTable& arcs, const Precedence& precedence, const Timing& timing,
              const Network& network)
      : arcs_(arcs),
        precedence_(precedence),
        timing_(timing),
        start_(index(precedence.nodes), 0),
        unmet_(index(precedence.nodes), 0) {
    for (std::size_t i = 0; i < timing.channel_route.size(); ++i) {
      occupancy_.push_back(timing.occupancy[i]);
      const Route* route = timing.channel_route[i];
      if (route != nullptr) occupancy_.back() = alone(*route, timing.channel_bytes[i], network);
    }
    for (const Arc& arc : precedence.arcs) unmet_[index(arc.to)] += arc.later == 0 ? 1 : 0;
  }

  std::vector<int> find() {
    std::vector<int> order;
    order.reserve(start_.size());
    for (int node = precedence_.nodes; node-- > 0;) {
      if (unmet_[index(node)] == 0) queue_.push({.time = 0, .id = node});
    }
    while (const auto time = queue_.next()) {
      queue_.move_to(*time);
      while (const auto event = queue_.take()) {
        order.push_back(event->id);
        pass(event->id);
      }
    }
    for (int node = 0; node < precedence_.nodes; ++node) {
      if (unmet_[index(node)] > 0) order.push_back(node);
    }
    return order;
  }

 private:
  /// A guess must not fail.
  static Time later(Time time, Time by) {
    Time sum = 0;
    return __builtin_add_overflow(time, by, &sum) ? time : sum;
  }

  static Time alone(const Route& route, Bytes bytes, const Network& network) {
    Bandwidth narrowest = Bandwidth::unlimited();
    for (const int link : route.links) {
      narrowest = std::min(narrowest, network.links[index(link)], [](Bandwidth a, Bandwidth b) {
        return a.bytes_per_second < b.bytes_per_second;
      });
    }
    return static_cast<Time>(static_cast<double>(bytes) * 1e9 /
                             static_cast<double>(narrowest.bytes_per_second));
  }

  void pass(int node) {
    const Time start = start_[index(node)];
    reach(node, Moment::start, start);
    if (precedence_.is_point(node)) return reach(node, Moment::end, start);
    const int send = precedence_.send_of[index(node)];
    const Work& work = precedence_.work(send == nobody ? node : send);
    if (work.lane != Lane::send) {
      return reach(node, Moment::end, later(start, timing_.duration[index(node)]));
    }
    const std::size_t channel = index(*work.channel);
    const Time sent = later(start, occupancy_[channel]);
    reach(node, Moment::sent, sent);
    reach(node, Moment::end, later(sent, timing_.latency[channel]));
  }

  void reach(int node, Moment moment, Time time) {
    for (const ArcTable::Target& target : arcs_.row(node, moment)) {
      if (target.later > 0) continue;
      Time& start = start_[index(target.to)];
      start = std::max(start, time);
      if (--unmet_[index(target.to)] == 0) queue_.push({.time = start, .id = target.to});
    }
  }

  const ArcTable& arcs_;
  const Precedence& precedence_;
  const Timing& timing_;
  std::vector<Time> occupancy_;  // by channel
  std::vector<Time> start_;      // by node
  std::vector<int> unmet_;       // by node
  EventQueue queue_;
};

}  // namespace

std::vector<int> likely_order(const ArcTable& arcs, const Precedence& precedence,
                              const Timing& timing, const Network& network) {
  return LikelyOrder(arcs, precedence, timing, network).find();
}

}  // namespace stagecraft::events
