#include "planner/searches/uneven_search.hpp"

#include <algorithm>
#include <climits>
#include <functional>
#include <numeric>
#include <optional>

#include "planner/layouts/annealing.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/layouts/recompute_ways.hpp"
#include "planner/space/setting_kinds.hpp"

namespace stagecraft {

namespace {

/// Of a chain: with more, stages have few replicas, and equally many do
/// (planner/costs/columns.hpp).
constexpr int most_stages = 12;

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

class UnevenChains {
 public:
  /// On the first so many of the setting's devices.
  UnevenChains(const ChainBounds& bounds, int layers, int devices, Effort& effort)
      : bounds_(bounds),
        effort_(effort),
        layers_(layers),
        devices_(devices),
        stages_(std::min({bounds.most_stages(), devices, most_stages})) {}

  /// Fills the table. Whether any number of stages does.
  bool probe(Time limit) {
    table_.assign(index(stages_ + 1), std::vector<Step>(index(layers_ + 1)));
    table_[0][index(layers_)] = {.devices = 0, .round_trip = 0};
    bool any = false;
    for (int stages = 1; stages <= stages_; ++stages) {
      for (int first = layers_ - 1; first >= 0; --first) fill(stages, first, limit);
      if (table_[index(stages)].front().devices > devices_ || effort_.is_spent()) continue;
      const Layout layout = chain(stages);
      const auto is_same = [&](const Layout& other) {
        return other.cuts == layout.cuts && other.replicas == layout.replicas;
      };
      if (std::none_of(found_.begin(), found_.end(), is_same)) found_.push_back(layout);
      any = true;
    }
    return any;
  }

  const std::vector<Layout>& found() const { return found_; }

 private:
  struct Step {
    int devices = INT_MAX / 2;
    Time round_trip = never;
    int end = 0;
    int replicas = 0;
    Recompute recompute = Recompute::none;
  };

  void fill(int stages, int first, Time limit) {
    Step& best = table_[index(stages)][index(first)];
    for (int end = first + 1; end <= layers_; ++end) {
      const Step& behind = table_[index(stages - 1)][index(end)];
      if (behind.devices >= std::min(devices_, best.devices)) continue;
      if (!try_out(stages, {first, end}, behind, limit, best)) return;
    }
  }

  /// With the fewest replicas that do. False if the layers are too many for all devices there are,
  /// as longer stages are.
  bool try_out(int stages, const LayerRange& layers, const Step& behind, Time limit, Step& best) {
    constexpr int most_tries = 6;  // more replicas take longer to sum gradients
    const Head start = bounds_.start();
    int tries = 0;
    for (int replicas = 1; replicas <= bounds_.most_replicas(); ++replicas) {
      const int all = behind.devices + replicas;
      if (all > devices_) return tries > 0;
      if (all >= best.devices || tries == most_tries) return true;
      const int device = devices_ - all;
      effort_.spend(steps_per_load);
      if (bounds_.is_too_long(start, layers, device, replicas, limit)) continue;
      ++tries;
      effort_.spend(steps_per_choice);
      const auto choice = bounds_.choose(layers, device, replicas, stages);
      if (!choice) continue;
      const Beyond beyond{behind.round_trip, 0};
      if (bounds_.bound(start, *choice, layers, device, replicas, stages, beyond) > limit) continue;
      best = {all, choice->fill + behind.round_trip + choice->drain, layers.end, replicas,
              choice->recompute};
    }
    return true;
  }

  Layout chain(int stages) const {
    Layout layout{.replicas = {}, .cuts = {0}, .recompute = {}};
    for (int left = stages; left > 0; --left) {
      const Step& step = table_[index(left)][index(layout.cuts.back())];
      layout.replicas.push_back(step.replicas);
      layout.cuts.push_back(step.end);
      layout.recompute.push_back(step.recompute);
    }
    return layout;
  }

  static constexpr std::int64_t steps_per_load = 3;
  static constexpr std::int64_t steps_per_choice = 30;

