// Pipelines of alike layers (blocks) between a first layer and a last one, as transformers are:
// how many blocks each device has room and time for.
//
// On a device whose stages hold k_1, k_2, … blocks, some of them recomputing, memory at every
// moment (planner/timing/fast_clock.hpp) and the load of m microbatches are known exactly, ends
// included. So is
//
//   g_d(n)   the least load of device d with n blocks, over all ways to spread them over its stages
//            and to recompute, that fit
//
// and no pipeline is faster than the least T at which the devices together have room for all
// blocks: sum over d of the most n with g_d(n) <= T. Unlike relaxations by weights it knows that
// blocks are whole. The choices it rests on, put side by side, make a good pipeline, too.
//
// A device has no fewer blocks, within T, than what the others have no room for. What it can have
// between that and its most is listed as well (`all_choices`), for bounds that know where in the
// pipeline a device is (planner/relaxations/block_bound.hpp).

#pragma once

#include <functional>
#include <numeric>
#include <optional>

#include "planner/timing/pipeline_costs.hpp"

namespace stagecraft {

/// Blocks on one device.
struct BlockChoice {
  Time load = never;
  std::vector<int> blocks;  ///< of each of its stages
  std::vector<Recompute> recompute;
  int all_blocks() const { return std::accumulate(blocks.begin(), blocks.end(), 0); }
};

class BlockPacking {
 public:
  /// Whether all layers but the first and the last cost the same on every device, and none chooses
  /// for itself what it does again.
  static bool applies(const Space& space, const Setting& setting);

  /// The order is the setting's, for its depth; of loads above `limit` nothing is known.
  BlockPacking(const Space& space, const Setting& setting, const TimedOrder& order, Time limit);

  /// No layout that fits takes less, unless more than `limit`.
  Time bound() const { return bound_; }
  Time limit() const { return limit_; }
  /// Layers on each device at most, in a layout that fits and takes at most the limit; empty if
  /// nothing is known.
  std::vector<int> most_layers() const;
  /// One that may fit, whose loads are within the bound; nothing where they are not.
  const std::optional<Layout>& layout() const { return layout_; }
  /// Per device, every way to have blocks and to recompute in a layout that fits and takes at most
  /// the limit, but those that recompute what others keep with the same blocks. Nothing if that is
  /// too much to list.
  std::optional<std::vector<std::vector<BlockChoice>>> all_choices() const;
  /// What it has spent so far, `all_choices` included, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }
  /// Each device with its choice.
  Layout layout_of(const std::vector<const BlockChoice*>& choices) const;
  /// Layers that cost what so many blocks of the stage do, with the end of the model it has.
  LayerRange range(int stage, int blocks) const;
  /// Stages of a device, in model order.
  const std::vector<int>& stages_of(int device) const {
    return stages_of_[static_cast<std::size_t>(device)];
  }

 private:
  using Visit = std::function<void(const std::vector<int>& blocks)>;
  static constexpr int most_turns = 15;  ///< stages of a device
  /// What a stage of so many blocks holds and takes, unless it recomputes.
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
  /// Of a microbatch, there and back, without recomputing.
  Time pass_of(int device, const std::vector<int>& blocks) const;
  Spread measured(int device, const std::vector<int>& blocks) const;
  Time load(const Spread& spread, unsigned again) const;
  void add_choices(int device, const std::vector<int>& blocks,
                   std::vector<BlockChoice>& choices) const;
  std::pair<unsigned, unsigned> recompute_choices(int device) const;
  /// Whether the blocks fit if all that may recomputes: nothing needs less.
  bool may_fit(int device, const Spread& spread) const;
  /// With the stages of these bits recomputing.
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
  int fewest_ = 0;                                 ///< blocks that a device may have
  std::vector<std::vector<int>> stages_of_;        ///< per device
  std::vector<int> most_held_;                     ///< blocks whose parameters fit, per device
  std::vector<std::vector<Share>> shares_;         ///< [stage][blocks], within the limit
  std::vector<std::vector<BlockChoice>> choices_;  ///< [device][blocks]
  std::optional<Layout> layout_;
};

}  // namespace stagecraft
