// The clock inside `simulate`: when each work of a program starts and ends. Internal to the
// simulator.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/simulate.hpp"

namespace stagecraft {

class Clock {
 public:
  /// Throws Error (input) unless the costs are parallel to the program's tables and not negative.
  Clock(const Program& program, const Costs& costs);

  /// Puts one iteration on the clock; lanes go on where the iteration before has left them.
  void run();

  /// Nothing starts before everything so far has ended.
  void barrier();

  /// Of the last iteration.
  Duration start(int work) const;
  Duration end(int work) const;

 private:
  using Time = std::int64_t;  // nanoseconds
  static constexpr int nobody = -1;
  static constexpr Time unknown = -1;

  /// The tables of costs, ready for use.
  struct FlatCosts {
    std::vector<Time> compute;    ///< [chunk × operations + op]
    std::vector<Time> fused;      ///< by chunk of the forward; `unknown`: one after the other
    std::vector<Time> latency;    ///< by channel
    std::vector<Time> occupancy;  ///< by channel
    std::vector<Time> group;
  };
  static FlatCosts flatten(const Program& program, const Costs& costs);

  struct Device {
    std::size_t cursor = 0;
    Time compute_free = 0;
    Time collective_free = 0;
    int last_collective = nobody;  ///< in this iteration; its end may not be known yet
    int next_sleeper = nobody;
  };

  /// A collective some of whose members have arrived.
  struct Meeting {
    std::vector<int> arrived;
    Time ready = 0;
  };

  /// When everything waited for has ended; or, if that is not known yet, the work to wait for.
  struct Readiness {
    Time time = 0;
    int blocker = nobody;
  };

  /// What keeps a work from being done, and how.
  struct Cause {
    int work = nobody;
    std::string_view how;
  };

  const Work& work(int i) const;
  int device_of(int i) const;
  Device& state(int device);
  bool settled(int i) const;

  void carry();
  Time earliest(int i) const;
  void sweep();
  void advance(int device);
  Readiness readiness(const Work& item, Time earliest) const;
  // Each settles this work and returns nobody, or returns the work that must be settled first.
  int attempt(int i, Device& self);
  int compute(int i, const Work& item, Device& self);
  int compute_pair(int i, const Work& item, Device& self);
  Time cost(const Work& item) const;
  int send(int i, const Work& item);
  int receive(int i, const Work& item);
  int collective(int i, const Work& item, Device& self);
  void hold(Meeting& meeting, Time cost);
  void settle(int i, Time start, Time end);

  std::optional<int> awaited(const Work& item) const;
  std::optional<Cause> cause(int i);
  std::optional<Cause> missing_member(int group) const;
  std::string name(int i) const;
  [[noreturn]] void fail_stuck(int i);
  [[noreturn]] void fail_never(int waiting, int never) const;
  [[noreturn]] void fail_cycle(const std::vector<Cause>& chain) const;

  const Program& program_;
  FlatCosts costs_;
  std::vector<Time> start_;
  std::vector<Time> end_;      ///< unknown until settled
  std::vector<Time> carried_;  ///< per work, not before; empty where nothing is carried
  std::vector<int> sleepers_;  ///< per work, the first device that waits for it
  std::vector<Device> devices_;
  std::vector<Time> channel_free_;
  std::vector<Meeting> meetings_;
  std::vector<int> awake_;
};

}  // namespace stagecraft
