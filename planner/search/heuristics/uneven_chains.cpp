#include "planner/search/heuristics/uneven_chains.hpp"

#include <algorithm>
#include <climits>

#include "planner/relaxations/bisection.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

class UnevenChains {
 public:
  /// Chains on the first `devices` of the setting's devices.
  UnevenChains(const StageBounds& bounds, int layers, int devices, Effort& effort)
      : bounds_(bounds),
        effort_(effort),
        layers_(layers),
        devices_(devices),
        stages_(std::min({bounds.most_stages(), devices, most_uneven_stages})) {}

  /// Fills the table for this limit. Returns whether some number of stages is feasible.
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

  /// Tries the layers as a stage with the fewest replicas that suffice. Returns false if even all
  /// remaining devices are too few; then longer stages are infeasible, too.
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

  const StageBounds& bounds_;
  Effort& effort_;
  int layers_ = 0, devices_ = 0, stages_ = 0;
  std::vector<std::vector<Step>> table_;  ///< [stages][first layer]
  std::vector<Layout> found_;             ///< layouts found by all probes
};

}  // namespace

bool has_uneven_chains(const Space& space, const Setting& setting) {
  constexpr int most = 64;
  constexpr double most_pairs = 5e6;  // pairs of layers, times devices
  const double layers = space.layers(), devices = space.devices(setting);
  return !has_equal_stages(space.problem()) && has_chain_bounds(setting) &&
         space.most_replicas(setting) > 1 && devices <= most &&
         layers * layers * devices <= most_pairs;
}

std::vector<Layout> find_uneven_chains(const StageBounds& bounds, int layers, int devices,
                                       Time limit, Effort& effort) {
  constexpr Time parts = 32;
  UnevenChains chains(bounds, layers, devices, effort);
  const Time high = std::min(limit, never - 1);
  if (!chains.probe(high)) return chains.found();
  raise_by_bisection(
      0, high, [&](Time low, Time& top) { return top - low > top / parts && !effort.is_spent(); },
      [&](Time middle) { return chains.probe(middle); });
  return chains.found();
}

}  // namespace stagecraft
