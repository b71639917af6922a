// What the stages of one pipeline could cost: every range of layers on every device, and every cut
// between two stages. For bounds that look at each of them many times.

#pragma once

#include <vector>

#include "planner/timing/fast_clock.hpp"

namespace stagecraft {

/// Of one replica of a stage; nanoseconds, exact in a double, and its share of memory.
struct StageCosts {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  double update = 0;   ///< of its share
  double sum = 0;      ///< of gradients over columns
  double collect = 0;  ///< of parameters, where the optimizer is sharded
  ChunkMemory memory;
};

/// What a stage takes, in nanoseconds: for one microbatch, and behind its last backward.
struct StageTimes {
  double forward = 0, backward = 0, backward_input = 0, backward_weight = 0;
  double sum = 0, update = 0, collect = 0;

  /// Of such a stage, where every backward does this much again before.
  static StageTimes of(const StageCosts& costs, double again);
  /// The less of each.
  void lower_to(const StageTimes& other);
  void add(const StageTimes& other, double weight);
};

/// A message of one microbatch, both ways.
struct CutCosts {
  double there_latency = 0, there_occupancy = 0;
  double back_latency = 0, back_occupancy = 0;
};

/// Of a setting of columns, with one replica per stage (`Setting::depth`).
class PipelineCosts {
 public:
  /// Stages whose forwards and backwards alone take longer than `limit` are left out.
  PipelineCosts(const Space& space, const Setting& setting, Time limit);

  int stages() const { return stages_; }
  int layers() const { return layers_; }
  int depth() const { return depth_; }
  int device_of(int stage) const { return device_of_[static_cast<std::size_t>(stage)]; }
  /// Stages of the same device before this one.
  int turn_of(int stage) const { return turn_of_[static_cast<std::size_t>(stage)]; }
  /// The one of which that is the turn.
  int stage_of(int device, int turn) const;
  /// Costs of single layers on its device.
  const CostTable& table(int stage) const { return *kind_of(stage).table; }
  /// A stage may begin at `first` and end at layers in (first, last_end].
  int last_end(int stage, int first) const;
  const StageCosts& stage(int stage, int first, int end) const {
    const Kind& kind = kind_of(stage);
    return kind.costs[kind.place(first, end)];
  }
  /// Of the costs of that stage among those of all stages that cost different: alike ones have one.
  std::size_t place(int stage, int first, int end) const {
    const Kind& kind = kind_of(stage);
    return kind.begin + kind.place(first, end);
  }
  std::size_t places() const { return kinds_.back().begin + kinds_.back().costs.size(); }
  const CutCosts& cut(int stage, int layer) const;
  /// Bytes a device may hold; infinite without a limit.
  double limit(int device) const { return limits_[static_cast<std::size_t>(device)]; }
  /// Whether the stage may be one that takes no time to go back.
  bool may_take_no_time(int stage) const;
  /// What the tie of the first layer and the last one takes; 0 without one.
  double tie() const { return tie_; }
  /// Whether they are tied and one device has both: then their updates wait for both gradients.
  bool joins_ends() const { return joins_ends_; }
  /// Whether the tie's sum comes after all others of its devices: where backwards are whole, the
  /// last one of the first stage is the last of all.
  bool ties_last() const { return sums_take_turns() && !setting_.splits_backward; }
  /// Whether a device's sums and updates come in the order of its stages' last backwards.
  bool sums_take_turns() const { return setting_.placement != StagePlacement::bidirectional; }

 private:
  /// Devices on which a stage costs the same.
  struct Kind {
    const CostTable* table = nullptr;
    StageGroups group;
    std::vector<int> last_end;            ///< [first]
    std::vector<std::size_t> first_cost;  ///< [first]
    std::vector<StageCosts> costs;
    std::size_t begin = 0;  ///< of its places
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
  std::vector<int> kind_of_;  ///< per device
  std::vector<Kind> kinds_;
  std::vector<CutCosts> cuts_;  ///< [stage, layer]
  std::vector<double> limits_;
  double tie_ = 0;
  bool joins_ends_ = false;
};

}  // namespace stagecraft
