// Pipelines of alike layers (blocks) between a first layer and a last one, as transformers are:
// how many blocks each device has room and time for.
//
// On a device whose stages hold k_1, k_2, … blocks, some of them recomputing, memory at every
// moment (planner/fast_clock.hpp) and the load of m microbatches are known exactly, ends included.
// So is
//
//   g_d(n)   the least load of device d with n blocks, over all ways to spread them over its stages
//            and to recompute, that fit
//
// and no pipeline is faster than the least T at which the devices together have room for all
// blocks: sum over d of the most n with g_d(n) <= T. Unlike relaxations by weights it knows that
// blocks are whole. The choices it rests on, put side by side, make a good pipeline, too.

#pragma once

#include <optional>

#include "planner/pipeline_costs.hpp"

namespace stagecraft {

class BlockPacking {
 public:
  /// Whether all layers but the first and the last cost the same on every device.
  static bool applies(const Space& space, const Setting& setting);

  /// The order is the setting's, for its depth; of loads above `limit` nothing is known.
  BlockPacking(const Space& space, const Setting& setting, const TimedOrder& order, Time limit);

  /// No layout that fits takes less, unless more than `limit`.
  Time bound() const { return bound_; }
  /// Layers on each device at most, in a layout that fits and takes at most the limit; empty if
  /// nothing is known.
  std::vector<int> most_layers() const;
  /// One that may fit, whose loads are within the bound; nothing where they are not.
  const std::optional<Layout>& layout() const { return layout_; }

 private:
  /// Blocks on one device.
  struct Choice {
    Time load = never;
    std::vector<int> blocks;  ///< of each of its stages
    std::vector<Recompute> recompute;
  };

  bool is_worth_it() const;
  void list_choices(int device);
  void spread(int device, std::vector<int>& blocks, std::size_t turn);
  void consider(int device, const std::vector<int>& blocks);
  bool fits(int device, const std::vector<ChunkMemory>& stages,
            const std::vector<Recompute>& recompute, bool computes_always) const;
  LayerRange range(int stage, int blocks) const;
  void find_bound();
  void make_layout();
  int most_blocks(int device, Time limit) const;

  const Space& space_;
  const Setting& setting_;
  const TimedOrder& order_;
  Time limit_ = 0, bound_ = 0;
  int depth_ = 0, stages_ = 0, layers_ = 0;
  int fewest_ = 0;                            ///< blocks that a device may have
  std::vector<std::vector<int>> stages_of_;   ///< per device
  std::vector<std::vector<Choice>> choices_;  ///< [device][blocks]
  std::optional<Layout> layout_;
};

}  // namespace stagecraft
