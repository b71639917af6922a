// What must happen before what, whatever the clock says: the waits of a program, the order of its
// lanes, and the waits that a way of communicating adds. Internal to the simulator.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "profiles/index.hpp"
#include "simulator/engines/events.hpp"

namespace stagecraft::events {

/// In the tables below: there is no such node.
inline constexpr int nobody = -1;

/// What can happen to a node that others wait for.
enum class Moment : std::uint8_t {
  start,
  sent,  ///< of a message: its channel is free again
  end,
};
inline constexpr int moments = 3;

/// Why one node waits for another.
enum class Why : std::uint8_t {
  data,      ///< the program says so
  lane,      ///< one after the other on the same lane
  buffer,    ///< the other one empties a buffer
  posted,    ///< the receive is posted after the other one
  queue,     ///< the other one is before it on the device's communicator
  exchange,  ///< the other one is in an exchange or batch before it
  step,      ///< the other one is in an earlier step
};
/// "waits for", "comes after", …: between the names of the two.
std::string_view to_string(Why why);

/// `to` may start when `from` has come to this moment, `later` iterations before.
struct Arc {
  int from = 0;
  int to = 0;
  Moment moment = Moment::end;
  Why why = Why::data;
  int later = 0;
};

/// Nodes 0, 1, … are the program's works; behind them are points, which take no time. Works that
/// start and end together (a collective on all its members, a fused pair) are one node: the first
/// of them, their *leader*.
struct Precedence {
  Precedence(const Program& source, const Environment& environment);

  const Program& program;
  int nodes = 0;
  std::vector<int> leader;                ///< per work
  std::vector<std::vector<int>> members;  ///< per leader of several works; else empty
  std::vector<int> send_of;               ///< per receive: its message's send, or nobody
  std::vector<int> receive_of;            ///< per send
  std::vector<Arc> arcs;
  std::vector<char> never;  ///< per node: it, or one of its members, stands in no order

  int device_of(int work) const;
  const Work& work(int i) const;
  bool is_point(int node) const { return node >= static_cast<int>(program.work.size()); }
  int add_point();
  /// Between leaders; nothing where both are the same.
  void add(const Arc& arc);
  /// Each after the one before; the first after the last, an iteration later.
  void chain(const std::vector<int>& sequence, Moment moment, Why why);

 private:
  void find_leaders();
  void find_collectives();
  void find_messages();
  void add_waits();
  void add_carried();
  void add_lanes();
};

/// The arcs that a policy and its protocol add.
void add_policy(Precedence& precedence, const Environment& environment);
/// Of these, the arcs of lock step. To be called before there are points.
void step_together(Precedence& precedence);

}  // namespace stagecraft::events
