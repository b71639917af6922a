// The step of a pipeline from given stage times, whether or not they are those of a layout. If
// every stage takes the minimum over several choices, the step is a lower bound on all pipelines of
// these choices.
//
// It runs the simulator's recurrence, as planner/timing/critical_path.hpp does, for several
// pipelines in vector lanes and without recording causes.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/timing/pipeline_costs.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

class StageClock {
 public:
  /// Pipelines that are timed at once.
  static constexpr int lanes = 8;

  StageClock(const PipelineCosts& costs, const TimedOrder& order, int microbatches);

  int stages() const { return static_cast<int>(last_backward_.size()); }
  void put(int lane, int stage, const StageTimes& times);
  /// The step of each lane, in nanoseconds.
  const std::array<double, lanes>& run();
  /// Effort of a run, in steps of about ten nanoseconds.
  std::int64_t steps_per_run() const { return steps_per_run(steps_.size()); }
  static std::int64_t steps_per_run(std::size_t instructions) {
    return static_cast<std::int64_t>(instructions) * 2 / 5;
  }

 private:
  /// One value per lane. All processors have vector instructions for pairs.
  struct Lanes {
    typedef double Pair __attribute__((vector_size(2 * sizeof(double))));
    std::array<Pair, lanes / 2> of{};
    void raise_to(const Lanes& other) {
      for (std::size_t p = 0; p < of.size(); ++p) of[p] = of[p] > other.of[p] ? of[p] : other.of[p];
    }
    void add(const Lanes& other) {
      for (std::size_t p = 0; p < of.size(); ++p) of[p] += other.of[p];
    }
    void add(double time) {
      for (Pair& pair : of) pair += time;
    }
    void set(int lane, double time) { of[index(lane / 2)][lane % 2] = time; }
    double get(int lane) const { return of[index(lane / 2)][lane % 2]; }
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
  struct Channel {
    Lanes free;
    double occupancy = 0, latency = 0;
  };
  /// Times after the last backward.
  struct Tail {
    Lanes sum, update, collect;
  };

  void list_steps(const TimedOrder& order, int microbatches);
  void list_channels();
  void list_completion();
  void time_instructions();
  void time_sums();
  void time_updates();

  const PipelineCosts& costs_;
  std::vector<Step> steps_;
  std::vector<int> by_completion_;  ///< stages in the order of their last backwards
  std::vector<Lanes> times_;        ///< [stage, kind of instruction]
  std::vector<Tail> tails_;         ///< per stage: times after the last backward
  std::vector<Lanes> arrivals_;     ///< arrival times; places are reused
  std::vector<Channel> channels_;   ///< [there or back, cut]
  std::vector<Lanes> device_;
  std::vector<Lanes> last_backward_;  ///< per stage
  std::vector<Lanes> summed_;         ///< per stage: time at which its gradient is summed
  std::vector<Lanes> lane_end_;       ///< per device: end of its sums, then of its collections
  Lanes tie_;                         ///< time at which tied weights are summed
  std::array<double, lanes> result_{};
};

}  // namespace stagecraft
