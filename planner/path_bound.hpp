// A lower bound for pipelines under any schedule, from paths through their programs.
//
// A layout x (cuts, recomputation) takes as long as its longest path, and at every moment every
// device must hold what is in flight. So for any weights l of paths that sum to one, and any prices
// m >= 0 of memory,
//
//   step(x)  >=  sum of l_i length_i(x)  +  sum of m_j (bytes_j(x) - limit_j)         if x fits
//
// Lengths and bytes are sums over stages: a path passes a stage and its cut so many times, whatever
// the layout (planner/critical_passes.hpp), and what is in flight follows from the schedule. So the
// least of the right side over all layouts is a shortest path over (stage, layer), and bounds every
// layout that fits (Lagrangian relaxation; Geoffrion 1974).
//
// The weights are raised by subgradient steps (Polyak 1969): the layout that attains the least is
// timed; its critical path is one more path to weigh, and moments at which a device holds too much
// gain a price. Those layouts are good plans, too, and are handed to the caller. Where there are no
// prices, paths and layouts found so far are a matrix game (planner/matrix_game.hpp), and the next
// weights lie half way to its best ones.
//
// Where layers are alike blocks (planner/block_packing.hpp), where a stage begins does not matter
// but how many blocks it has. Then the least is taken over what each device can have, n blocks of
// them in all: a knapsack over devices. What does not fit is not among that, so memory needs no
// prices, and nobody has half a block or recomputes half of one. Still a stage may be weighed as
// half of one choice and half of another, which is less than either. Hence `rule_out`: if nothing
// within the limit is left where some stage, or device, has its most blocks, it never has so many;
// nor a choice, if nothing is left with it. The fewer choices, the more of the others go.
//
// With several stages per device that is not enough. While the first stages of all devices have 4
// blocks and the second ones 1, or the other way round, devices work in step; where some have the
// one and others the other, whoever goes from device to device meets 4 each time, and weights see
// 2.5. Hence `branch`: of the devices that may have a or more blocks in their stage of this turn,
// or fewer, either none has them, or device d is the first, and the path through it counts. Each
// case by itself, and again.

#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "planner/block_packing.hpp"
#include "planner/critical_passes.hpp"

namespace stagecraft {

class PathBound {
 public:
  /// The order is the setting's, for its depth. Only layouts of at most `limit` are bounded;
  /// `packing`, if any, is of the same limit, and outlives the bound.
  PathBound(const Space& space, const Setting& setting, const TimedOrder& order, Time limit,
            const BlockPacking* packing = nullptr);

  /// The bound will start from the critical paths of this layout, if it can; else from those of a
  /// balanced one.
  void start_from(const Layout& layout) { layout_ = layout; }

  /// Raises the bound in so many rounds, or until it exceeds `enough`. Layouts that come up go to
  /// `visit`. Gives the rounds it took.
  int raise(int rounds, Time enough, const std::function<void(const Layout&)>& visit);

  /// Where layers are blocks: leaves out numbers of blocks that no layout within the limit gives a
  /// stage, or a device, the most first, and then single choices of devices, as long as that goes
  /// on; in so many rounds each, and about so many in all. If nothing is left the bound is above
  /// the limit. Gives the rounds it took.
  int rule_out(int rounds, int in_all);

  /// Where layers are blocks: whether no layout within the limit is left, by cases; each gets so
  /// many rounds, and all together about so many. Then the bound is above the limit, else it stays
  /// as it was. Gives the rounds it took.
  int branch(int rounds, int in_all);

  /// No layout that fits takes less than this, unless more than `limit`.
  Time bound() const;
  /// Steps of about ten nanoseconds that a round takes.
  std::int64_t steps_per_round() const;

