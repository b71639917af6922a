// A lower bound for pipelines under any schedule, from paths through their programs.
//
// A layout x (cuts, recomputation) takes as long as its longest path, and at every moment every
// device must hold what is in flight. So for any weights l of paths that sum to one, and any prices
// m >= 0 of memory,
//
//   step(x)  >=  sum of l_i length_i(x)  +  sum of m_j (bytes_j(x) - limit_j)         if x fits
//
// Lengths and bytes are sums over stages: a path passes a stage and its cut so many times, whatever
// the layout (planner/bounds/critical_passes.hpp), and what is in flight follows from the schedule.
// So the least of the right side over all layouts is a shortest path over (stage, layer), and
// bounds every layout that fits (Lagrangian relaxation; Geoffrion 1974).
//
// The weights are raised by subgradient steps (Polyak 1969): the layout that attains the least is
// timed; its critical path is one more path to weigh, and moments at which a device holds too much
// gain a price. Those layouts are good plans, too, and are handed to the caller.
//
// Where layers are alike blocks there is a better one: planner/bounds/blocks/block_bound.hpp.

#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "planner/bounds/blocks/block_packing.hpp"
#include "planner/bounds/critical_passes.hpp"

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

  /// Whether there are few enough ranges of layers to keep the costs of each.
  static bool applies(const Space& space);

  /// Whether at some moment every layout holds more than a device can.
  bool is_always_full() const;

  /// Raises the bound in so many rounds, until it exceeds `enough`, or until a stop is requested.
  /// Layouts that come up go to `visit`. Gives the rounds it took.
  int raise(int rounds, Time enough, const std::function<void(const Layout&)>& visit,
            const std::stop_token& stop = {});

  /// No layout that fits takes less than this, unless more than `limit`.
  Time bound() const;

  /// Weights of a stage: per nanosecond of each part, per byte of each kind.
  struct Weights {
    Passes passes;
    double fixed = 0, in_flight = 0, waiting = 0, turn = 0, split_turn = 0;
    double per_layer = 0;
    bool operator==(const Weights&) const = default;
  };
  /// A sum over the stages of a layout and the cuts behind them, and a constant.
  struct Weighting {
    std::vector<Weights> stages;
    double constant = 0;
  };
  /// Sums that say of a layout what it takes at least, in nanoseconds: the one that the bound rests
  /// on, which speaks of layouts that fit, and the heaviest of its paths, alone.
  std::vector<Weighting> weighted_paths() const;
  /// Sums that are above zero only for layouts that do not fit: for moments at which a device is
  /// full, those with a price first.
  std::vector<Weighting> full_moments() const;
  /// Of a single path.
  Weighting alone(const PassCounts& path) const;
  double cost(const Weighting& sum, int stage, int first, int end, Recompute recompute) const;
  double cut_cost(const Weighting& sum, int stage, int end) const;

  /// How a sum goes on from a stage and its first layer at the least, and with which choice;
  /// infinite if it cannot.
  struct Step {
    double value = 0;
    int end = 0;
    Recompute recompute = Recompute::none;
  };
  /// [stage, first layer], without the constant.
  std::vector<Step> least_onward(const Weighting& sum) const;
  const Step& at(const std::vector<Step>& steps, int stage, int first) const {
    return steps[place_of(stage, first)];
  }
  const PipelineCosts& costs() const { return costs_; }
  /// The layout's critical path; what it takes, in nanoseconds, goes to `step`.
  PassCounts critical_path(const Layout& layout, double& step) { return passes_.of(layout, step); }
  /// What a stage may do again.
  const std::vector<Recompute>& choices() const { return choices_; }
  /// Steps of about ten nanoseconds that a round takes.
  std::int64_t steps_per_round() const;
  /// And `is_always_full`, at most.
  std::int64_t steps_to_ask_moments() const {
    return static_cast<std::int64_t>(moments_.size()) * steps_per_round();
  }
  /// And to time a layout.
  std::int64_t steps_to_time() const { return 2 * static_cast<std::int64_t>(order_.order.size()); }

 private:
  using Path = std::shared_ptr<const PassCounts>;
  struct Row {
    Path path;
    double weight = 0, best_weight = 0;
    double length = 0;  ///< in the latest layout
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

  std::size_t place_of(int stage, int first) const {
    const auto places = static_cast<std::size_t>(costs_.layers()) + 1;
    return static_cast<std::size_t>(stage) * places + static_cast<std::size_t>(first);
  }
  void step_over(int stage, std::vector<Step>& steps) const;
  void step_through(const Weighting& sum, int stage, std::vector<Step>& steps) const;
  double safe_bound() const;
  /// No layout that fits takes so many nanoseconds or less.
  bool exceeds(double time) const { return safe_bound() > time; }
  void add_prices();
  void begin();
  void begin_with(const std::vector<Path>& paths);
  void add_row(Path path) { rows_.push_back({.path = std::move(path)}); }
  bool has_costs(const Layout& layout) const;
  Weighting combined(double Row::*weight, double Price::*price) const;
  void weigh(const Moment& moment, double price, Weighting& sum) const;
  Weighting alone(const Moment& moment) const;
  void weigh(int device, const Room& room, double price, Weighting& sum) const;
  void weigh(const PassCounts& path, double weight, Weighting& sum) const;
  template <class Visit>
  void for_each_price(const Visit& visit);
  double solve();
  void measure();
  double excess_of(const Moment& moment) const;
  void move(double value, double goal);
  void take_note(double& value);
  void drop_idle_rows();

  const Space& space_;
  const Setting& setting_;
  const TimedOrder& order_;
  PipelineCosts costs_;
  CriticalPasses passes_;
  const BlockPacking* packing_ = nullptr;
  double limit_ = 0;
  std::vector<Recompute> choices_;
  std::vector<char> may_take_no_time_;  ///< per stage

  std::vector<Row> rows_;
  std::vector<Moment> moments_;
  std::vector<Room> rooms_;  ///< per device, or none
  Layout layout_;
  double bound_ = 0;
  double pace_ = 1;   ///< of `move`
  int failures_ = 0;  ///< of it, to find a better bound
};

}  // namespace stagecraft
