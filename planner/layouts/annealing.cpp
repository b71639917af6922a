#include "planner/layouts/annealing.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "planner/layouts/recompute_ways.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

class Annealing {
 public:
  Annealing(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
            unsigned seed, Effort& effort)
      : clock_(clock),
        space_(space),
        setting_(setting),
        effort_(effort),
        layout_(std::move(layout)),
        step_(static_cast<double>(clock.step(layout_))),
        best_(layout_),
        best_step_(step_),
        random_(seed) {}

  Layout run(double hot) {
    constexpr double cold = 2e-5;  // final temperature as a fraction of the step
    const std::int64_t all = std::max(effort_.left, std::int64_t{1});
    while (!effort_.is_spent()) {
      const double rest = static_cast<double>(effort_.left) / static_cast<double>(all);
      try_move(best_step_ * cold * std::pow(hot / cold, rest));
    }
    return std::move(best_);
  }

 private:
  static constexpr std::int64_t steps_per_try = 20, steps_per_repair = 200;

  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  void try_move(double temperature) {
    const int stages = layout_.stages();
    const int from = below(stages), to = other(from);
    effort_.spend(steps_per_try);
    const double chance = static_cast<double>(random_()) / 4294967296.0;
    if (to < 0 || to >= stages) return;
    Layout next = layout_;
    if (to == from) {
      if (recomputes_otherwise(next, setting_.device_of(from, next.pipeline_devices())))
        take_or_leave(std::move(next), temperature, chance);
      return;
    }
    const int first = std::min(from, to), last = std::max(from, to), shift = from < to ? -1 : 1;
    for (int cut = first + 1; cut <= last; ++cut) next.cuts[index(cut)] += shift;
    if (!is_allowed(next, first, last)) return;
    effort_.spend(steps_per_repair << std::min(setting_.schedule.virtual_stages, 6));
    if (fits(next, first, last)) take_or_leave(std::move(next), temperature, chance);
  }

  void take_or_leave(Layout next, double temperature, double chance) {
    effort_.spend(std::int64_t{4} * next.stages() * setting_.microbatches);
    const auto step = static_cast<double>(clock_.step(next));
    if (step > step_ && chance > std::exp((step_ - step) / temperature)) return;
    layout_ = std::move(next);
    step_ = step;
    if (step_ >= best_step_ || !may_fit(clock_, layout_)) return;
    best_ = layout_;
    best_step_ = step_;
  }

  /// Chooses at random which stages of the device recompute. Returns false if none recomputed
  /// before, or if the device does not fit.
  bool recomputes_otherwise(Layout& layout, int device) {
    const std::vector<int> stages = stages_of(setting_, layout, device);
    const auto recomputes = [&](int s) { return layout.recompute[index(s)] == Recompute::full; };
    if (!space_.allows(Recompute::none) || std::ranges::none_of(stages, recomputes)) return false;
    for (const int s : stages)
      layout.recompute[index(s)] = below(2) == 0 ? Recompute::none : Recompute::full;
    effort_.spend(steps_per_repair);
    return clock_.may_fit(layout, device);
  }

  /// Chooses the other stage of a move, at random among a neighbour, which changes the step little,
  /// a stage of the same device, which changes memory little, and any stage, which changes the
  /// shape.
  int other(int stage) {
    const int stages = layout_.stages(), devices = layout_.pipeline_devices();
    switch (below(3)) {
      case 0: return stage + (below(2) == 0 ? 1 : -1);
      case 1: return stage % devices + devices * below(stages / devices);
      default: return below(stages);
    }
  }

  bool is_allowed(const Layout& layout, int first, int last) const {
    for (int stage = first; stage <= last; ++stage) {
      const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
      if (layers.size() < 1 || !space_.allows(stage, layers)) return false;
    }
    return true;
  }

  /// Lets the devices of both stages recompute as little as they must. Returns whether both fit.
  bool fits(Layout& layout, int first, int last) {
    for (const int stage : {first, last}) {
      const int device = setting_.device_of(stage, layout.pipeline_devices());
      if (!recompute_to_fit(clock_, space_, setting_, device, layout)) return false;
    }
    return true;
  }

  FastClock& clock_;
  const Space& space_;
  const Setting& setting_;
  Effort& effort_;
  Layout layout_;
  double step_ = 0;
  Layout best_;
  double best_step_ = 0;
  std::mt19937 random_;
};

}  // namespace

Layout anneal(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
              double heat, unsigned seed, Effort& effort) {
  return Annealing(clock, space, setting, std::move(layout), seed, effort).run(heat);
}

}  // namespace stagecraft
