#include "planner/layouts/layouts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "profiles/index.hpp"

namespace stagecraft {

std::vector<int> even_cuts(int layers, int parts) {
  std::vector<int> cuts{0};
  for (int part = 0; part < parts; ++part) {
    cuts.push_back(cuts.back() + layers / parts + (part < layers % parts ? 1 : 0));
  }
  return cuts;
}

namespace {

Time time_of(const CostTable& table, const Setting& setting, const LayerRange& layers) {
  const Duration back = setting.splits_backward
                            ? table.backward_input(layers) + table.backward_weight(layers)
                            : table.backward(layers);
  return (table.forward(layers) + back).count();
}

/// The cut after `first` with which the stage comes closest to this much time, and which leaves
/// enough layers for the stages behind.
int nearest_cut(const CostTable& table, const Setting& setting, int first, int last, double goal) {
  const auto distance = [&](int end) {
    return std::abs(static_cast<double>(time_of(table, setting, {first, end})) - goal);
  };
  int end = first + 1;
  while (end < last && distance(end + 1) <= distance(end)) ++end;
  return end;
}

/// Cuts around fixed stages: the layers between two fixed stages go to the stages between them in
/// proportion to their weights. Nothing if there are too few layers.
std::optional<std::vector<int>> cuts_around_fixed(const Space& space, const Setting& setting,
                                                  const std::vector<double>& weights) {
  const CostTable& table = space.whole_microbatch(setting, 0);
  const auto stages = static_cast<int>(weights.size());
  std::vector<int> cuts{0};
  for (int stage = 0; stage < stages; ++stage) {
    const int first = cuts.back();
    if (const auto fixed = space.fixed_layers(stage)) {
      if (fixed->first != first) return {};
      cuts.push_back(fixed->end);
      continue;
    }
    int next = stage;  // the next fixed stage, or the end
    double all = 0;
    for (; next < stages && !space.fixed_layers(next); ++next) all += weights[index(next)];
    const int end = next == stages ? space.layers() : space.fixed_layers(next)->first;
    const int last = end - (next - stage - 1);
    if (last <= first) return {};
    const double goal =
        static_cast<double>(time_of(table, setting, {first, end})) * weights[index(stage)] / all;
    cuts.push_back(next == stage + 1 ? end : nearest_cut(table, setting, first, last, goal));
  }
  if (cuts.back() != space.layers()) return {};
  return cuts;
}

/// Cuts stages one after the other, each near the time that `goal` returns for it; `learn` is told
/// the time it got.
template <class Goal, class Learn>
Layout filled(const Space& space, const Setting& setting, const std::vector<int>& replicas,
              const Goal& goal, const Learn& learn) {
  const CostTable& table = space.whole_microbatch(setting, 0);
  const int stages =
      static_cast<int>(replicas.size()) * std::max(setting.schedule.virtual_stages, 1);
  Layout layout{.replicas = replicas, .cuts = {0}, .recompute = {}};
  layout.recompute.assign(index(stages), Recompute::none);
  for (int stage = 0; stage + 1 < stages; ++stage) {
    const int first = layout.cuts.back(), last = space.layers() - (stages - stage - 1);
    const int end = nearest_cut(table, setting, first, last, goal(stage));
    learn(stage, static_cast<double>(time_of(table, setting, {first, end})));
    layout.cuts.push_back(end);
  }
  layout.cuts.push_back(space.layers());
  return layout;
}

/// The time that each pipeline device should take: its share of all layers by its number of
/// replicas.
std::vector<double> shares(const Space& space, const Setting& setting,
                           const std::vector<int>& replicas) {
  const auto all = static_cast<double>(
      time_of(space.whole_microbatch(setting, 0), setting, {0, space.layers()}));
  const int devices = std::accumulate(replicas.begin(), replicas.end(), 0);
  std::vector<double> shares;
  for (const int count : replicas) shares.push_back(all * count / devices);
  return shares;
}

/// The layout around fixed stages, if there are any. The other stages of a device divide what its
/// fixed stages leave of its share, by the weight of their turn.
template <class Weight>
std::optional<Layout> around_fixed(const Space& space, const Setting& setting,
                                   const std::vector<int>& replicas, const Weight& weight) {
  if (space.problem().fixed.empty()) return {};
  const CostTable& table = space.whole_microbatch(setting, 0);
  const auto depth = static_cast<int>(replicas.size());
  const int turns = std::max(setting.schedule.virtual_stages, 1), stages = depth * turns;
  std::vector<double> left = shares(space, setting, replicas), all(replicas.size());
  std::vector<double> weights;
  for (int stage = 0; stage < stages; ++stage) {
    const auto device = index(setting.device_of(stage, depth));
    weights.push_back(weight(stage / depth));
    if (const auto fixed = space.fixed_layers(stage)) {
      left[device] -= static_cast<double>(time_of(table, setting, *fixed));
    } else {
      all[device] += weights.back();
    }
  }
  for (int stage = 0; stage < stages; ++stage) {
    const auto device = index(setting.device_of(stage, depth));
    weights[index(stage)] *= std::max(left[device], 1.0) / all[device];
  }
  auto cuts = cuts_around_fixed(space, setting, weights);
  if (!cuts) return {};
  return Layout{.replicas = replicas,
                .cuts = *std::move(cuts),
                .recompute = std::vector<Recompute>(weights.size(), Recompute::none)};
}

}  // namespace

Layout balanced(const Space& space, const Setting& setting, const std::vector<int>& replicas) {
  if (auto layout = around_fixed(space, setting, replicas, [](int) { return 1.0; }))
    return *std::move(layout);
  const std::vector<double> share = shares(space, setting, replicas);
  const int turns = std::max(setting.schedule.virtual_stages, 1);
  double ahead = 0;  // time that the stages so far fell short of their goals
  const auto goal = [&](int stage) {
    const int device = setting.device_of(stage, static_cast<int>(replicas.size()));
    return ahead += share[index(device)] / turns;
  };
  return filled(space, setting, replicas, goal, [&](int, double taken) { ahead -= taken; });
}

Layout balanced_devices(const Space& space, const Setting& setting,
                        const std::vector<int>& replicas, double tilt) {
  const int turns = std::max(setting.schedule.virtual_stages, 1);
  std::vector<double> left = shares(space, setting, replicas);
  std::vector<int> turn(replicas.size());
  const auto weight = [&](int t) {
    return 1 + tilt * (2 * t - turns + 1) / std::max(turns - 1, 1);
  };
  if (auto layout = around_fixed(space, setting, replicas, weight)) return *std::move(layout);
  const auto device_of = [&](int stage) {
    return index(setting.device_of(stage, static_cast<int>(replicas.size())));
  };
  // If a device's stages so far exceed their share, its later ones get less.
  const auto goal = [&](int stage) {
    const int now = turn[device_of(stage)]++;
    double rest = 0;
    for (int t = now; t < turns; ++t) rest += weight(t);
    return left[device_of(stage)] * weight(now) / rest;
  };
  return filled(space, setting, replicas, goal,
                [&](int stage, double taken) { left[device_of(stage)] -= taken; });
}

bool may_fit(FastClock& clock, const Layout& layout) {
  for (int device = 0; device < layout.pipeline_devices(); ++device) {
    if (!clock.may_fit(layout, device)) return false;
  }
  return true;
}

namespace {

/// A stage moves 1/parts_handed_on of its layers at once, but at least one.
constexpr int parts_handed_on = 64;

}  // namespace

std::optional<Layout> made_to_fit(FastClock& clock, const Setting& setting, Layout layout) {
  for (int device = 0; device < layout.pipeline_devices();) {
    if (clock.may_fit(layout, device)) {
      ++device;
      continue;
    }
    // The device's largest stage moves a layer, or several of very many, to the next stage.
    int largest = -1, layers = 1;
    for (int stage = 0; stage + 1 < layout.stages(); ++stage) {
      const int size = layout.cuts[index(stage) + 1] - layout.cuts[index(stage)];
      const bool here = setting.device_of(stage, layout.pipeline_devices()) == device;
      if (!here || size <= layers) continue;
      largest = stage;
      layers = size;
    }
    if (largest < 0) return {};
    layout.cuts[index(largest) + 1] -= std::max(layers / parts_handed_on, 1);
    // The device that gets the layer must fit, too, whether before or after this one.
    device = std::min(device, setting.device_of(largest + 1, layout.pipeline_devices()));
  }
  return layout;
}

namespace {

/// Local search that accepts moves for which the fast clock reports a shorter step.
class Improvement {
 public:
  Improvement(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
              Effort& effort)
      : clock_(clock),
        space_(space),
        setting_(setting),
        effort_(effort),
        layout_(std::move(layout)),
        best_(clock.step(layout_)),
        fits_(may_fit(clock, layout_)),
        steps_(std::int64_t{4} * layout_.stages() * setting.microbatches) {}

