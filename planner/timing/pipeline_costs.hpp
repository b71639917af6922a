// Table of the costs of one pipeline's possible stages: every range of layers on every device, and
// every cut between two stages. For relaxations, which read each of them many times.

#pragma once

#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// Costs of one replica of a stage: nanoseconds, exact in a double, and its share of memory.
struct StageCosts {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  double update = 0;   ///< update of its share of the optimizer
  double sum = 0;      ///< sum of gradients over columns
  double collect = 0;  ///< collection of parameters, if the optimizer is sharded
  ChunkMemory memory;
};

/// Times of a stage in nanoseconds: of one microbatch, and after its last backward.
struct StageTimes {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  double sum = 0, update = 0, collect = 0;

  /// The times of a stage with these costs, with recomputation `again` before every backward.
  static StageTimes of(const StageCosts& costs, double again);
  /// Takes the minimum of each time.
  void lower_to(const StageTimes& other);
  void add(const StageTimes& other, double weight);
};

/// The messages of one microbatch, forward (`there`) and backward (`back`).
struct CutCosts {
  double there_latency = 0, there_occupancy = 0;
  double back_latency = 0, back_occupancy = 0;
};

/// Costs for a setting of columns, with one replica per stage (`Setting::depth`).
class PipelineCosts {
 public:
  /// Stages whose forwards and backwards alone take longer than `limit` are left out.
  PipelineCosts(const Space& space, const Setting& setting, Time limit);

  int stages() const { return stages_; }
  int layers() const { return layers_; }
  int depth() const { return depth_; }
  int device_of(int stage) const { return device_of_[static_cast<std::size_t>(stage)]; }
  /// Number of stages of the same device before this one.
  int turn_of(int stage) const { return turn_of_[static_cast<std::size_t>(stage)]; }
  /// The device's stage with this turn.
  int stage_of(int device, int turn) const;
  /// Costs of single layers on the stage's device.
  const CostTable& table(int stage) const { return *kind_of(stage).table; }
  /// A stage may begin at `first` and end at layers in (first, last_end].
  int last_end(int stage, int first) const;
  const StageCosts& stage(int stage, int first, int end) const {
    const Kind& kind = kind_of(stage);
    return kind.costs[kind.place(first, end)];
  }
  /// Index of the stage's costs in one list of all different stages; stages of equal costs share an
  /// index.
  std::size_t place(int stage, int first, int end) const {
    const Kind& kind = kind_of(stage);
    return kind.begin + kind.place(first, end);
  }
  std::size_t places() const { return kinds_.back().begin + kinds_.back().costs.size(); }
  const CutCosts& cut(int stage, int layer) const;
  /// Bytes a device may hold; infinite without a limit.
  double limit(int device) const { return limits_[static_cast<std::size_t>(device)]; }
  /// Whether the stage may have layers whose backward takes no time.
  bool may_take_no_time(int stage) const;
  /// Time to exchange gradients of weights tied between the first and the last layer; 0 if they are
  /// not tied.
  double tie() const { return tie_; }
  /// Whether the first and the last layer are tied and on one device: then their updates wait for
  /// both gradients.
  bool joins_ends() const { return joins_ends_; }
  /// Whether the sum of tied weights comes after all other sums of its devices. That holds with
  /// whole backwards, since the first stage's last backward is the last of all.
  bool ties_last() const { return sums_take_turns() && !setting_.splits_backward; }
  /// Whether a device's sums and updates come in the order of its stages' last backwards.
  bool sums_take_turns() const { return setting_.placement != StagePlacement::bidirectional; }

 private:
  /// A group of devices with equal costs.
  struct Kind {
    const CostTable* table = nullptr;
    StageGroups group;
    std::vector<int> last_end;            ///< [first]
    std::vector<std::size_t> first_cost;  ///< [first]
    std::vector<StageCosts> costs;
    std::size_t begin = 0;  ///< first index of its costs
    std::size_t place(int first, int end) const {
      return first_cost[static_cast<std::size_t>(first)] +
             static_cast<std::size_t>(end - first - 1);
    }
  };
  const Kind& kind_of(int stage) const {
    const int kind = kind_of_[static_cast<std::size_t>(device_of(stage))];
    return kinds_[static_cast<std::size_t>(kind)];
  }

  int kind_of_device(int device, Time limit);
  void fill(Kind& kind, Time limit) const;
  void fill_cuts();
  void time_tie();

  const Space& space_;
  const Setting& setting_;
  int depth_ = 0, stages_ = 0, layers_ = 0;
  std::vector<int> device_of_, turn_of_;
  std::vector<int> kind_of_;  ///< kind of each device
  std::vector<Kind> kinds_;
  std::vector<CutCosts> cuts_;  ///< [stage, layer]
  std::vector<double> limits_;
  double tie_ = 0;
  bool joins_ends_ = false;
};

}  // namespace stagecraft
