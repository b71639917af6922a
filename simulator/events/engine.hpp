// The event engine proper: goes from instant to instant and, at each, starts all that may start.
// Internal to the simulator.

#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "simulator/events/precedence.hpp"
#include "simulator/events/traffic.hpp"

namespace stagecraft::events {

inline Time add(Time a, Time b) {
  Time sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail("simulate: times exceed 292 years");
  return sum;
}

/// What each node costs, ready for use.
struct Timing {
  /// Throws Error (input) unless costs and environment fit the program.
  Timing(const Precedence& precedence, const Costs& costs, const Environment& environment);

  std::vector<Time> duration;                            ///< by node: of computes and collectives
  std::vector<Time> occupancy, latency;                  ///< by channel
  std::vector<const Route*> channel_route, group_route;  ///< null: off the network
  std::vector<Bytes> channel_bytes, group_bytes;         ///< of those on it
};

class Engine {
 public:
  /// `together` iterations run without a barrier between them; nodes of iteration i are numbered
  /// from i × precedence.nodes on.
  Engine(const Precedence& precedence, const Costs& costs, const Environment& environment,
         int together);

  /// Runs all `together` iterations from `now` on; false if something did not end.
  bool run(Time now);
  /// The latest end.
  Time latest() const { return latest_; }

  bool ended(int work, int iteration) const { return end_[place(work, iteration)] != unknown; }
  Time start(int work, int iteration) const { return start_[place(work, iteration)]; }
  Time end(int work, int iteration) const { return end_[place(work, iteration)]; }
  /// Per device.
  const std::vector<Time>& waiting_for_memory() const { return memory_time_; }

  /// What keeps this device from going on, and so on; none if it has done all.
  std::optional<std::string> stranded(int device) const;
  /// Some device has stopped for good.
  bool has_stopped() const;
  /// Names the nodes that wait for each other.
  [[noreturn]] void fail_stuck() const;

 private:
  static constexpr Time unknown = -1;

  enum class Kind : std::uint8_t { compute, send, receive, collective, point };

  /// All that running a node takes, in one place.
  struct Node {
    Time duration = 0;  ///< of a message: how long it occupies its channel
    Time latency = 0;
    std::array<int, moments + 1> followers{};  ///< by moment: the first of them, in follower_
    int device = 0;
    int partner = nobody;  ///< of a send its receive, of a receive its send
    Kind kind = Kind::point;
    bool forward = false;            ///< or a pair with one
    const Route* route = nullptr;    ///< null: off the network
    Bytes bytes = 0;                 ///< on it
    Bytes allocates = 0, frees = 0;  ///< on its device
  };
  /// A device's compute lane, and what bears on it.
  struct Device {
    int running = nobody;  ///< kept only where its speed may change
    Wide left = 0;         ///< thousandths of nanoseconds at full speed, at `since`
    Time since = 0;
    int speed = 1000;
    Time due = unknown;
    std::array<int, lanes.size()> active{};  ///< by lane: works under way
    int stops = 0;                           ///< in force
    std::vector<int> held;                   ///< what a stop keeps from starting
    int wants_memory = nobody;               ///< its next forward, ready but for memory …
    Time wants_since = 0;                    ///< … since then
    Bytes memory = 0;
  };
  struct Event {
    Time time = 0;
    int id = 0;
    bool sent = false;  ///< not its end, but the moment its channel is free again
  };
  struct StopEvent {
    Time time = 0;
    int device = 0;
    int change = 0;
  };

  // Names and places.
  std::size_t place(int work, int iteration) const {
    return index(precedence_.is_point(work) ? work : precedence_.leader[index(work)]) +
           index(iteration) * index(nodes_);
  }
  int node_of(int id) const { return id < nodes_ ? id : id % nodes_; }
  const Node& at(int node) const { return node_table_[index(node)]; }
  Device& device_of(int work) { return devices_[index(precedence_.device_of(work))]; }

  void prepare_nodes(const Timing& timing);
  Node prepare_node(const Timing& timing, int node) const;
  void prepare_followers();
  void prepare_stops(const std::vector<Stop>& stops);
  void reset(Time now);
  bool is_node(int node) const {
    return precedence_.is_point(node) || precedence_.leader[index(node)] == node;
  }

  // Time goes on.
  bool advance();
  bool take_event_of_now();
  void settle_instant();
  void take(const Event& event);
  void push(Time time, int id, bool sent);

  // Nodes go on.
  void reach(int id, int node, Moment moment);
  void begin(int id);
  bool held_back(int id, int node);
  void enter(int id, int node);
  void compute(int id, int node);
  void send(int id, int node);
  void receive(int id, int node);
  void collective(int id, int node);
  void sent(int id, int node);
  void finish(int id, int node);
  void finish_receive(int id, int node);

  // What bears on compute.
  void change_speed(Device& device);
  std::span<const int> elsewhere(int node) const;
  void enter_device(int node);
  void leave_device(int node);
  void count_active(int node, int change);
  std::span<const int> members_of(const int& node) const;
  void apply_stops();
  void stop_or_go(const StopEvent& event);

  // Memory.
  Bytes bytes_of(IndexRange range, const std::vector<int>& table) const;
  void serve_memory();

  // When nothing moves any more.
  struct Cause {
    int id = nobody;       ///< none: the story ends here
    std::string_view how;  ///< "waits for"
  };
  Cause cause(int id) const;
  Cause unmet_wait(int id, int node) const;
  Cause missing_memory(int id, int node) const;
  bool has_come(int id, Moment moment) const;
  std::vector<Cause> chain_from(int id) const;
  std::string text_of(const std::vector<Cause>& chain, std::size_t first) const;
  std::string name(int id) const;

  const Precedence& precedence_;
  const Program& program_;
  const Environment& environment_;
  int nodes_ = 0;
  int total_ = 0;
  std::vector<Node> node_table_;
  std::vector<int> follower_;            // node + later × nodes
  std::vector<std::vector<int>> needs_;  // [iteration][node]; the last is that of all further ones
  std::vector<StopEvent> stops_;
  bool limited_ = false;
  bool flexible_ = false;  // compute may change its speed

  Traffic traffic_;
  std::vector<Device> devices_;
  std::vector<int> unmet_;
  std::vector<Time> start_, end_;
  std::vector<Time> memory_time_;
  std::vector<Event> heap_;
  std::vector<int> ready_;
  std::vector<int> wanting_;  // devices whose next forward wants memory
  std::size_t next_stop_ = 0;
  std::size_t ended_ = 0;
  Time now_ = 0;
  Time latest_ = 0;
};

}  // namespace stagecraft::events
