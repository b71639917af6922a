// What each stage of a pipeline may be: which layers, and whether they recompute.
//
// Where layers choose for themselves what they do again, a stage that does not recompute as a whole
// has the best of their choices by whatever weights a sum has: layer by layer, since sums are.
//
// A layout is one choice per stage, each beginning where the one before it ends. Sums over stages,
// of what a path takes or of what a device holds (planner/relaxations/path_bound.hpp), have their
// least along a shortest path over (stage, layer); forth and back it says of each choice what every
// layout with it has at least. Choices that are too much by any sum are left out for good.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "planner/timing/critical_path.hpp"

namespace stagecraft {

/// What a stage has of all that sums may weigh: nanoseconds, bytes, and layers. `in_flight` is
/// bytes per microbatch, `waiting` those of one whose W is to come, `turn` bytes while its B or I
/// runs, and `split_turn` more of them if it is an I; `busy` is 1 if that takes any time.
enum class Part {
  forward,
  backward,
  backward_input,
  backward_weight,
  sum,
  update,
  collect,
  fixed,
  in_flight,
  waiting,
  turn,
  split_turn,
  busy,
  layers
};
/// And what the cut behind it has: nanoseconds.
enum class CutPart { there_latency, there_occupancy, back_latency, back_occupancy };

/// Of all parts so much, or weights of all of them; a pair is what processors have vector
/// instructions for.
template <class Kind, int count>
class Parts {
 public:
  double& operator[](Kind kind) { return values_[static_cast<std::size_t>(kind)]; }
  double operator[](Kind kind) const { return values_[static_cast<std::size_t>(kind)]; }
  void add(const Parts& other, double weight) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += weight * other.values_[i];
  }
  bool operator==(const Parts&) const = default;
  void raise_to(const Parts& other) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] = std::max(values_[i], other.values_[i]);
  }
  /// Sum of the products of each.
  friend double weighed(const Parts& weights, const Parts& parts) {
    double even = 0, odd = 0;
    for (std::size_t i = 0; i < weights.values_.size(); i += 2) {
      even += weights.values_[i] * parts.values_[i];
      odd += weights.values_[i + 1] * parts.values_[i + 1];
    }
    return even + odd;
  }

  static constexpr std::size_t pairs = count / 2;
  std::array<double, 2> pair(std::size_t place) const {
    return {values_[2 * place], values_[2 * place + 1]};
  }

 private:
  static_assert(count % 2 == 0);
  std::array<double, count> values_{};
};
using StageParts = Parts<Part, 14>;
using CutParts = Parts<CutPart, 4>;

/// A layout's stages, the cuts behind them, and 1; or the weights of a sum over them.
struct Weighting {
  std::vector<StageParts> stages;
  std::vector<CutParts> cuts;  ///< the last stage has one, too, which weighs nothing
  double constant = 0;

  Weighting() = default;
  explicit Weighting(int count)
      : stages(static_cast<std::size_t>(count)), cuts(static_cast<std::size_t>(count)) {}
  void add(const Weighting& other, double weight);
};

/// Of a path, in nanoseconds; `tie` is what one takes.
Weighting lengths(const PassCounts& path, double tie);

/// Weights most of which are zero: a path passes few parts of a stage, a device is full by its own
/// stages only.
class SparseWeighting {
 public:
  explicit SparseWeighting(const Weighting& weights);
  /// Of all parts, stage by stage, the stage and then the cut behind it, and the constant.
  double weighed(const Weighting& layout) const;

 private:
  struct Pair {
    std::size_t place;
    std::array<double, 2> weights;
  };
  struct Stage {
    std::size_t stage;
    std::ptrdiff_t own, cut;  ///< how many of `pairs_`, after those of the stages before
  };
  template <class Kind, int count>
  std::ptrdiff_t add(const Parts<Kind, count>& parts);
  std::vector<Pair> pairs_;
  std::vector<Stage> stages_;
  double constant_ = 0;
};

class StageChoices {
 public:
  struct Choice {
    int first = 0, end = 0;
    Recompute recompute = Recompute::none;
    bool operator==(const Choice&) const = default;
  };

