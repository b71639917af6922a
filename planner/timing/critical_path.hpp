// The critical path of a pipeline, as counts: how often it passes each stage and each cut.
//
// A path through a program takes the sum of what it passes, whatever the layout: the counts of one
// layout's critical path, times the costs of another layout's stages, bound the step of that one
// from below. planner/relaxations/path_bound.hpp rests on this.

#pragma once

#include <vector>

#include "planner/timing/pipeline_costs.hpp"

namespace stagecraft {

/// How often a path, or a weighted mean of paths, passes a stage and the cut behind it.
struct Passes {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  double recompute = 0;  ///< instructions of the schedule; else a backward brings its own
  double sum = 0, update = 0, collect = 0;
  double there_latency = 0, there_occupancy = 0, back_latency = 0, back_occupancy = 0;
  bool operator==(const Passes&) const = default;
};

/// What they take, in nanoseconds; `again` is the recomputation that a backward brings along.
double time_of(const Passes& passes, const StageCosts& stage, double again);
double time_of(const Passes& passes, const CutCosts& cut);
void add(Passes& to, const Passes& from, double weight);

struct PassCounts {
  std::vector<Passes> stages;
  double ties = 0;  ///< of the first layer and the last
};

/// For each device a path that passes everything the device computes: down to its first
/// instruction, and from its last one on up to the end.
std::vector<PassCounts> device_paths(const PipelineCosts& costs, const TimedOrder& order);

/// For each stage a path that passes all that it does on the way back: before the first of them its
/// microbatch goes all the way, and after the last of them another one the rest of the way.
///
///   stage 0   F0                    B3
///   stage 1      F0    B0 B1 B2 B3                  the path of stage 1, 4 microbatches
///   stage 2         F0 B0
///
/// Valid for any layout, since what a device does comes one after the other. None where only some
/// backwards are split.
std::vector<PassCounts> backward_paths(const PipelineCosts& costs, const TimedOrder& order);

/// Times a layout with one replica per stage by the simulator's recurrence. Like the fast clock it
/// has a device's sums, updates and collections come in the order of its stages' last backwards; of
/// ties it knows that of both ends only.
class CriticalPasses {
 public:
  CriticalPasses(const PipelineCosts& costs, const TimedOrder& order, int microbatches);
  /// The critical path; its length, in nanoseconds, goes to `step`.
  PassCounts of(const Layout& layout, double& step);
  /// Of stages that take this much, be they a layout's or not; where blocks are alike, so are the
  /// messages between them.
  PassCounts of(const std::vector<StageTimes>& stages, double& step);
  /// And of messages that take this much; the last stage sends none.
  PassCounts of(const std::vector<StageTimes>& stages, const std::vector<CutCosts>& cuts,
                double& step);
  /// The one of them that this device has most part in: critical if the device were a little
  /// slower.
  PassCounts through(int device, const Layout& layout);

 private:
  /// What an instruction waited for.
  struct Cause {
    int before = -1;   ///< instruction; -1: none
    int messages = 0;  ///< through so many messages, one after the other; 0: on the same device
  };
  struct Arrival {
    double time = 0;
    Cause cause;
  };
  struct Channel {
    double free = 0, occupancy = 0, latency = 0;
    int origin = -1;  ///< the instruction whose message found it idle
    int messages = 0;
  };
  struct Last {
    double time = 0;
    int instruction = -1;
  };
  /// A sum, an update or a collection, or a tie's sum, and what it came after.
  struct Tail {
    double end = 0;
    int before = -1;       ///< another one
    int instruction = -1;  ///< or this
  };
  /// An instruction: what it waits for and what it hands on, by their places.
  struct Step {
    int stage = 0, device = 0;
    int time = 0;          ///< in `times_`
    int arrival = -1;      ///< in `arrivals_`; -1: it waits for no message
    int destination = -1;  ///< of its message there; -1: it sends none
    int channel = 0;       ///< in `channels_`, of that message
    bool ends = false;     ///< of its stage: it may be the last on the way back
  };
  void list_steps();
  void place(const Layout& layout);
  void place_message(int stage, const CutCosts& cut);
  void begin();
  void run();
  void hand_on(int instruction, const Step& step, double when);
  PassCounts finish(double& step) const;
  std::vector<int> by_completion() const;
  std::vector<Tail> tails() const;
  void sum_in_turn(const std::vector<int>& stages, std::vector<Tail>& tails) const;
  void update_in_turn(const std::vector<int>& stages, std::vector<Tail>& tails) const;
  void follow(int instruction, PassCounts& path) const;

  const PipelineCosts& costs_;
  const TimedOrder& order_;
  int microbatches_ = 0;
  std::vector<StageTimes> stages_;
  std::vector<double> slower_;     ///< factor per stage
  std::vector<Step> steps_;        ///< per instruction
  std::vector<double> times_;      ///< [stage, kind of instruction]
  std::vector<Arrival> arrivals_;  ///< [there or back, stage, microbatch]
  std::vector<Channel> channels_;  ///< [there or back, cut]
  std::vector<Last> device_;
  std::vector<Last> last_backward_;  ///< per stage
  std::vector<Cause> causes_;        ///< per instruction
};

}  // namespace stagecraft
