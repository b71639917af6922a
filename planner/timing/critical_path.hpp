// The critical path of a pipeline, as counts: how often it passes each stage and each cut.
//
// The length of a path through a program is the sum of the costs that it passes, for any layout. So
// the counts of one layout's critical path, times the costs of another layout's stages, are a lower
// bound on the step of the other layout. planner/relaxations/path_bound.hpp uses this.

#pragma once

#include <vector>

#include "planner/timing/pipeline_costs.hpp"

namespace stagecraft {

/// How often a path, or a weighted mean of paths, passes a stage and the cut behind it.
struct Passes {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  double recompute = 0;  ///< recompute instructions of the schedule; without them, each backward
                         ///< includes its own
  double sum = 0, update = 0, collect = 0;
  double there_latency = 0, there_occupancy = 0, back_latency = 0, back_occupancy = 0;
  bool operator==(const Passes&) const = default;
};

/// The time of the passes, in nanoseconds; `again` is the recomputation included in each backward.
double time_of(const Passes& passes, const StageCosts& stage, double again);
double time_of(const Passes& passes, const CutCosts& cut);
void add(Passes& to, const Passes& from, double weight);

struct PassCounts {
  std::vector<Passes> stages;
  double ties = 0;  ///< exchanges of tied weights of the first and the last layer
};

/// For each device, a path that passes all that the device computes: down to its first instruction,
/// through all of them, and from its last one to the end.
std::vector<PassCounts> device_paths(const PipelineCosts& costs, const TimedOrder& order);

/// For each stage, a path that passes all of its backwards: before the first of them, its
/// microbatch passes all forwards and the later backwards; after the last of them, the last
/// microbatch passes the earlier backwards.
///
///   stage 0   F0                    B3
///   stage 1      F0    B0 B1 B2 B3                  the path of stage 1, 4 microbatches
///   stage 2         F0 B0
///
/// Valid for any layout, since a device's instructions run one after the other. Empty if only some
/// backwards are split.
std::vector<PassCounts> backward_paths(const PipelineCosts& costs, const TimedOrder& order);

/// Times a layout with one replica per stage by the simulator's recurrence, and records what each
/// instruction waited for. Like the fast clock, it runs a device's sums, updates and collections in
/// the order of its stages' last backwards. Of tied weights, it only knows those of the first and
/// the last layer.
class CriticalPasses {
 public:
  CriticalPasses(const PipelineCosts& costs, const TimedOrder& order, int microbatches);
  /// The critical path of a layout; `step` becomes its length in nanoseconds.
  PassCounts of(const Layout& layout, double& step);
  /// The critical path for given stage times, whether or not they are those of a layout, with the
  /// messages between equal blocks.
  PassCounts of(const std::vector<StageTimes>& stages, double& step);
  /// The critical path for given stage times and messages; the last stage sends none.
  PassCounts of(const std::vector<StageTimes>& stages, const std::vector<CutCosts>& cuts,
                double& step);
  /// Of the critical paths, one that passes the device as much as possible: the critical path if
  /// the device were slightly slower.
  PassCounts through(int device, const Layout& layout);

 private:
  /// The event that an instruction waited for.
  struct Cause {
    int before = -1;   ///< instruction; -1: none
    int messages = 0;  ///< messages between them, one after the other; 0: same device
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
  /// A sum, an update, a collection, or the sum of tied weights, with what it came after.
  struct Tail {
    double end = 0;
    int before = -1;       ///< the tail that it came after
    int instruction = -1;  ///< or the instruction that it came after
  };
  /// An instruction with the places of its time, its arrival and its message.
  struct Step {
    int stage = 0, device = 0;
    int time = 0;          ///< place in `times_`
    int arrival = -1;      ///< place in `arrivals_`; -1: it waits for no message
    int destination = -1;  ///< place of its message in `arrivals_`; -1: it sends none
    int channel = 0;       ///< place of that message's channel in `channels_`
    bool ends = false;     ///< it may be the stage's last backward
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
