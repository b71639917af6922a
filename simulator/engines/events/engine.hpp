// The event engine proper: goes from instant to instant and, at each, starts all that may start.
// Internal to the simulator.

#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simulator/engines/events/precedence.hpp"
#include "simulator/engines/events/queue.hpp"
#include "simulator/engines/events/traffic.hpp"

namespace stagecraft::events {

/// What each node costs, ready for use.
struct Timing {
  /// Throws Error (input) unless costs and environment fit the program.
  Timing(const Precedence& precedence, const Costs& costs, const Environment& environment);

  std::vector<Time> duration;                            ///< by node: of computes and collectives
  std::vector<Time> occupancy, latency;                  ///< by channel
  std::vector<const Route*> channel_route, group_route;  ///< null: off the network
  std::vector<Bytes> channel_bytes, group_bytes;         ///< of those on it
};

/// The arcs by where they come from.
struct ArcTable {
  explicit ArcTable(const Precedence& precedence);

  struct Target {
    int to = 0;
    int later = 0;
  };
  std::span<const Target> row(int node, Moment moment) const {
    const std::size_t row = index(node) * moments + static_cast<std::size_t>(moment);
    return std::span(targets).subspan(index(first[row]), index(first[row + 1] - first[row]));
  }

  std::vector<int> first;  ///< by node and moment; the last: all
  std::vector<Target> targets;
  int longest = 0;  ///< of all arcs, how many iterations later
};

/// All nodes, in the order in which those of one iteration would start if nothing but the arcs
/// bore on them; what never starts comes last.
std::vector<int> likely_order(const ArcTable& arcs, const Precedence& precedence,
                              const Timing& timing, const Network& network);

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

  bool ended(int work, int iteration) const { return end(work, iteration) != unknown; }
  Time start(int work, int iteration) const { return span_[index(id_of(work, iteration))].start; }
  Time end(int work, int iteration) const { return span_[index(id_of(work, iteration))].end; }
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

  /// All that every node takes to run, in half a cache line.
  struct Slot {
    Time duration = 0;  ///< of a message: how long it occupies its channel
    /// By moment: the first of them in follower_; the last ones end where the next slot's begin.
    std::array<int, moments> followers{};
    int partner = nobody;  ///< of a send the slot of its receive, of a receive that of its send
    int table = nobody;    ///< of a message its channel, of a collective its group
    Kind kind = Kind::point;
    bool forward = false;  ///< or a pair with one
    bool routed = false;   ///< crosses the network
  };
  static_assert(sizeof(Slot) == 32);
  /// What it means for its device; used only where something bears on it.
  struct Holding {
    Bytes allocates = 0, frees = 0;
    int device = 0;
  };
  struct Span {
    Time start = unknown;
    Time end = unknown;
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
  struct StopEvent {
    Time time = 0;
    int device = 0;
    int change = 0;
  };
  /// In the order of their times, and how many of them have come.
  struct Stops {
    std::vector<StopEvent> events;
    std::size_t come = 0;
    const StopEvent* next() const { return come < events.size() ? &events[come] : nullptr; }
  };

  // Names and places. Nodes lie in slots, in the order in which they are likely to start, so that
  // what happens together lies together. An id is a slot + iteration × nodes.
  struct Places {
    int nodes = 0;
    std::vector<int> slot_of;  ///< by node
    std::vector<int> node_of;  ///< by slot
  };
  int id_of(int work, int iteration) const {
    const int node = precedence_.is_point(work) ? work : precedence_.leader[index(work)];
    return places_.slot_of[index(node)] + iteration * places_.nodes;
  }
  int slot_of(int id) const { return id < places_.nodes ? id : id % places_.nodes; }
  int named(int id) const { return id - slot_of(id) + node_of(id); }
  int node_of(int id) const { return places_.node_of[index(slot_of(id))]; }
  const Slot& at(int slot) const { return slots_[index(slot)]; }
  Device& device_of(int work) { return devices_[index(precedence_.device_of(work))]; }

  void prepare_slots();
  Slot prepare_slot(int node) const;
  Holding prepare_holding(int node) const;
  void prepare_followers(const ArcTable& arcs);
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

  // Nodes go on.
  void reach(int id, int slot, Moment moment);
  void begin(int id);
  bool held_back(int id, int slot);
  void enter(int id, int slot);
  void compute(int id, const Slot& self);
  void send(int id, const Slot& self);
  void receive(int id, int slot);
  void collective(int id, const Slot& self);
  void sent(int id, int slot);
  void finish(int id, int slot);
  void finish_receive(int id, int slot);

  // What bears on compute.
  void change_speed(Device& device);
  std::span<const int> elsewhere(int slot) const;
  void enter_device(int slot);
  void leave_device(int slot);
  void count_active(int slot, int change);
  std::span<const int> members_of(const int& node) const;
  void apply_stops();
  void stop_or_go(const StopEvent& event);

  // Memory.
  Bytes bytes_of(IndexRange range, const std::vector<int>& table) const;
  void serve_memory();

  // When nothing moves any more. These speak of nodes + iteration × nodes.
  struct Cause {
    int id = nobody;       ///< none: the story ends here
    std::string_view how;  ///< "waits for"
  };
  int engine_id(int named) const {
    const int node = named % places_.nodes;
    return places_.slot_of[index(node)] + (named - node);
  }
  bool open(int named) const { return span_[index(engine_id(named))].end == unknown; }
  Cause cause(int named) const;
  Cause unmet_wait(int named) const;
  Cause missing_memory(int named) const;
  bool has_come(int named, Moment moment) const;
  std::vector<Cause> chain_from(int named) const;
  std::string text_of(const std::vector<Cause>& chain, std::size_t first) const;
  std::string name(int named) const;

  const Precedence& precedence_;
  const Program& program_;
  const Environment& environment_;
  Timing timing_;
  Places places_;
  int total_ = 0;
  std::vector<Slot> slots_;  // and one behind the last
  std::vector<Holding> holdings_;
  std::vector<int> follower_;            // slot + later × nodes
  std::vector<std::vector<int>> needs_;  // [iteration][slot]; the last is that of all further ones
  Stops stops_;
  bool limited_ = false;
  bool flexible_ = false;  // compute may change its speed

  Traffic traffic_;
  std::vector<Device> devices_;
  std::vector<int> unmet_;
  std::vector<Span> span_;
  std::vector<Time> memory_time_;
  EventQueue queue_;
  std::vector<int> ready_;
  std::vector<int> wanting_;  // devices whose next forward wants memory
  std::size_t ended_ = 0;
  Time now_ = 0;
  Time latest_ = 0;
};

}  // namespace stagecraft::events
