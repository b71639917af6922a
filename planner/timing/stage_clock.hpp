// The step of a pipeline by what each of its stages takes, be they those of a layout or not: stages
// that take as little as any of several choices give a step that no pipeline of these choices is
// below.
//
// The simulator's recurrence, as in planner/timing/critical_path.hpp, for several pipelines side
// by side and without asking what came before what.

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
  /// What each lane takes, in nanoseconds.
  const std::array<double, lanes>& run();
  /// Effort of a run, in steps of about ten nanoseconds.
  std::int64_t steps_per_run() const { return steps_per_run(steps_.size()); }
  static std::int64_t steps_per_run(std::size_t instructions) {
    return static_cast<std::int64_t>(instructions) * 2 / 5;
  }

 private:
  /// A value of each lane. Pairs are what all processors have vector instructions for.
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
  /// What an instruction takes, waits for and hands on, by their places.
  struct Step {
    int stage = 0, device = 0;
    int time = 0;          ///< in `times_`
    int arrival = -1;      ///< in `arrivals_`; -1: it waits for no message
    int destination = -1;  ///< of its message there; -1: it sends none
    int channel = 0;       ///< in `channels_`, of that message
    bool ends = false;     ///< of its stage: it may be the last on the way back
  };
  struct Channel {
    Lanes free;
    double occupancy = 0, latency = 0;
  };
  /// At the end.
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
  std::vector<int> by_completion_;  ///< stages, those whose last backward comes first in front
  std::vector<Lanes> times_;        ///< [stage, kind of instruction]
  std::vector<Tail> tails_;         ///< per stage: what they take
  std::vector<Lanes> arrivals_;     ///< places are used again
  std::vector<Channel> channels_;   ///< [there or back, cut]
  std::vector<Lanes> device_;
  std::vector<Lanes> last_backward_;  ///< per stage
  std::vector<Lanes> summed_;         ///< per stage: when
  std::vector<Lanes> lane_end_;       ///< per device: of its sums, then of its collections
  Lanes tie_;                         ///< when it is summed
  std::array<double, lanes> result_{};
};

}  // namespace stagecraft