  const ChainBounds& bounds_;
  Effort& effort_;
  int layers_ = 0, devices_ = 0, stages_ = 0;
  std::vector<std::vector<Step>> table_;  ///< [stages][first layer]
  std::vector<Layout> found_;             ///< of all probes
};

/// Replicas change places, one at a time.
class Exchange {
 public:
  Exchange(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
           Effort& effort)
      : clock_(clock), space_(space), setting_(setting), effort_(effort), best_(std::move(layout)) {
    step_ = step_of(best_);
  }

  Layout run() {
    for (bool better = true; better && !effort_.is_spent();) {
      better = false;
      for (int from = -1; from < best_.pipeline_devices(); ++from) {
        for (int to = -1; to < best_.pipeline_devices(); ++to) {
          better = move(from, to) || better;
        }
      }
    }
    return std::move(best_);
  }

 private:
  /// A replica of one stage to another; -1 are the devices that are left.
  bool move(int from, int to) {
    if (from == to || effort_.is_spent()) return false;
    Layout layout = best_;
    if (from >= 0 && --layout.replicas[index(from)] < 1) return false;
    if (to >= 0 && ++layout.replicas[index(to)] > space_.most_replicas(setting_)) return false;
    const int used = std::accumulate(layout.replicas.begin(), layout.replicas.end(), 0);
    if (used > space_.devices(setting_) || !space_.wants(setting_, layout.replicas)) return false;
    if (clock_.order_for(layout.replicas) == nullptr) return false;
    // Cuts that were right for other replicas.
    layout = improve(clock_, space_, setting_, std::move(layout), effort_);
    const Time step = step_of(layout);
    if (step >= step_) return false;
    best_ = std::move(layout);
    step_ = step;
    return true;
  }

  Time step_of(const Layout& layout) {
    const int chunks = std::accumulate(layout.replicas.begin(), layout.replicas.end(), 0);
    effort_.spend(std::int64_t{4} * chunks * setting_.microbatches);
    return may_fit(clock_, layout) ? clock_.step(layout) : never;
  }