  /// If stages have very many layers, moves many at once first.
  Layout run() {
    const int layers = space_.layers() / layout_.stages();
    for (count_ = std::max(layers / parts_handed_on, 1); count_ > 0; count_ /= 2) improve();
    return std::move(layout_);
  }

 private:
  void improve() {
    for (bool better = true; better && !effort_.is_spent();) {
      better = move_cuts();
      if (!better && setting_.schedule.virtual_stages > 1) better = move_loads();
    }
  }

  bool move_cuts() {
    bool better = false;
    for (int stage = 0; stage + 1 < layout_.stages() && !effort_.is_spent(); ++stage) {
      better = hand_over(stage, stage + 1) || better;
      better = hand_over(stage + 1, stage) || better;
    }
    return better;
  }

  /// Moves load from the busiest device to the least busy ones, through all stages between.
  bool move_loads() {
    constexpr std::size_t most_receivers = 3;
    const int devices = layout_.pipeline_devices();
    std::vector<Time> loads(index(devices));
    for (int s = 0; s < layout_.stages(); ++s) loads[index(device_of(s))] += load(s);
    std::vector<int> order(index(devices));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return loads[index(a)] < loads[index(b)]; });
    const int giver = order.back();
    order.resize(std::min(order.size() - 1, most_receivers));
    for (const int receiver : order) {
      for (int from = 0; from < layout_.stages(); ++from) {
        if (device_of(from) != giver) continue;
        for (int to = 0; to < layout_.stages(); ++to) {
          if (device_of(to) == receiver && hand_over(from, to)) return true;
        }
      }
    }
    return false;
  }