 private:
  using Path = std::shared_ptr<const PassCounts>;
  struct Row {
    Path path;
    double weight = 0, best_weight = 0;
    double length = 0;            ///< in the latest layout
    std::vector<double> lengths;  ///< in `seen_`, as far as known
  };
  /// Of something a device has only so much of.
  struct Price {
    double now = 0, best = 0;  ///< of all of it
    double excess = 0;         ///< of the latest layout, as a part of it
  };
  /// Memory, at a moment of `TimedOrder::moments`.
  struct Moment {
    int device = 0, which = 0;
    Price price;
  };
  /// Layers: no more than a device can have.
  struct Room {
    int layers = 0;
    Price price;
  };
  /// Weights of a stage: per nanosecond of each part, per byte of each kind.
  struct Weights {
    Passes passes;
    double fixed = 0, in_flight = 0, waiting = 0, turn = 0, split_turn = 0;
    double per_layer = 0;
  };

  double safe_bound() const;
  /// No layout that fits takes so many nanoseconds or less.
  bool exceeds(double time) const { return safe_bound() > time; }
  void list_choices();
  void add_prices();
  void begin();
  void begin_with(const std::vector<Path>& paths);
  void add_row(Path path) { rows_.push_back({.path = std::move(path)}); }
  bool has_costs(const Layout& layout) const;
  void combine();
  void weigh(const Moment& moment);
  void weigh(int device, const Room& room);
  template <class Visit>
  void for_each_price(const Visit& visit);
  double solve();
  class StageSums;
  double solve_blocks();
  double cut_costs() const;
  using Has = std::function<bool(const BlockChoice&)>;
  /// What a part of all layouts begins with, and what is there again after it.
  struct Saved {
    std::vector<Row> rows;
    std::vector<BlockChoices> choices;
    std::vector<Layout> seen;
    double bound = 0;
  };
  Saved save() const;
  void restore(Saved saved);
  void begin_part();
  /// Devices whose stage of this turn has at least so many blocks, and others.
  struct Split {
    std::size_t turn = 0;
    int blocks = 0;
    std::vector<int> devices;  ///< that may be either
  };
  std::optional<Split> best_split(const std::vector<Layout>& layouts) const;
  std::vector<int> undecided(std::size_t turn, int blocks) const;
  bool is_case_out(const Split& split, std::size_t first, int rounds, int last_round);
  bool is_part_out(int rounds, int last_round);
  bool leave_out(int device, const Has& has, const Path& path, int rounds);
  void leave_out_of_stage(int stage, int rounds);
  void leave_out_of_device(int device, int rounds);
  bool leave_out_each(int device, int rounds, int last_round);
  double cost(int stage, int first, int end, Recompute recompute) const;
  void measure();
  double excess_of(const Moment& moment) const;
  void move(double value, double goal);
  void play();
  void take_note(double& value);
  void drop_idle_rows();

  const Space& space_;
  const Setting& setting_;
  const TimedOrder& order_;
  PipelineCosts costs_;
  CriticalPasses passes_;
  const BlockPacking* packing_ = nullptr;
  std::vector<std::vector<BlockChoice>> all_choices_;       ///< per device
  std::optional<std::vector<BlockChoices>> block_choices_;  ///< of these, what is not left out
  double limit_ = 0;
  std::vector<Recompute> choices_;
  std::vector<char> may_take_no_time_;  ///< per stage

  std::vector<Row> rows_;
  std::vector<Path> device_rows_;  ///< where `begin` starts
  std::vector<Path> stage_rows_;
  int rounds_ = 0;  ///< taken so far
  std::vector<Moment> moments_;
  std::vector<Room> rooms_;       ///< per device, or none
  std::vector<Weights> weights_;  ///< per stage
  double constant_ = 0;

  struct Step {
    double value = 0;
    int end = 0;
    Recompute recompute = Recompute::none;
  };
  std::vector<Step> steps_;  ///< [stage, first]
  Layout layout_;
  std::vector<Layout> seen_;  ///< where layers are blocks: those that had the least sum so far
  double bound_ = 0;
  double pace_ = 1;   ///< of `move`
  int failures_ = 0;  ///< of it, to find a better bound
};

}  // namespace stagecraft
