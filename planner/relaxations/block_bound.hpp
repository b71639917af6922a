// A lower bound for pipelines of alike blocks (planner/relaxations/block_packing.hpp) under any
// schedule, tightened until no layout below the cutoff remains.
//
// As planner/relaxations/path_bound.hpp has it, weighted lengths of paths bound the step of every
// layout. Where layers are alike blocks, where a stage begins does not matter but how many blocks
// it has: a layout is a choice for each device, of those that fit, and the least weighted sum is a
// knapsack over devices (planner/relaxations/knapsack.hpp). Paths and layouts found so far are
// a matrix game (planner/relaxations/lagrangian.hpp); the next weights lie half way to its best
// ones (Wentges 1997). In the mean of layouts that the game balances no path is longer than the
// critical one: as long as that is longer than the game knows, it is one more path (Kelley 1960).
//
// Weights see the mean of choices, which is less than any of them. If the first stages of all
// devices have 4 blocks and the second ones 1, or the other way round, devices work in step. If
// some devices split 4+1 and others 1+4, a microbatch meets a 4-block stage on every device; the
// relaxation sees the average, 2.5. So choices are removed for good:
//
//   by sums    the least weighted sum of all layouts with this choice is above the limit. Any
//              weights tell that of all choices at once (fixing by reduced costs; Dantzig,
//              Fulkerson and Johnson 1954)
//   by trial   with nothing but some choices on their device, weights are found that rule out all
//              layouts; meanwhile sums leave out choices of others
//
// A walk (planner/relaxations/block_walk.hpp) sees what weights do not. Trials and its means,
// which leave out choices by what neighbours wait for each other, take turns, as long as much is
// left out; then it goes through what is left. Where that takes long, cases are made, each with all
// of this: of the devices that may have so many blocks in their stage of this turn, or fewer,
// either none has them, or this one is the first. In the end nothing is left
// that is faster than the best layout found, or if none was, nothing within the limit.

#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <vector>

#include "planner/relaxations/block_packing.hpp"
#include "planner/relaxations/block_walk.hpp"
#include "planner/relaxations/knapsack.hpp"
#include "planner/relaxations/lagrangian.hpp"
#include "planner/timing/critical_path.hpp"

namespace stagecraft {

class BlockBound {
 public:
  /// Whether the layout counts: then only faster ones are of interest.
  using Visit = std::function<bool(const Layout&)>;

  /// The order is the setting's, for its depth. Only layouts of at most the packing's limit are
  /// bounded. Layouts that come up, each better than those before and all fit, go to `visit`. What
  /// is given outlives the bound.
  BlockBound(const Space& space, const Setting& setting, const TimedOrder& order,
             const BlockPacking& packing, Visit visit);
  BlockBound(const BlockBound&) = delete;
  BlockBound& operator=(const BlockBound&) = delete;
  ~BlockBound() = default;

  /// False where there are too many choices to list: then this can tell nothing.
  bool knows_choices() const { return !domains_.empty(); }

  /// The bound will start from the critical paths of this layout; else from those of a balanced
  /// one.
  void start_from(const Layout& layout) { start_ = layout; }
  /// These paths of the setting are known to be of use, from another limit.
  void know(const std::vector<PassCounts>& paths);
  /// Those that were of use most recently, for another limit.
  std::vector<PassCounts> useful_paths() const;

  /// Raises the bound by weights, in so many rounds at most, until a stop is requested.
  void raise(int rounds, const std::stop_token& stop = {});

  /// What the weights of the latest rounds balance, in whole blocks: the mean of the layouts that
  /// they found, rounded from the first stage on; nothing before such a round. It need not fit, and
  /// recomputes nothing.
  std::optional<Layout> mean_layout() const;

  /// Whether it is proved that no layout within the limit is left, but those that were visited;
  /// then the bound is the step of the fastest of these, or above the limit. Else it stays as it
  /// was. Gives up after so much effort, or if a stop is requested.
  bool prove(std::int64_t effort, const std::stop_token& stop = {});

