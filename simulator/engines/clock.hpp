// The clock of `simulate`: computes the start and end of each work of a program. Internal to the
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
  /// Throws Error (input) unless the costs match the program's tables in size and are not negative.
  Clock(const Program& program, const Costs& costs);

  /// Times one iteration; each lane continues at its end of the iteration before.
  void run();

  /// A barrier: later work starts after all work so far has ended.
  void barrier();

  /// Start of a work in the last iteration.
  Duration start(int work) const;
  Duration end(int work) const;

 private:
  using Time = std::int64_t;  // nanoseconds
  static constexpr int nobody = -1;
  static constexpr Time unknown = -1;

  /// The costs as flat tables.
  struct FlatCosts {
    std::vector<Time> compute;    ///< [chunk × operations + op]
    std::vector<Time> fused;      ///< by chunk of the forward; `unknown`: the sum of both halves
    std::vector<Time> latency;    ///< by channel
    std::vector<Time> occupancy;  ///< by channel
    std::vector<Time> group;
  };
  static FlatCosts flatten(const Program& program, const Costs& costs);

  struct Device {
    std::size_t cursor = 0;
    Time compute_free = 0;
    Time collective_free = 0;
    int last_collective = nobody;  ///< the device's last collective in this iteration; its end may
                                   ///< be unknown yet
    int next_sleeper = nobody;
  };

  /// A collective of which some members have arrived.
  struct Meeting {
    std::vector<int> arrived;
    Time ready = 0;
  };

  /// The time at which all waits have ended; or, if that is unknown yet, a work to wait for.
  struct Readiness {
    Time time = 0;
    int blocker = nobody;
  };

  /// The reason why a work cannot run.
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
  // Each function times this work and returns `nobody`, or returns the work that must be timed
  // first.
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
  std::vector<Time> end_;      ///< `unknown` until timed
  std::vector<Time> carried_;  ///< per work: earliest start, from the iteration before; empty if
                               ///< nothing is carried over
  std::vector<int> sleepers_;  ///< per work: the first device that waits for it
  std::vector<Device> devices_;
  std::vector<Time> channel_free_;
  std::vector<Meeting> meetings_;
  std::vector<int> awake_;
};

}  // namespace stagecraft
