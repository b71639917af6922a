// The knapsack relaxation for pipelines of equal layers (blocks) between a first layer and a last
// one, such as transformers: how many blocks each device has memory and time for.
//
// For a device whose stages hold k_1, k_2, … blocks, some of them recomputing, the memory at every
// peak (planner/timing/fast_clock.hpp) and the load of m microbatches are known exactly, the first
// and last layer included. So is
//
//   g_d(n)   the least load of device d with n blocks, over all ways to distribute them over its
//            stages and to recompute, that fit
//
// No pipeline is faster than the least T at which the devices together have room for all blocks:
// sum over d of the largest n with g_d(n) <= T. Unlike Lagrangian relaxations, this bound knows
// that blocks are whole. The choices that attain it, put side by side, also make a good pipeline.
//
// Within T, a device has at least the blocks that the others have no room for. The choices between
// that number and the device's maximum can be listed (`all_choices`), for relaxations that know
// where in the pipeline a device is (planner/relaxations/block_bound.hpp).

#pragma once

#include <functional>
#include <numeric>
#include <optional>

#include "planner/timing/pipeline_costs.hpp"

namespace stagecraft {

/// Blocks on one device.
struct BlockChoice {
  Time load = never;
  std::vector<int> blocks;  ///< blocks of each of the device's stages
  std::vector<Recompute> recompute;
  int all_blocks() const { return std::accumulate(blocks.begin(), blocks.end(), 0); }
};

class BlockPacking {
 public:
  /// Whether all layers but the first and the last have equal costs on every device, and
  /// recomputation is not chosen per layer.
  static bool applies(const Space& space, const Setting& setting);

  /// `order` is the order of the setting's schedule at its depth. Loads above `limit` are not
  /// distinguished.
  BlockPacking(const Space& space, const Setting& setting, const TimedOrder& order, Time limit);

  /// Lower bound on the layouts that fit; valid up to `limit`.
  Time bound() const { return bound_; }
  Time limit() const { return limit_; }
  /// Maximum number of layers on each device, in layouts that fit within the limit; empty if
  /// unknown.
  std::vector<int> most_layers() const;
  /// A layout that may fit, and whose loads are within the bound; nothing if the bound is above the
  /// limit.
  const std::optional<Layout>& layout() const { return layout_; }
  /// Per device, every distribution of blocks with its recomputation that can be part of a layout
  /// that fits within the limit, except choices that recompute more than another one with the same
  /// blocks. Nothing if there are too many to list.
  std::optional<std::vector<std::vector<BlockChoice>>> all_choices() const;
  /// Effort used so far, including `all_choices`, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }
  /// The layout in which each device has its choice.
  Layout layout_of(const std::vector<const BlockChoice*>& choices) const;
  /// A range of layers with the costs of this stage with so many blocks, including the model's
  /// first or last layer if the stage has it.
  LayerRange range(int stage, int blocks) const;
  /// The stages of a device, in model order.
  const std::vector<int>& stages_of(int device) const {
    return stages_of_[static_cast<std::size_t>(device)];
  }

 private:
  using Visit = std::function<void(const std::vector<int>& blocks)>;
  static constexpr int most_turns = 15;  ///< stages of a device
  /// Memory and time of a stage with a number of blocks, without recomputation.
  struct Share {
    ChunkMemory memory;
    Time forward = 0, pass = 0;
    bool computes = true;
  };
  struct Spread;

  bool is_worth_it() const;
  int blocks_in(const LayerRange& layers) const;
  void list_shares(int stage);
  int most_held(int device) const;
  void list_choices(int device);
  void spread(int device, std::vector<int>& blocks, std::size_t turn, const Visit& visit) const;
  void consider(int device, const std::vector<int>& blocks);
  /// Forward and backward time of one microbatch on the device, without recomputation.
  Time pass_of(int device, const std::vector<int>& blocks) const;
  Spread measured(int device, const std::vector<int>& blocks) const;
  Time load(const Spread& spread, unsigned again) const;
  void add_choices(int device, const std::vector<int>& blocks,
                   std::vector<BlockChoice>& choices) const;
  std::pair<unsigned, unsigned> recompute_choices(int device) const;
  /// Whether the blocks fit with as much recomputation as allowed, which needs the least memory.
  bool may_fit(int device, const Spread& spread) const;
  /// Whether the blocks fit if the stages of the bits `again` recompute.
  bool fits(int device, const Spread& spread, unsigned again) const;
  void find_bound();
  void make_layout();
  int most_blocks(int device, Time limit) const;

  const Space& space_;
  const Setting& setting_;
  const TimedOrder& order_;
  Time limit_ = 0, bound_ = 0;
  mutable std::int64_t spent_ = 0;
  int depth_ = 0, stages_ = 0, layers_ = 0;
  int fewest_ = 0;                                 ///< least number of blocks on a device
  std::vector<std::vector<int>> stages_of_;        ///< stages of each device
  std::vector<int> most_held_;                     ///< per device: maximum number of blocks whose
                                                   ///< parameters fit
  std::vector<std::vector<Share>> shares_;         ///< [stage][blocks], within the limit
  std::vector<std::vector<BlockChoice>> choices_;  ///< [device][blocks]
  std::optional<Layout> layout_;
};

}  // namespace stagecraft