  /// A part of what a proof has left, with which others may go on side by side.
  struct Case {
    /// Choices per device, by their numbers, which bounds of equal packings have in common.
    std::vector<std::vector<int>> domains;
    std::int64_t trials = 0;  ///< effort for those in it
  };
  /// Begins with `prove`: all is proved if no case is left. Nothing if it gives up. Of layouts in
  /// no case none is faster than `least_found`.
  std::optional<std::vector<Case>> begin_proof(std::int64_t effort,
                                               const std::stop_token& stop = {});
  /// `prove` of one of the cases, by a bound made for it, which is the case's.
  bool prove_case(const Case& part, std::int64_t effort, const std::stop_token& stop = {});

  /// The fastest that was timed, above the limit if none within it was.
  Time least_found() const;
  /// No layout that fits takes less than this, unless more than the limit.
  Time bound() const;
  /// What it has spent so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }

 private:
  /// Rounding of the sums must not lift the bound.
  static constexpr double safe = 1 - 1e-9;
  /// Of means, in one game: where many are equally long, thousands would get it no further.
  static constexpr int most_paths = 20;

  /// A path, and its length in parts of the limit: a sum over what stages have.
  struct Row {
    PassCounts path;
    double constant = 0;
    std::vector<double> lengths;  ///< [cell]
    std::int64_t used = 0;        ///< in this game it last had part
  };

  /// What many choices have in common: a stage of so many blocks.
  struct Cell {
    int stage = 0;
    const StageCosts* costs = nullptr;
    double again = 0;  ///< recomputation with each backward
  };
  struct Choice {
    const BlockChoice* what = nullptr;
    int device = 0, blocks = 0;
  };
  using Choices = std::vector<int>;      ///< by their numbers, ascending
  using Domains = std::vector<Choices>;  ///< what is left, per device
  using Chosen = std::vector<int>;       ///< a layout: a choice for each device

  /// The game of rows against layouts that had the least sum for some weights.
  using Seen = LayoutGame<Row, Chosen>;
  using RowRef = Seen::RowRef;
  using Weight = Seen::Weight;
  using Weights = Seen::Weights;

  /// Devices differ in whether their stage of this turn, or all of them, has at least so many.
  struct Split {
    int turn = 0;
    int blocks = 0;
  };
  static constexpr int all_turns = -1;
  struct DoubtfulSplit {
    Split split;
    double doubt = 0;  ///< in devices
  };

  // --- Weights ---
  void list_choices();
  int cell_of(int stage, int blocks, bool again);
  void begin();
  /// Of each of its stages.
  std::span<const int> cells_of(int choice) const;
  void add_row(PassCounts path);
  void list_lengths(std::size_t most_rows);
  void drop_idle_rows();
  /// Only layouts of at most this step are of interest.
  double worth() const;
  /// Whether layouts of this sum, in parts of the limit, are not.
  bool is_above(double sum) const;
  bool weigh(const Weights& weights);
  bool cover(double constant);
  bool cover_in_step(double constant);
  void leave_out(double constant);
  double sum_over_cells(int choice, const std::vector<double>& of_cells) const;
  double length(const Row& row, const Chosen& layout) const;
  void try_out(const Chosen& layout);
  void take_part(Seen& seen, const RowRef& row) const;
  void add(Seen& seen, const Chosen& layout) const;
  double play(Seen& seen, Weights& weights);
  void raise(int rounds, std::int64_t last);
  void take_mean(const Seen& seen);
  RowRef longest_in_mixture(const Seen& seen, double value);
  RowRef path_of_mean(const Seen& seen, double& step);
  double play_with_longest(Seen& seen, Weights& weights);
  double play_with_paths(Seen& seen, Weights& weights);

  // --- In step ---
  double pairs_left() const;
  double steps_to_look_at_pairs() const;
  void prepare_walk();
  int from_walk(std::size_t device, int item) const;
  Chosen from_walk(const std::vector<int>& items) const;
  int to_walk(std::size_t device, int choice) const;
  BlockWalk::Items to_walk(const Domains& domains) const;
  bool is_in_walk(const Chosen& layout) const;
  void take_what_is_left();
  bool fall_in_step(std::int64_t last);
  BlockWalk::Costs in_walk(const std::vector<double>& of_choices) const;
  BlockWalk::Lesson learn(const std::vector<StageTimes>& stages);
  bool is_out_of_step(std::int64_t effort);
  bool is_walked_out(std::int64_t effort);