  /// Moves `count_` layers by shifting every cut between the two stages.
  bool hand_over(int from, int to) {
    const int first = std::min(from, to), last = std::max(from, to);
    const int move = from < to ? -count_ : count_;
    for (int cut = first + 1; cut <= last; ++cut) layout_.cuts[index(cut)] += move;
    effort_.spend(steps_per_check);
    if (is_allowed(first, last)) {
      effort_.spend(steps_);
      const Time step = clock_.step(layout_);
      if (step < best_) {
        best_ = step;
        return true;
      }
    }
    for (int cut = first + 1; cut <= last; ++cut) layout_.cuts[index(cut)] -= move;
    return false;
  }

  bool is_allowed(int first, int last) {
    for (int stage = first; stage <= last; ++stage) {
      const LayerRange layers{layout_.cuts[index(stage)], layout_.cuts[index(stage) + 1]};
      // Bounds of columns do not cover empty stages, so columns have none.
      if (layers.size() < (setting_.depth ? 1 : 0) || !space_.allows(stage, layers)) return false;
    }
    for (int stage = first; fits_ && stage <= last; ++stage) {
      if (!clock_.may_fit(layout_, device_of(stage))) return false;
    }
    return true;
  }

  int device_of(int stage) const { return setting_.device_of(stage, layout_.pipeline_devices()); }
  Time load(int stage) const {
    return time_of(space_.whole_microbatch(setting_, 0), setting_,
                   {layout_.cuts[index(stage)], layout_.cuts[index(stage) + 1]});
  }

  static constexpr std::int64_t steps_per_check = 100;

  FastClock& clock_;
  const Space& space_;
  const Setting& setting_;
  Effort& effort_;
  Layout layout_;
  Time best_ = 0;
  bool fits_ = false;
  std::int64_t steps_ = 0;
  int count_ = 1;  ///< number of layers that are moved at once
};

}  // namespace

Layout improve(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
               Effort& effort) {
  return Improvement(clock, space, setting, std::move(layout), effort).run();
}

std::vector<int> even_replicas(int stages, int devices, int most) {
  std::vector<int> replicas;
  for (int i = 0; i < stages; ++i) {
    replicas.push_back(std::min(devices / stages + (i < devices % stages ? 1 : 0), most));
  }
  return replicas;
}

std::vector<Layout> layouts_of_two_sizes(const Space& space, const Setting& setting, int devices) {
  const int stages = devices * std::max(setting.schedule.virtual_stages, 1);
  const int alike = space.layers() - 2, fewest = alike / stages, larger = alike % stages;
  std::vector<Layout> layouts;
  if (fewest < 1) return layouts;
  const int last_begin = larger == 0 ? 0 : stages - larger;
  for (int begin = 0; begin <= last_begin; ++begin) {
    Layout layout{.replicas = std::vector<int>(index(devices), 1), .cuts = {0}};
    for (int s = 0; s + 1 < stages; ++s) {
      const bool is_larger = s >= begin && s < begin + larger;
      layout.cuts.push_back(layout.cuts.back() + fewest + (is_larger ? 1 : 0) + (s == 0 ? 1 : 0));
    }
    layout.cuts.push_back(space.layers());
    layout.recompute.assign(index(stages), Recompute::none);
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

std::vector<Layout> usual_layouts(const Space& space, const Setting& setting, FastClock& clock) {
  std::vector<Layout> layouts;
  const int most = space.most_replicas(setting);
  for (int p = 1; p <= space.most_filled_devices(setting); ++p) {
    const std::vector<int> straight(index(p), 1);
    if (clock.order_for(straight) != nullptr) layouts.push_back(balanced(space, setting, straight));
    const std::vector<int> replicated = even_replicas(p, space.devices(setting), most);
    if (replicated == straight || clock.order_for(replicated) == nullptr) continue;
    layouts.push_back(balanced(space, setting, replicated));
  }
  return layouts;
}

bool is_allowed(const Space& space, const Setting& setting, const Layout& layout) {
  const int used = std::accumulate(layout.replicas.begin(), layout.replicas.end(), 0);
  if (!space.may_end_at(setting, used) || !space.allows_stages(layout.stages())) return false;
  if (!space.wants(setting, layout.replicas)) return false;
  for (int stage = 0; stage < layout.stages(); ++stage) {
    const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
    if (!space.allows(stage, layers)) return false;
  }
  return true;
}

}  // namespace stagecraft
