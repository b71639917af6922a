// The choices of each stage of a pipeline: its layers, and whether it recomputes.
//
// With recomputation per layer, a stage that does not recompute as a whole takes, layer by layer,
// the recomputation with the least weighted sum.
//
// A layout is one choice per stage, each beginning where the one before it ends. Sums over stages,
// of time along a path or of bytes on a device (planner/relaxations/path_bound.hpp), have their
// minimum along a shortest path over (stage, layer). Forward and backward distances give the least
// sum of all layouts with a given choice; choices above the limit of any sum are removed for good.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "planner/timing/critical_path.hpp"

namespace stagecraft {

/// The quantities of a stage that sums can weigh, in nanoseconds, bytes, and layers. `in_flight` is
/// bytes per microbatch in flight, `waiting` bytes of a microbatch whose W is still to come, `turn`
/// bytes during its B or I, `split_turn` additional bytes if it is an I; `busy` is 1 if that takes
/// any time.
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
/// The quantities of the cut behind a stage, in nanoseconds: forward (`there`) and backward
/// (`back`).
enum class CutPart { there_latency, there_occupancy, back_latency, back_occupancy };

/// A vector of all quantities, or of their weights. Pairs fit the processor's vector instructions.
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
  /// Scalar product.
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

/// The quantities of a layout's stages and cuts, with the constant 1; or the weights of a sum over
/// them.
struct Weighting {
  std::vector<StageParts> stages;
  std::vector<CutParts> cuts;  ///< also one for the last stage, with weight zero
  double constant = 0;

  Weighting() = default;
  explicit Weighting(int count)
      : stages(static_cast<std::size_t>(count)), cuts(static_cast<std::size_t>(count)) {}
  void add(const Weighting& other, double weight);
};

/// The weights whose sum is the length of a path in nanoseconds; `tie` is the time of one exchange
/// of tied weights.
Weighting lengths(const PassCounts& path, double tie);

/// Sparse weights: a path passes few parts of a stage, and a memory peak only involves its device's
/// stages.
class SparseWeighting {
 public:
  explicit SparseWeighting(const Weighting& weights);
  /// The weighted sum of a layout: each stage, then the cut behind it, and the constant.
  double weighed(const Weighting& layout) const;

 private:
  struct Pair {
    std::size_t place;
    std::array<double, 2> weights;
  };
  struct Stage {
    std::size_t stage;
    std::ptrdiff_t own, cut;  ///< numbers of this stage's entries in `pairs_`, which follow those
                              ///< of the stages before
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

  /// All choices that the space allows within the limit of `costs`, which must outlive this.
  StageChoices(const Space& space, const PipelineCosts& costs, const TimedOrder& order,
               const std::vector<Recompute>& again);

  /// Too many choices to store; the list is empty then.
  bool are_too_many() const { return are_too_many_; }
  /// Whether some stage has no choice left, so that there is no layout.
  bool are_none() const;
  std::size_t count() const;
  /// Number of layouts that the choices allow.
  double layouts() const;
  /// The choices of a stage, sorted by first layer.
  const std::vector<Choice>& of(int stage) const { return of_[static_cast<std::size_t>(stage)]; }
  /// Place in `of` of the first choice that begins at this layer.
  std::size_t place(int stage, int first) const {
    return places_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(first)];
  }
  bool has(int stage, const Choice& choice) const;
  StageParts parts(int stage, const Choice& choice) const;
  /// Whether recomputation is chosen per layer.
  bool layers_choose() const { return !layers_again_.empty(); }
  /// The maximum of each quantity over a stage's choices, and over those that take no time.
  struct Most {
    StageParts any, idle;
  };
  Most most(int stage) const;
  CutParts cut(int stage, int end) const;
  /// The quantities of a layout without recomputation per layer.
  Weighting parts(const std::vector<Choice>& layout) const {
    return parts(layout, Weighting(costs_->stages()));
  }
  /// The quantities of a layout with the recomputation per layer that minimises `sum`.
  Weighting parts(const std::vector<Choice>& layout, const Weighting& sum) const;

  /// Removes choices whose sum over this stage alone is above `most`.
  void leave_out_single(int stage, const StageParts& weights, double most);

  /// Keeps only the stage's choices for which `keeps` is true.
  void keep(int stage, const std::function<bool(const Choice&)>& keeps);

  /// The sum of each choice, and the least sum from a stage and its first layer to the end, without
  /// the constant.
  struct Onward {
    std::vector<std::vector<double>> costs;  ///< [stage][place in `of`]
    std::vector<std::vector<double>> least;  ///< [stage][first layer]
  };
  Onward onward(const Weighting& sum) const;

  struct Least {
    double value = 0;  ///< infinite: there is no layout
    std::vector<Choice> layout;
  };
  /// The least value of a sum, and a layout that attains it. Choices all of whose layouts are above
  /// `most` are removed. `scratch` is working memory, which can be reused.
  Least least(const Weighting& sum, double most, Onward& scratch);

  /// Effort of `least`, in steps of about ten nanoseconds.
  std::int64_t steps() const { return static_cast<std::int64_t>(count()) * 2; }

 private:
  /// A choice of recomputation of one layer: extra time of a backward, and bytes saved per
  /// microbatch.
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
  std::shared_ptr<const std::vector<StageParts>> table_;  ///< quantities of all ranges of layers
                                                          ///< (see `list_parts`)
  /// [stage][layer]: choices beside recomputing nothing; empty without recomputation per layer.
  std::vector<std::vector<std::vector<LayerAgain>>> layers_again_;
};

}  // namespace stagecraft