  FastClock& clock_;
  const Space& space_;
  const Setting& setting_;
  Effort& effort_;
  Layout best_;
  Time step_ = never;
};

/// Such layouts are columns, which are searched elsewhere.
bool has_equal_replicas(const Layout& layout) {
  return std::ranges::adjacent_find(layout.replicas, std::ranges::not_equal_to()) ==
         layout.replicas.end();
}

/// What it takes to order the passes of a microbatch on a device.
constexpr std::int64_t steps_per_order = 500;

}  // namespace

bool has_uneven_layouts(const Space& space, const Setting& setting) {
  return !is_chain(setting) && !has_many_devices(space, setting) &&
         !has_only_columns(space, setting);
}

bool has_uneven_chains(const Space& space, const Setting& setting) {
  constexpr int most = 64;
  constexpr double most_pairs = 5e6;  // of layers, times devices
  const double layers = space.layers(), devices = space.devices(setting);
  return has_chain_bounds(setting) && space.most_replicas(setting) > 1 && devices <= most &&
         layers * layers * devices <= most_pairs;
}

void UnevenSearch::add(const Setting& setting) {
  constexpr int most_left_over = 3;
  Effort& effort = judge_.effort();
  const std::int64_t reserve = effort.left / 2;
  effort.left -= reserve;
  const ChainBounds bounds(space_, setting);
  FastClock& clock = clocks_.emplace_back(space_, setting);
  const int devices = space_.devices(setting);
  for (int used = devices; used >= std::max(devices - most_left_over, 1); --used) {
    if (!space_.may_end_at(setting, used)) continue;
    for (Layout& layout : chains_on(bounds, setting, clock, used))
      keep(setting, clock, std::move(layout));
  }
  effort.left = std::max<std::int64_t>(effort.left, 0) + reserve;
}

void UnevenSearch::add_balanced(const Setting& setting) {
  constexpr double most_gained = 1.5;
  FastClock& clock = clocks_.emplace_back(space_, setting);
  const int most = std::min(space_.most_filled_devices(setting), most_stages);
  for (int depth = 2; depth <= most && !judge_.is_spent(); ++depth) {
    const std::vector<int> replicas =
        even_replicas(depth, space_.devices(setting), space_.most_replicas(setting));
    if (clock.order_for(replicas) == nullptr) continue;
    judge_.effort().spend(steps_per_order * setting.microbatches * depth);
    const Layout layout = balanced_devices(space_, setting, replicas, 0);
    const auto step = static_cast<double>(clock.step(layout));
    if (step > most_gained * static_cast<double>(judge_.limit())) continue;
    auto fitting = recomputed_to_fit(clock, space_, setting, layout);
    if (!fitting) fitting = made_to_fit(clock, setting, layout);
    if (fitting) keep(setting, clock, *std::move(fitting));
  }
}

void UnevenSearch::keep_best(std::size_t most) {
  sort();
  found_.resize(std::min(found_.size(), most));
}

void UnevenSearch::keep(const Setting& setting, FastClock& clock, Layout layout) {
  const auto is_same = [&](const Found& other) {
    return other.setting == &setting && other.layout.cuts == layout.cuts &&
           other.layout.replicas == layout.replicas;
  };
  if (std::any_of(found_.begin(), found_.end(), is_same)) return;
  const Time step = clock.step(layout);
  found_.push_back({&clock, &setting, std::move(layout), step});
}

/// What bisection comes across, without what the setting does not allow.
std::vector<Layout> UnevenSearch::chains_on(const ChainBounds& bounds, const Setting& setting,
                                            FastClock& clock, int devices) {
  constexpr Time parts = 32;
  Effort& effort = judge_.effort();
  UnevenChains chains(bounds, space_.layers(), devices, effort);
  Time low = 0, high = std::min(judge_.limit(), never - 1);
  bool is_open = chains.probe(high);
  while (is_open && high - low > high / parts && !effort.is_spent()) {
    const Time middle = low + (high - low) / 2;
    (chains.probe(middle) ? high : low) = middle;
  }
  std::vector<Layout> layouts = chains.found();
  std::erase_if(layouts, [&](const Layout& layout) {
    return !is_allowed(space_, setting, layout) || clock.order_for(layout.replicas) == nullptr;
  });
  return layouts;
}

void UnevenSearch::improve(const std::function<bool()>& stops) {
  sort();
  for (Found& found : found_) {
    if (stops()) return;
    found.layout = stagecraft::improve(*found.clock, space_, *found.setting,
                                       std::move(found.layout), judge_.effort());
    found.step = found.clock->step(found.layout);
  }
  sort();
  constexpr double most_gained = 1.25;
  for (Found& found : found_) {
    const auto step = static_cast<double>(found.step);
    if (stops() || step > most_gained * static_cast<double>(judge_.limit())) break;
    Exchange exchange(*found.clock, space_, *found.setting, std::move(found.layout),
                      judge_.effort());
    change(found, exchange.run());
  }
  sort();
  anneal_best(stops);
}

/// Of layouts with several stages per device, where moving one layer at a time ends too soon.
void UnevenSearch::anneal_best(const std::function<bool()>& stops) {
  constexpr double most_gained = 1.05, hot = 0.02;
  std::int64_t left = 2;
  for (Found& found : found_) {
    const auto step = static_cast<double>(found.step);
    if (left == 0 || stops() || step > most_gained * static_cast<double>(judge_.limit())) return;
    if (found.setting->schedule.virtual_stages == 1 || has_equal_replicas(found.layout)) continue;
    const std::int64_t given = judge_.effort().left / left--;
    Effort part{.left = given, .stop = judge_.effort().stop};
    change(found, anneal(*found.clock, space_, *found.setting, found.layout, hot, 1, part));
    judge_.effort().spend(given - part.left);
  }
}

void UnevenSearch::change(Found& found, Layout layout) {
  found.layout = std::move(layout);
  found.step = found.clock->step(found.layout);
  if (is_allowed(space_, *found.setting, found.layout))
    judge_.consider_once(*found.clock, *found.setting, found.layout);
}

void UnevenSearch::sort() {
  std::ranges::stable_sort(found_, {}, &Found::step);
}

}  // namespace stagecraft