  // --- Trials and cases ---
  bool stops() const { return spent_ > last_ || stop_.stop_requested(); }
  bool play_fully(Seen& seen, Weights& weights);
  bool is_left(const Chosen& layout) const;
  void remember_mixture();
  void begin_game(const Weights& start);
  bool is_out(const Weights& start);
  bool is_played_out(const Weights& start);
  bool leave_out_set(const Choices& set, const Weights& start, const RowRef& row);
  void leave_out_most(int device, int turn, const Weights& start, const RowRef& row);
  void leave_out_most(const Weights& start);
  Choices by_sum();
  void leave_out_each(const Weights& start);
  bool thin_out(Weights& weights);
  int blocks_of(int choice, int turn) const;
  std::size_t choices_left() const;
  bool is_out_by_trials(Weights& weights, std::int64_t effort);
  bool thin_out_by_turns(Weights& weights);
  bool divide(Weights& weights, std::vector<Domains>& cases);
  bool is_case_out(Domains domains, Weights weights);
  std::vector<int> undecided(const Split& split) const;
  std::vector<DoubtfulSplit> splits() const;
  Domains domains_of_case(const Split& split, const std::vector<int>& devices,
                          std::size_t first) const;
  double left_of_middle(const Split& split, Weights weights, std::int64_t effort);
  std::optional<Split> best_split(const Weights& weights, std::int64_t past);
  std::vector<Domains> cases_of(const Split& split) const;
  std::vector<Domains> cases_of_choices(int device) const;

  const Space& space_;
  const Setting& setting_;
  const TimedOrder& order_;
  const BlockPacking& packing_;
  Visit visit_;
  PipelineCosts costs_;
  CriticalPasses passes_;
  double limit_ = 0;
  std::optional<std::vector<std::vector<BlockChoice>>> all_choices_;
  std::vector<Choice> choices_;
  std::vector<Cell> cells_;
  std::vector<int> choice_cells_;  ///< [choice, turn]
  std::size_t turns_ = 0;          ///< stages of each device
  std::map<std::vector<int>, int> cell_numbers_;
  Layout start_;

  std::vector<RowRef> rows_;    ///< that may have part in games
  std::vector<float> lengths_;  ///< of all of them: [cell][row], `most_rows_` apart
  std::size_t most_rows_ = 0;
  std::vector<RowRef> device_rows_;  ///< for each device a path through it
  std::vector<RowRef> stage_rows_;   ///< and for each stage, under most schedules
  std::set<Chosen> timed_;           ///< layouts that were
  double least_step_ = std::numeric_limits<double>::infinity();  ///< of layouts that were timed
  double best_ = std::numeric_limits<double>::infinity();        ///< of those that count
  std::int64_t games_ = 0, spent_ = 0;

  Domains domains_;
  BlockCover cover_;
  std::vector<std::vector<BlockItem>> items_;  ///< of `cover_`
  std::vector<double> cell_sums_;              ///< per cell, by the latest weights
  std::vector<double> sums_;                   ///< per choice that is left
  double value_ = 0;                           ///< the least sum
  Chosen chosen_;                              ///< which has it

  std::vector<double> mean_blocks_;  ///< per stage: of the latest layouts, by their weights

  Weights weights_;  ///< those of the bound
  double bound_ = 0;

  std::unique_ptr<StageClock> clock_;
  std::unique_ptr<BlockWalk> walk_;  ///< in a proof, once there are few enough choices
  BlockWalk::State whole_;           ///< of the walk, with all it has
  bool is_in_walk_ = false;          ///< the case's choices are what is left of the walk
  bool in_step_ = false;             ///< sums are of choices that go with each other in the walk
  Domains walk_choices_;             ///< that the walk has, by their places in its lists
  Seen seen_;                        ///< of the latest `is_out`
  std::deque<Chosen> remembered_;    ///< layouts, of means that are within the limit
  Weights best_weights_;             ///< that it found
  int cases_ = 0;                    ///< one inside the other; the first is the whole
  bool is_proved_ = false;           ///< nothing of interest is left
  std::stop_token stop_;
  std::int64_t trials_in_case_ = 0;
  std::int64_t last_ = 0;  ///< effort may be spent up to here
};

}  // namespace stagecraft
