#include "planner/search/heuristics/uneven_search.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "planner/layouts/annealing.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/layouts/recompute_ways.hpp"
#include "planner/search/heuristics/uneven_chains.hpp"
#include "planner/space/setting_kinds.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Moves replicas between stages, one at a time.
class ReplicaExchange {
 public:
  ReplicaExchange(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
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
  /// Moves a replica from one stage to another; -1 stands for the unused devices.
  bool move(int from, int to) {
    if (from == to || effort_.is_spent()) return false;
    Layout layout = best_;
    if (from >= 0 && --layout.replicas[index(from)] < 1) return false;
    if (to >= 0 && ++layout.replicas[index(to)] > space_.most_replicas(setting_)) return false;
    const int used = std::accumulate(layout.replicas.begin(), layout.replicas.end(), 0);
    if (used > space_.devices(setting_) || !space_.wants(setting_, layout.replicas)) return false;
    if (clock_.order_for(layout.replicas) == nullptr) return false;
    // The cuts were tuned for the previous replicas, so they are improved again.
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

/// Whether all stages have equally many replicas; `ColumnSearch` searches such layouts.
bool has_equal_replicas(const Layout& layout) {
  return std::ranges::adjacent_find(layout.replicas, std::ranges::not_equal_to()) ==
         layout.replicas.end();
}

/// Effort to order the passes of one microbatch on one device.
constexpr std::int64_t steps_per_order = 500;

}  // namespace

bool has_uneven_layouts(const Space& space, const Setting& setting) {
  return !is_chain(setting) && !has_many_devices(space, setting) &&
         !has_only_columns(space, setting);
}

void UnevenSearch::add(const Setting& setting) {
  constexpr int most_left_over = 3;
  Effort& effort = judge_.effort();
  const std::int64_t reserve = effort.left / 2;
  effort.left -= reserve;
  const StageBounds bounds(space_, setting);
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
  const int most = std::min(space_.most_filled_devices(setting), most_uneven_stages);
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

/// The uneven chains that the setting allows.
std::vector<Layout> UnevenSearch::chains_on(const StageBounds& bounds, const Setting& setting,
                                            FastClock& clock, int devices) {
  std::vector<Layout> layouts =
      find_uneven_chains(bounds, space_.layers(), devices, judge_.limit(), judge_.effort());
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
    ReplicaExchange exchange(*found.clock, space_, *found.setting, std::move(found.layout),
                             judge_.effort());
    change(found, exchange.run());
  }
  sort();
  anneal_best(stops);
}

/// Anneals the best layouts with several stages per device, in which local search by single layers
/// ends too early.
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
