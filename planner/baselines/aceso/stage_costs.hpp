// Costs of stages in Aceso's model, for one microbatch size and all ways to use their devices.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "planner/baselines/aceso/aceso_search.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Ways to use devices are options, numbered by their devices, then by degree. Times in
/// nanoseconds.
class AcesoStageCosts {
 public:
  AcesoStageCosts(const AcesoDatabase& database, const AcesoQuestion& question, int microbatch);

  int size() const { return operators_; }
  int microbatch() const { return microbatch_; }
  int options() const { return static_cast<int>(options_.size()); }
  int devices(int option) const {
    return options_[index(option)].tensor_parallel * options_[index(option)].data_parallel;
  }

  /// The costs of a stage that follows `devices` devices, without recomputation.
  double time(int first, int end, int option, int devices_before) const;
  /// Time of the recomputation that Aceso would choose there; infinite if the stage cannot fit.
  double recompute(int first, int end, int option, int behind, Effort& effort);
  AcesoStage stage(int first, int end, int option) const;
  std::vector<bool> recomputes(const AcesoStage& stage, int behind) const;

  /// Lower bound on the time of sufficient recomputation.
  double least_recompute(int first, int end, int option, int behind) const;

  /// Is the time too little, or what is always kept too large? Then so it is for longer stages.
  bool is_too_much(int first, int end, int option, int behind, double time) const;
  /// How far a stage can reach by that.
  int furthest_end(int first, int option, int behind, double time) const;
  int nearest_first(int end, int option, int behind, double time) const;
  /// A bound on the sum of all stages.
  double least_work() const { return least_work_; }

 private:
  struct Option {
    int tensor_parallel = 1;
    int data_parallel = 1;
    AcesoCosts costs;
    /// Per operator, inside a node and between nodes.
    std::vector<double> receive[2], send[2];
  };
  void find_repeats(const AcesoDatabase& database);
  /// The first place where the same operators follow one another.
  int first_alike(int first, int end) const;

  AcesoMachine machine_;
  double limit_ = 0;  ///< thousandths of MiB
  int operators_ = 0;
  int microbatch_ = 1;
  std::vector<Option> options_;
  double least_work_ = 0;
  std::vector<int> alike_;         ///< an earlier place where the operators are the same …
  std::vector<int> alike_length_;  ///< … for so many of them
  std::unordered_map<std::uint64_t, double> recomputed_;
};

}  // namespace stagecraft
