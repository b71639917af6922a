#include "planner/layouts/recompute_ways.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Chooses the cheapest set of recomputing stages on the device, the first of equal ones, and stops
/// early at one that costs nothing. `cost` returns the cost of the layout with these stages
/// recomputing, or `never` if it does not fit or does not beat the best so far. Returns false, and
/// leaves the layout unchanged, if no set fits.
template <class Cost>
bool choose_way(const Space& space, const Setting& setting, int pipeline_device, Layout& layout,
                const Cost& cost) {
  constexpr unsigned most_ways = 256;
  constexpr std::size_t most_bits = 30;
  const std::vector<int> stages = stages_of(setting, layout, pipeline_device);
  const unsigned ways = std::min(1u << std::min(stages.size(), most_bits), most_ways);
  const unsigned first = space.allows(Recompute::none) ? 0 : ways - 1;
  const unsigned end = space.allows(Recompute::full) ? ways : 1;
  std::vector<Recompute> best = layout.recompute;
  Time least = never;
  for (unsigned way = first; way < end && least > 0; ++way) {
    std::vector<int> again;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const bool full = ((way >> std::min(i, most_bits)) & 1u) != 0;
      layout.recompute[index(stages[i])] = full ? Recompute::full : Recompute::none;
      if (full) again.push_back(stages[i]);
    }
    const Time own = cost(again, least);
    if (own >= least) continue;
    least = own;
    best = layout.recompute;
  }
  layout.recompute = std::move(best);
  return least < never;
}

}  // namespace

std::vector<int> stages_of(const Setting& setting, const Layout& layout, int pipeline_device) {
  std::vector<int> stages;
  for (int s = 0; s < layout.stages(); ++s) {
    if (setting.device_of(s, layout.pipeline_devices()) == pipeline_device) stages.push_back(s);
  }
  return stages;
}

bool recompute_to_fit(FastClock& clock, const Space& space, const Setting& setting,
                      int pipeline_device, Layout& layout) {
  const auto time_again = [&](const std::vector<int>& stages, Time least) {
    Time time = 0;
    for (const int s : stages) {
      const LayerRange layers{layout.cuts[index(s)], layout.cuts[index(s) + 1]};
      time += space.whole_microbatch(setting, 0).forward(layers).count();
    }
    return time < least && clock.may_fit(layout, pipeline_device) ? time : never;
  };
  return choose_way(space, setting, pipeline_device, layout, time_again);
}

std::optional<Layout> recomputed_to_fit(FastClock& clock, const Space& space,
                                        const Setting& setting, Layout layout) {
  if (!space.allows(Recompute::full)) return {};
  for (int device = 0; device < layout.pipeline_devices(); ++device) {
    if (!recompute_to_fit(clock, space, setting, device, layout)) return {};
  }
  return layout;
}

bool recompute_for_step(FastClock& clock, const Space& space, const Setting& setting,
                        int pipeline_device, Layout& layout, Effort& effort) {
  constexpr std::int64_t steps_per_look = 100;
  const auto step = [&](const std::vector<int>& /*stages*/, Time /*least*/) {
    effort.spend(steps_per_look);
    if (!clock.may_fit(layout, pipeline_device)) return never;
    effort.spend(std::int64_t{4} * layout.stages() * setting.microbatches);
    return clock.step(layout);
  };
  return choose_way(space, setting, pipeline_device, layout, step);
}

std::optional<Layout> repaired(FastClock& clock, const Space& space, const Setting& setting,
                               Layout layout, Effort& effort) {
  for (int device = 0; device < layout.pipeline_devices(); ++device) {
    if (clock.may_fit(layout, device)) continue;
    if (!recompute_for_step(clock, space, setting, device, layout, effort)) return {};
  }
  return layout;
}

}  // namespace stagecraft
