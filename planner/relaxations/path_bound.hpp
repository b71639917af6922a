// A lower bound for pipelines under any schedule, from critical paths through their programs.
//
// A layout x (cuts, recomputation) takes as long as its longest path, and at every memory peak
// every device must hold the activations in flight. So for a layout that fits and takes at most t,
// and for any nonnegative weights l (of paths) and m (of memory peaks):
//
//   sum of l_i length_i(x) / t  +  sum of m_j bytes_j(x) / limit_j   <=   sum of l_i + sum of m_j
//
// Lengths and bytes are sums over stages: how often a path passes a stage and its cut does not
// depend on the layout (planner/timing/critical_path.hpp), and the activations in flight follow
// from the schedule. So the minimum of the left side over all layouts is a shortest path over
// (stage, layer). It bounds every layout that fits (Lagrangian relaxation; Geoffrion 1974). It also
// gives, for each choice of a stage (planner/relaxations/stage_choices.hpp), a bound on the layouts
// with that choice: choices above the limit are removed for good, as are stages that alone exceed
// their device.
//
// The weights are the optimum of a matrix game, the restricted master problem
// (planner/relaxations/lagrangian.hpp), of paths and memory peaks against the layouts that have had
// the least sum so far (Dantzig and Wolfe 1960). The optimum also gives a convex combination of
// layouts, the mean layout. Its critical path becomes one more row if it is longer than every path
// in the game (Kelley 1960). Layouts found on the way are good plans, too, and go to the caller.
//
// If layers are equal blocks there is a tighter bound: planner/relaxations/block_bound.hpp.

#pragma once

#include <functional>
#include <memory>
#include <set>
#include <stop_token>

#include "planner/relaxations/block_packing.hpp"
#include "planner/relaxations/lagrangian.hpp"
#include "planner/relaxations/stage_choices.hpp"
#include "planner/timing/critical_path.hpp"

namespace stagecraft {

/// A weighted sum that is at most `per_time` * t + `constant` for every layout that fits and takes
/// at most t nanoseconds.
struct LayoutSum {
  Weighting weighting;
  double per_time = 0, constant = 0;
  double most(double time) const { return per_time * time + constant; }
};

class PathBound {
 public:
  /// Factor that keeps rounding of sums from raising the bound or ruling out a layout.
  static constexpr double safe = 1 + 1e-9;

  using Visit = std::function<void(const Layout&)>;
  /// Called with a layout; returns the limit from then on.
  using Judging = std::function<Time(const Layout&)>;

  /// `order` is the order of the setting's schedule at its depth. Only layouts within `limit` are
  /// bounded; `packing`, if any, must have the same limit. All arguments must outlive the bound.
  PathBound(const Space& space, const Setting& setting, const TimedOrder& order, Time limit,
            const BlockPacking* packing = nullptr);
  PathBound(const PathBound&) = delete;
  PathBound& operator=(const PathBound&) = delete;
  ~PathBound() = default;

  /// Starts the bound from the critical paths of this layout if possible, instead of those of a
  /// balanced one.
  void start_from(const Layout& layout) { start_ = layout; }
  /// Adds critical paths of this setting that were useful for another limit.
  void know(const std::vector<PassCounts>& paths);
  /// The paths that had weight most recently, to be used for another limit.
  std::vector<PassCounts> useful_paths() const;

  /// Whether there are few enough ranges of layers to store the costs of each.
  static bool applies(const Space& space);

  /// Whether memory at the peaks proves that no layout fits.
  bool is_always_full();

  /// Raises the bound in at most this many rounds and with at most this effort, until a stop is
  /// requested. `visit` gets the layouts found on the way.
  void raise(int rounds, std::int64_t effort, const Visit& visit, const std::stop_token& stop = {});

  /// Proves that no layout takes at most `limit` (at most the limit of the bound) except those
  /// visited: every layout that weights do not rule out goes to `visit`, with its own
  /// recomputation, which returns the limit from then on. Returns false if the effort ran out or a
  /// stop was requested before the end.
  bool prove(Time limit, Effort& effort, const Judging& visit);

  /// Lower bound on the layouts that fit; valid up to `limit`.
  Time bound() const;
  /// Effort used so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }

  /// The remaining choices of each stage, for layouts within the limit.
  const StageChoices& choices() const { return choices_; }
  /// The sum that the bound rests on; its heaviest paths, each as a sum of its own; and memory
  /// peaks, those with weight first.
  std::vector<LayoutSum> sums() const;
  LayoutSum alone(const PassCounts& path) const;
  const PipelineCosts& costs() const { return costs_; }
  /// The layout's critical path; `step` becomes its length in nanoseconds.
  PassCounts critical_path(const Layout& layout, double& step) { return passes_.of(layout, step); }
  /// The recomputation that a stage may choose.
  const std::vector<Recompute>& recompute_choices() const { return again_; }
  /// Effort to time a layout, in steps of about ten nanoseconds.
  std::int64_t steps_to_time() const { return 2 * static_cast<std::int64_t>(order_.order.size()); }

