// The best weights of paths through a pipeline of alike blocks, and the bound that they give
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
  /// Whether the layout counts: then only faster ones are of interest.
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
  /// With the first paths, unless it has begun.
  void begin();

  /// Raises the bound in so many rounds, until so much is spent in all.
  void raise(int rounds, std::int64_t last, const std::stop_token& stop);
  std::optional<Layout> mean_layout() const;

  // --- What is left, and its least sum ---
  /// Choices of layouts that may be of interest.
  BlockDomains domains;
  /// Finds the least weighted sum, and leaves out what is above the limit by it. False if nothing
  /// is left.
  bool weigh(const Weights& weights);
  const BlockSum& least() const { return least_; }
  /// By the latest weights, the least sum of the layouts with this choice.
  double least_with(int choice) { return sums_.of_choices()[index(choice)] + sums_.others(choice); }
  /// From here on sums are of choices that go with each other there; null: of any.
  void weigh_in_step(BlockPairs* pairs) { in_step_ = pairs; }
  /// The critical path of a pipeline that is too long.
  BlockWalk::Lesson learn(const BlockPairs& pairs, const std::vector<StageTimes>& stages);

  // --- Games ---
  void take_part(BlockGame& seen, const PathRef& path) const;
  /// One more layout; those with a choice that is left out do not count any more.
  void add(BlockGame& seen, const BlockLayout& layout) const;
  bool is_left(const BlockLayout& layout) const;
  /// Plays with all known paths that are of use: the best weights for the layouts seen, and what
  /// they get from them.
  double play_with_longest(BlockGame& seen, Weights& weights);
  /// Weights that are above the limit for the layouts seen; false if none are, since their mean is
  /// within it, or it takes too long to find them.
  bool play_fully(BlockGame& seen, Weights& weights);
  void drop_idle_paths() { paths_.drop_idle(); }
  const PathRef& through_device(int device) const { return through_devices_[index(device)]; }
  /// Through a stage, under most schedules; otherwise through its device.
  const PathRef& through_stage(int stage, int device) const {
    return through_stages_.empty() ? through_device(device) : through_stages_[index(stage)];
  }

  // --- What is known ---
  /// Times the layout, which may be the best so far. Its critical path is the latest then.
  void try_out(const BlockLayout& layout);
  /// Only layouts of at most this step, in nanoseconds, are of interest.
  double worth() const { return std::min(timed_.best - 1, limit_); }
  Time least_found() const;
  Time bound() const;

  /// Weights, and what they give, in parts of the limit.
  struct Best {
    Weights weights;
    double bound = 0;
  };
  const Best& best() const { return best_; }
  /// That of a part of the layouts is no bound of all.
  void return_to(Best best) { best_ = std::move(best); }
  /// Nothing of interest is left.
  bool is_proved = false;

  const BlockTable& table() const { return table_; }
  const PipelineCosts& costs() const { return costs_; }
  const BlockPacking& packing() const { return packing_; }
  std::int64_t spent() const { return spent_; }
  void spend(std::int64_t steps) { spent_ += steps; }

 private:
  /// Layouts that were.
  struct Timed {
    std::set<BlockLayout> layouts;
    double least = std::numeric_limits<double>::infinity();  ///< step
    double best = std::numeric_limits<double>::infinity();   ///< of those that count
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
  BlockSum least_;  ///< of the latest weights
  BlockPairs* in_step_ = nullptr;
  std::vector<double> mean_blocks_;  ///< per stage: of the latest layouts, by their weights
  Best best_;
};

}  // namespace stagecraft
