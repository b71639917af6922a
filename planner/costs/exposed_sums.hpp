// The exposed time of summing gradients over the holders of a stage: the time by which a step is
// longer.
//
// Without overlap, all of a stage's gradients are summed after its last backward. With overlap (Li
// et al. 2020, section 3.2.3; Megatron-LM's --overlap-grad-reduce), they are summed in buckets of
// whole layers, the last layers first: a bucket starts when the last backward of its layers has
// ended and the previous bucket is done. The layer that brings a bucket to `gradient_bucket` bytes
// closes it. The exposed time is the part of the sums that is left when the stage's backward has
// ended.

#pragma once

#include <vector>

#include "planner/costs/cost_book.hpp"

namespace stagecraft {

/// The default bucket size of overlapped sums: Megatron-LM's 40 million gradients in fp32, or a
/// million per holder if that is more (its DistributedDataParallel), or PyTorch's 25 MiB.
Bytes usual_gradient_bucket(Framework kernels, std::int64_t holders);

/// Layers whose gradients are summed together.
struct GradientBucket {
  LayerRange layers;
  Duration backward{0};  ///< backward time of these layers, after which the bucket is complete
  WithExperts<Bytes> gradients;
};

/// Exposed sums of one plan's or setting's stages. It caches results, so only one thread at a time
/// may use it.
class ExposedSums {
 public:
  /// Exposed sums under this optimizer and schedule. With split backwards, only weight gradients
  /// hide sums; with sequence chunks, only the last chunk's backward does.
  ExposedSums(const OptimizerChoice& optimizer, const ScheduleChoice& schedule);

  /// The exposed time; zero for a single holder, and if each microbatch scatters its gradients
  /// (ZeRO-2 and 3). Recomputation is assumed to hide nothing. The book of `table` must outlive
  /// this.
  Duration exposed(const CostTable& table, const LayerRange& layers, const StageGroups& groups);

  /// The stage's buckets, the last layers first; the remainder at the first layer is a bucket, too.
  /// A single bucket if sums do not overlap.
  std::vector<GradientBucket> buckets(const CostTable& table, const LayerRange& layers) const;

 private:
  struct Known {
    const CostTable* table;
    StageGroups groups;
    std::vector<std::vector<Duration>> to_end;  ///< [end][first]; empty: not computed yet
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