 private:
  /// A row of the game: the length of a path, or the bytes of a device at a peak, in units of the
  /// limit.
  struct Row {
    Weighting unit;
    SparseWeighting sparse{unit};
    bool is_time = false;
    PassCounts path = {};   ///< the path, if `is_time`
    std::int64_t used = 0;  ///< number of the game in which it last had weight
  };
  /// A layout that had the least sum for some weights.
  struct SeenLayout {
    std::vector<StageChoices::Choice> choices;
    Weighting parts;
  };
  /// The matrix game of rows against such layouts.
  using Seen = LayoutGame<Row, SeenLayout>;
  using RowRef = Seen::RowRef;
  using Weight = Seen::Weight;
  using Weights = Seen::Weights;
  using Chosen = std::vector<StageChoices::Choice>;
  /// Called with a layout and the length of its critical path in nanoseconds.
  using VisitTimed = std::function<void(const Layout&, double step)>;

  // --- Memory and room ---
  Weighting held_always(int device) const;
  Weighting held_at(const FullMoment& moment, int device) const;
  Weighting unless_idle(int stage, const Weighting& sum) const;
  void add_moment(const FullMoment& moment, int device);
  void add_moments();
  void add_rooms(const BlockPacking& packing);
  void add_limit(Weighting unit, int device);

  // --- Weights ---
  void add_row(const PassCounts& path);
  void begin();
  bool has_costs(const Layout& layout) const;
  Layout layout_of(const Chosen& chosen) const;
  bool weigh(const Weights& weights, SeenLayout& found);
  double scale(const Row& row) const { return row.is_time ? 1 : moment_scale_; }
  double value(const Row& row, const Weighting& parts) const;
  auto value_of() const {
    return [this](const Row& row, const SeenLayout& layout) { return value(row, layout.parts); };
  }
  void try_out(const Chosen& chosen, const VisitTimed& visit);
  bool is_left(const Chosen& chosen) const;
  void add(Seen& seen, SeenLayout found) const;
  void take_part(Seen& seen, const RowRef& row) const;
  double play(Seen& seen, Weights& weights);
  Weighting mean(const Seen& seen) const;
  PassCounts path_of(const Weighting& mean, double& step);
  double play_with_paths(Seen& seen, Weights& weights);
  void visit_mean(const Seen& seen, const Visit& visit) const;
  bool play_round(Seen& seen, Weights& weights, const VisitTimed& visit);
  void drop_idle_rows();

  // --- Proofs ---
  /// A branching: a stage recomputes or not; or it ends at this layer or earlier, or later.
  struct Split {
    int stage = 0;
    int last_end = 0;  ///< 0: the branching is by recomputation
    bool is_first(const StageChoices::Choice& choice) const {
      return last_end > 0 ? choice.end <= last_end : choice.recompute == Recompute::none;
    }
  };
  struct Proof {
    Effort& effort;
    const Judging& visit;
    std::set<std::vector<int>> visited = {};  ///< cuts and recomputation
  };
  struct Usage;
  bool is_out(Proof& proof, Seen seen, const Weights& start);
  void play_out(Proof& proof, Seen& seen, const Weights& start);
  void visit(Proof& proof, const Layout& layout);
  bool is_walked_out(Proof& proof);
  Usage usage(int stage, const Seen& seen) const;
  double distance(const Split& split, const Seen& seen) const;
  Split best_split(const Seen& seen) const;
  double part_of_first(const Split& split, const Seen& seen) const;

  const Space& space_;
  const Setting& setting_;
  const TimedOrder& order_;
  PipelineCosts costs_;
  CriticalPasses passes_;
  double limit_ = 0;
  double unit_ = 0;  ///< unit of path lengths, in nanoseconds
  std::vector<Recompute> again_;
  StageChoices choices_;
  StageChoices::Onward scratch_;
  Layout start_;

  std::vector<StageChoices::Most> most_;  ///< per stage, if a stage may take no time
  std::vector<RowRef> rows_;              ///< rows of paths
  std::vector<RowRef> moments_;           ///< rows of memory peaks and of room on devices
  std::vector<PassCounts> known_;
  Weights weights_;          ///< the best so far
  double value_ = 0;         ///< value of `weights_`
  double moment_scale_ = 1;  ///< scale of memory rows against path rows
  double bound_ = 0;         ///< in units of the limit
  std::int64_t games_ = 0, spent_ = 0;
};

}  // namespace stagecraft
