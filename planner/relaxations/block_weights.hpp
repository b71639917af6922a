// The best weights of paths through a pipeline of equal blocks, and the bound that they give
// (planner/relaxations/block_bound.hpp).

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <stop_token>
#include <vector>

#include "planner/relaxations/block_pairs.hpp"

namespace stagecraft {

class BlockWeights {
 public:
  /// Called with a layout; returns whether it becomes the incumbent, so that only faster layouts
  /// are of interest.
  using Visit = std::function<bool(const Layout&)>;
  using PathRef = BlockGame::RowRef;
  using Weights = BlockGame::Weights;

  /// See BlockBound.
  BlockWeights(const Space& space, const Setting& setting, const TimedOrder& order,
               const BlockPacking& packing, Visit visit);
  BlockWeights(const BlockWeights&) = delete;
  BlockWeights& operator=(const BlockWeights&) = delete;
  ~BlockWeights() = default;

  void start_from(const Layout& layout) { start_ = layout; }
  void know(const std::vector<PassCounts>& paths);
  const BlockPaths& paths() const { return paths_; }
  /// Adds the initial paths; does nothing the second time.
  void begin();

  /// Raises the bound in at most this many rounds, until `spent()` reaches `last` or a stop is
  /// requested.
  void raise(int rounds, std::int64_t last, const std::stop_token& stop);
  std::optional<Layout> mean_layout() const;

  // --- Remaining choices, and their least sum ---
  /// The remaining choices of each device.
  BlockDomains domains;
  /// Finds the layout of least weighted sum (`least`), and removes choices by reduced-cost fixing.
  /// False if nothing is left.
  bool weigh(const Weights& weights);
  const BlockSum& least() const { return least_; }
  /// Under the latest weights, the least sum of the layouts with this choice.
  double least_with(int choice) { return sums_.of_choices()[index(choice)] + sums_.others(choice); }
  /// Restricts sums to layouts whose neighbours are compatible in `pairs`; null removes the
  /// restriction.
  void weigh_in_step(BlockPairs* pairs) { in_step_ = pairs; }
  /// Adds the critical path of a pipeline above the limit, and returns its costs.
  BlockWalk::Lesson learn(const BlockPairs& pairs, const std::vector<StageTimes>& stages);

  // --- Games ---
  void take_part(BlockGame& seen, const PathRef& path) const;
  /// Adds a layout to the game, and drops layouts with removed choices.
  void add(BlockGame& seen, const BlockLayout& layout) const;
  bool is_left(const BlockLayout& layout) const;
  /// Solves the game, adding known paths while they help. Sets the best weights, and returns the
  /// game's value.
  double play_with_longest(BlockGame& seen, Weights& weights);
  /// Finds weights whose sum is above the limit for all layouts seen. Returns false if there are
  /// none, since the mean layout is within the limit, or if finding them takes too long.
  bool play_fully(BlockGame& seen, Weights& weights);
  void drop_idle_paths() { paths_.drop_idle(); }
  const PathRef& through_device(int device) const { return through_devices_[index(device)]; }
  /// A path through a stage; under bidirectional placement, through its device.
  const PathRef& through_stage(int stage, int device) const {
    return through_stages_.empty() ? through_device(device) : through_stages_[index(stage)];
  }

  // --- Results ---
  /// Times the layout, which may become the best. Its critical path becomes `paths().latest()`.
  void try_out(const BlockLayout& layout);
  /// Cutoff in nanoseconds: only layouts of at most this step are of interest.
  double worth() const { return std::min(timed_.best - 1, limit_); }
  Time least_found() const;
  Time bound() const;

  /// Weights, and the bound that they give, in units of the limit.
  struct Best {
    Weights weights;
    double bound = 0;
  };
  const Best& best() const { return best_; }
  /// Restores an earlier bound, after the work on a part of the layouts, whose bound does not hold
  /// for all.
  void return_to(Best best) { best_ = std::move(best); }
  /// No layout of interest is left.
  bool is_proved = false;

  const BlockTable& table() const { return table_; }
  const PipelineCosts& costs() const { return costs_; }
  const BlockPacking& packing() const { return packing_; }
  std::int64_t spent() const { return spent_; }
  void spend(std::int64_t steps) { spent_ += steps; }

 private:
  /// The layouts that were timed.
  struct Timed {
    std::set<BlockLayout> layouts;
    double least = std::numeric_limits<double>::infinity();  ///< step
    double best = std::numeric_limits<double>::infinity();   ///< step of the incumbent
  };

  void add_path(PassCounts path);
  bool is_above(double sum) const;
  bool cover(double constant);
  bool cover_in_step(double constant);
  double play(BlockGame& seen, Weights& weights);
  double play_with_paths(BlockGame& seen, Weights& weights);
  PathRef path_of_mean(const BlockGame& seen, double& step);
  void take_mean(const BlockGame& seen);

  const Space& space_;
  const Setting& setting_;
  const TimedOrder& order_;
  const BlockPacking& packing_;
  Visit visit_;
  PipelineCosts costs_;
  CriticalPasses passes_;
  double limit_ = 0;
  BlockTable table_;
  Layout start_;
  BlockPaths paths_;
  std::vector<PathRef> through_devices_, through_stages_;
  Timed timed_;
  std::int64_t games_ = 0, spent_ = 0;
  BlockSums sums_;
  BlockSum least_;  ///< least sum under the latest weights
  BlockPairs* in_step_ = nullptr;
  std::vector<double> mean_blocks_;  ///< blocks per stage in the latest mean layout
  Best best_;
};

}  // namespace stagecraft