  /// All that the space allows within the limit of `costs`. Those outlive it.
  StageChoices(const Space& space, const PipelineCosts& costs, const TimedOrder& order,
               const std::vector<Recompute>& again);

  /// Too many choices to store; the list is empty then.
  bool are_too_many() const { return are_too_many_; }
  /// A stage has none left: there is no layout.
  bool are_none() const;
  std::size_t count() const;
  /// That can be made of them.
  double layouts() const;
  /// Sorted by their first layers.
  const std::vector<Choice>& of(int stage) const { return of_[static_cast<std::size_t>(stage)]; }
  /// Where those that begin at this layer begin in `of`.
  std::size_t place(int stage, int first) const {
    return places_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)];
  }
  bool has(int stage, const Choice& choice) const;
  StageParts parts(int stage, const Choice& choice) const;
  /// Whether layers choose for themselves what they do again.
  bool layers_choose() const { return !layers_again_.empty(); }
  /// Of each part what any choice of a stage has at the most, and any that takes no time.
  struct Most {
    StageParts any, idle;
  };
  Most most(int stage) const;
  CutParts cut(int stage, int end) const;
  /// All parts of a layout in which layers do nothing again by themselves.
  Weighting parts(const std::vector<Choice>& layout) const {
    return parts(layout, Weighting(costs_->stages()));
  }
  /// The same where they do what has the least of the sum.
  Weighting parts(const std::vector<Choice>& layout, const Weighting& sum) const;

  /// Leaves out choices of which a sum over one stage alone says that they are above `most`.
  void leave_out_single(int stage, const StageParts& weights, double most);

  /// Leaves out others of this stage.
  void keep(int stage, const std::function<bool(const Choice&)>& keeps);

  /// What a sum has of each choice, and how it goes on from a stage and its first layer at the
  /// least, without the constant.
  struct Onward {
    std::vector<std::vector<double>> costs;  ///< [stage][place in `of`]
    std::vector<std::vector<double>> least;  ///< [stage][first layer]
  };
  Onward onward(const Weighting& sum) const;

  struct Least {
    double value = 0;  ///< infinite: there is no layout
    std::vector<Choice> layout;
  };
  /// The least of a sum, and a layout that has it. Layouts above `most` do not count, and choices
  /// that only they have are left out. `scratch` is room for what it needs, to be used again.
  Least least(const Weighting& sum, double most, Onward& scratch);

  /// Steps of about ten nanoseconds that `least` takes.
  std::int64_t steps() const { return static_cast<std::int64_t>(count()) * 2; }

 private:
  /// What a layer may do again by itself: so much longer is a backward, and so many bytes fewer
  /// stay of a microbatch.
  struct LayerAgain {
    double longer = 0, saved = 0;
    double weighed(const StageParts& weights) const {
      return longer * (weights[Part::backward] + weights[Part::backward_input]) -
             saved * weights[Part::in_flight];
    }
  };

  void list_layers_again(const Space& space, const std::vector<Recompute>& again);
  const LayerAgain* best_again(int stage, int layer, const StageParts& weights) const;
  std::vector<double> least_again(int stage, const StageParts& weights) const;
  void list(const Space& space, const std::vector<Recompute>& again);
  void find_places();
  void list_parts();
  std::size_t place_of(int stage, const Choice& choice) const {
    return 2 * costs_->place(stage, choice.first, choice.end) +
           (choice.recompute == Recompute::full ? 1 : 0);
  }
  void weigh(int stage, const Weighting& sum, std::vector<double>& costs) const;
  void weigh(const Weighting& sum, Onward& onward) const;
  template <class Keeps>
  void keep_if(int stage, const Keeps& keeps);

  const PipelineCosts* costs_;
  bool places_recompute_ = false;
  bool are_too_many_ = false;
  std::vector<std::vector<Choice>> of_;                   ///< per stage
  std::vector<std::vector<std::size_t>> places_;          ///< [stage][layer]
  std::shared_ptr<const std::vector<StageParts>> table_;  ///< see `list_parts`
  /// [stage][layer]: beside nothing; empty where layers do not choose.
  std::vector<std::vector<std::vector<LayerAgain>>> layers_again_;
};

}  // namespace stagecraft
