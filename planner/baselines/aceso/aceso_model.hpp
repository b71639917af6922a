// Aceso's cost model (Liu et al., EuroSys 2024), as its released code computes it.
//
// The operators of a model form a chain; a stage is a range of it on t·d devices, the same for all
// its operators: tensor-parallel degree t, d replicas that share each microbatch. With B
// microbatches
//
//   time    =  (B - 1) max t_i  +  sum of t_i
//   t_i     =  forward + backward + recomputed forward + input transfer + output transfer
//   memory  =  weights, gradients and optimizer  +  (input + kept) (stages behind + 1)
//              + the largest run of recomputed operators  +  reserved
//
// There is no reduction of gradients, transfers overlap with nothing, and both ends pay for one.
// Quirks that are kept, because published figures have them: the last operator of a stage reserves
// nothing; softmax and some others keep nothing, attention's dropout one and a half times; what the
// last operator of a layer keeps is never saved; a run of recomputed operators whose end is softmax
// or dropout is not seen; messages below 1 MB find their bandwidth from the end of the table; the
// last stage of a full node pays for its output between nodes.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/baselines/aceso/range_maximum.hpp"
#include "profiles/importers/aceso_database.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Fraction of a MiB that is the unit of sizes as whole numbers.
inline constexpr double aceso_thousandths = 1000;

/// Nodes of equal devices.
struct AcesoMachine {
  int devices = 1;
  int devices_per_node = 1;
  double memory = 0;  ///< MiB of each device
};

/// The operators [first, end) of the chain.
struct AcesoStage {
  int first = 0;
  int end = 0;
  int tensor_parallel = 1;
  int data_parallel = 1;
  std::vector<bool> recomputes;  ///< per operator of the stage
  int devices() const { return tensor_parallel * data_parallel; }
};

struct AcesoPlan {
  int microbatch = 1;  ///< samples, over all replicas
  std::vector<AcesoStage> stages;
};

struct AcesoFigures {
  double time = 0;                  ///< seconds per iteration
  std::vector<double> stage_times;  ///< seconds of each stage per microbatch
  std::vector<double> memory;       ///< MiB per device of each stage
  std::vector<double> reserved;     ///< the part of it that Aceso calls reserved
};

/// Aceso's prediction of the plan. Throws Error (input) if no table has a stage's microbatch and
/// degree.
AcesoFigures evaluate(const AcesoDatabase& database, const AcesoMachine& machine,
                      std::int64_t global_batch, const AcesoPlan& plan);

/// The extra time of a stage's recomputation, and the memory that it then needs.
struct AcesoRecompute {
  double time = 0;    ///< nanoseconds
  double memory = 0;  ///< thousandths of MiB
  std::vector<char> operators;
};

/// One table along the chain, for one microbatch size and degree, with sums that answer for any
/// range. Times in nanoseconds, sizes in thousandths of MiB; both are whole numbers, so sums are
/// exact. Keeps references to the database.
class AcesoCosts {
 public:
  AcesoCosts(const AcesoDatabase& database, const AcesoTable& table);

  int size() const { return static_cast<int>(chain_.size()); }
  /// Forward and backward of the operators [first, end).
  double work(int first, int end) const { return work_[index(end)] - work_[index(first)]; }
  /// Time to receive the input of an operator, and to send its output.
  double receive(int first, bool between_nodes) const;
  double send(int last, bool between_nodes) const;
  double reserved(int first, int end) const;
  /// Memory if nothing is recomputed.
  double memory(int first, int end, int behind) const;
  double memory(int first, int end, int behind, const std::vector<char>& recomputes) const;
  /// The time without the input, which grows with the range.
  double growing_memory(int first, int end, int behind) const;
  /// A bound on the memory, whatever is recomputed; it grows with the range.
  double least_memory(int first, int end, int behind) const;
  /// Recomputing so much of what a stage keeps takes at least this long.
  double least_time_to_save(double size) const { return size * time_per_saved_; }
  /// Aceso's choice: the operators (by name) that keep the most first, until the stage fits.
  AcesoRecompute recompute(int first, int end, int behind, double limit) const;
  double recompute_time(int first, const std::vector<char>& recomputes) const;

 private:
  struct Saved {
    double saved = 0;
    double peak = 0;
  };
  struct Group;
  std::vector<Group> groups_in(int first, int end, int behind, std::vector<int>& group_of) const;
  Saved saved_by(int first, int end, const std::vector<char>& recomputes) const;
  double best_rate_of_saving() const;
  double transfer(double size, bool between_nodes) const;

  const std::vector<int>& chain_;
  const std::vector<double>&between_devices_, &between_nodes_;
  std::size_t rows_ = 0;     ///< of the table
  double state_copies_ = 0;  ///< weights, gradients and optimizer, per byte of weights
  std::vector<double> forward_, input_, output_, activations_;
  RangeMaximum forward_reserved_, backward_reserved_;
  std::vector<double> work_, weights_, kept_, never_saved_;  ///< sums before each operator
  double time_per_saved_ = 0;
  std::vector<double> kept_share_;    ///< of an operator's activations
  std::vector<char> may_recompute_;   ///< per operator
  std::vector<char> ends_layer_;      ///< the next operator begins a layer
  std::vector<double> saved_;         ///< by recomputing an operator and its next
  std::vector<char> shares_storage_;  ///< softmax, dropout and their like
};

}  // namespace stagecraft
