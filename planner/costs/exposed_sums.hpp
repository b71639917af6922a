// Sums of gradients over those that hold a stage's layers, as far as a step is longer for them.
//
// One after another, all of a stage's gradients are summed behind its last backward. Overlapped
// (Li et al. 2020, section 3.2.3; Megatron-LM's --overlap-grad-reduce) they go in buckets of whole
// layers, the last layers first: a bucket when the last backward of its layers has ended and the
// bucket before is through. The layer that brings it to `gradient_bucket` bytes closes it. What is
// left of the sums when the stage's backward has ended is seen.

#pragma once

#include <vector>

#include "planner/costs/cost_book.hpp"

namespace stagecraft {

/// The size of a bucket where somebody wants sums to overlap and says none: Megatron-LM's 40
/// million gradients in fp32, or a million for each of more holders (its DistributedDataParallel),
/// or PyTorch's 25 MiB.
Bytes usual_gradient_bucket(Framework kernels, std::int64_t holders);

/// Layers whose gradients are summed together.
struct GradientBucket {
  LayerRange layers;
  Duration backward{0};  ///< of these layers, by which time the bucket is complete
  WithExperts<Bytes> gradients;
};

/// For one plan's or setting's stages. Keeps what it was asked for: one thread at a time.
class ExposedSums {
 public:
  /// Of a schedule that may compute weight gradients by themselves, which then alone hide sums, and
  /// of each microbatch in so many pieces of its sequences.
  ExposedSums(const OptimizerChoice& optimizer, const ScheduleChoice& schedule);

  /// Zero for a single holder, and where each microbatch scatters its gradients (ZeRO-2 and 3).
  /// Layers that do something again are taken to hide no more than others. The book that `table`
  /// is of has to outlive this.
  Duration exposed(const CostTable& table, const LayerRange& layers, const StageGroups& groups);

  /// The stage's buckets, the last layers first; what is left over at the first layer is one, too.
  /// One of all layers where sums do not overlap.
  std::vector<GradientBucket> buckets(const CostTable& table, const LayerRange& layers) const;

 private:
  struct Known {
    const CostTable* table;
    StageGroups groups;
    std::vector<std::vector<Duration>> to_end;  ///< [end][first]; empty: not asked for
  };
  Duration backward_of(const CostTable& table, const LayerRange& layer) const;
  Known& known(const CostTable& table, const StageGroups& groups);
  std::vector<Duration> overlapped(const CostTable& table, int end,
                                   const StageGroups& groups) const;

  OptimizerChoice optimizer_;
  bool splits_backward_ = false;
  int pieces_ = 1;
  std::vector<Known> known_;
};

}  // namespace stagecraft
