// A lower bound for pipelines under any schedule, from paths through their programs.
//
// A layout x (cuts, recomputation) takes as long as its longest path, and at every moment every
// device must hold what is in flight. So of a layout that fits and takes at most t, no sum of paths
// and of bytes, with weights l and m that are not negative, is above what these add up to:
//
//   sum of l_i length_i(x) / t  +  sum of m_j bytes_j(x) / limit_j   <=   sum of l_i + sum of m_j
//
// Lengths and bytes are sums over stages: a path passes a stage and its cut so many times, whatever
// the layout (planner/timing/critical_path.hpp), and what is in flight follows from the schedule.
// So the least of the left side over all layouts is a shortest path over (stage, layer), which
// bounds every layout that fits (Lagrangian relaxation; Geoffrion 1974), and says of each choice of
// a stage (planner/relaxations/stage_choices.hpp) whether layouts with it can be within the limit:
// those that cannot are left out for good, as are stages that alone are too much for their device.
//
// The weights are the best ones of a matrix game (planner/relaxations/lagrangian.hpp) of paths and
// moments against layouts, those that have had the least sum so far (Dantzig and Wolfe 1960). In
// the mean of the layouts that the game balances no path is longer than the critical one: as long
// as that is longer than the game knows, it is one more row (Kelley 1960). Layouts that come up are
// good plans, too, and are handed to the caller.
//
// Where layers are alike blocks there is a better one: planner/relaxations/block_bound.hpp.

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

/// A sum of which no layout that fits, and takes at most t nanoseconds, has more than
/// `per_time` * t + `constant`.
struct LayoutSum {
  Weighting weighting;
  double per_time = 0, constant = 0;
  double most(double time) const { return per_time * time + constant; }
};

class PathBound {
 public:
  /// Rounding of sums must not lift the bound, or rule anything out.
  static constexpr double safe = 1 + 1e-9;

  using Visit = std::function<void(const Layout&)>;
  /// What it gives is the limit from then on.
  using Judging = std::function<Time(const Layout&)>;

  /// The order is the setting's, for its depth. Only layouts of at most `limit` are bounded;
  /// `packing`, if any, is of the same limit. What is given outlives the bound.
  PathBound(const Space& space, const Setting& setting, const TimedOrder& order, Time limit,
            const BlockPacking* packing = nullptr);
  PathBound(const PathBound&) = delete;
  PathBound& operator=(const PathBound&) = delete;
  ~PathBound() = default;

  /// The bound will start from the critical paths of this layout, if it can; else from those of a
  /// balanced one.
  void start_from(const Layout& layout) { start_ = layout; }
  /// These paths of the setting are known to be of use, from another limit.
  void know(const std::vector<PassCounts>& paths);
  /// Those that were of use most recently, for another limit.
  std::vector<PassCounts> useful_paths() const;

  /// Whether there are few enough ranges of layers to keep the costs of each.
  static bool applies(const Space& space);

  /// Whether no layout fits because at some moment a device would hold too much.
  bool is_always_full();

  /// Raises the bound in so many rounds at most, or with so much effort, or until a stop is
  /// requested. Layouts that come up go to `visit`.
  void raise(int rounds, std::int64_t effort, const Visit& visit, const std::stop_token& stop = {});

  /// Of the layouts that fit and take at most `limit`, which is not above that of the bound, all
  /// that weights do not rule out go to `visit`, with their own recomputation; it gives the limit
  /// from then on. False if the effort was spent before all were ruled out or visited; a stop is
  /// one, too.
  bool prove(Time limit, Effort& effort, const Judging& visit);

  /// No layout that fits takes less than this, unless more than `limit`.
  Time bound() const;
  /// What it has spent so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }

  /// What each stage may be in layouts within the limit.
  const StageChoices& choices() const { return choices_; }
  /// The one that the bound rests on, the heaviest of its paths, alone, and moments at which a
  /// device is full, those with a weight first.
  std::vector<LayoutSum> sums() const;
  LayoutSum alone(const PassCounts& path) const;
  const PipelineCosts& costs() const { return costs_; }
  /// The layout's critical path; what it takes, in nanoseconds, goes to `step`.
  PassCounts critical_path(const Layout& layout, double& step) { return passes_.of(layout, step); }
  /// What a stage may do again.
  const std::vector<Recompute>& recompute_choices() const { return again_; }
  /// Steps of about ten nanoseconds that it takes to time a layout.
  std::int64_t steps_to_time() const { return 2 * static_cast<std::int64_t>(order_.order.size()); }

 private:
  /// A path, or what a device has at some moment, in parts of the limit.
  struct Row {
    Weighting unit;
    SparseWeighting sparse{unit};
    bool is_time = false;
    PassCounts path = {};   ///< if it is
    std::int64_t used = 0;  ///< in this game it last had weight
  };
  /// A layout that had the least sum for some weights.
  struct SeenLayout {
    std::vector<StageChoices::Choice> choices;
    Weighting parts;
  };
  /// The game of rows against them.
  using Seen = LayoutGame<Row, SeenLayout>;
  using RowRef = Seen::RowRef;
  using Weight = Seen::Weight;
  using Weights = Seen::Weights;
  using Chosen = std::vector<StageChoices::Choice>;
  /// And what it takes by its critical path, in nanoseconds.
  using VisitTimed = std::function<void(const Layout&, double step)>;

  // --- Memory, and room ---
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
  /// A stage that recomputes or does not, or that ends at this layer or before it, or later.
  struct Split {
    int stage = 0;
    int last_end = 0;  ///< 0: by recomputation
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
  double unit_ = 0;  ///< nanoseconds: lengths of paths are parts of it
  std::vector<Recompute> again_;
  StageChoices choices_;
  StageChoices::Onward scratch_;
  Layout start_;

  std::vector<StageChoices::Most> most_;  ///< per stage, if any may take no time
  std::vector<RowRef> rows_;              ///< paths
  std::vector<RowRef> moments_;           ///< and rooms
  std::vector<PassCounts> known_;
  Weights weights_;          ///< the best so far
  double value_ = 0;         ///< theirs
  double moment_scale_ = 1;  ///< of moments in the game, beside paths
  double bound_ = 0;         ///< in parts of the limit
  std::int64_t games_ = 0, spent_ = 0;
};

}  // namespace stagecraft
