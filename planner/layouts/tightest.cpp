#include "planner/layouts/tightest.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t steps_per_look = 60;  // effort to evaluate one device
/// With more layers, there are too many partial layouts to enumerate.
constexpr int most_layers = 256;
/// With more assignments of replicas, only equal numbers are tried. With one stage per device each
/// takes almost no time, so more are allowed.
constexpr std::size_t most_ways = 300, most_looped_ways = 16;
/// If a device has more stages, either all of them recompute, or none.
constexpr std::size_t most_chosen = 6;

constexpr Bytes nothing = std::numeric_limits<Bytes>::min(), all = -(nothing + 1);

/// Enumerates the numbers of replicas per pipeline device, most pipeline devices first, since these
/// hold the least each.
class Ways {
 public:
  Ways(const Space& space, const Setting& setting) : space_(space), setting_(setting) {
    for (int depth = space.most_pipeline_devices(setting); depth > 0; --depth) add(depth);
  }
  std::vector<std::vector<int>> take() { return std::move(ways_); }

 private:
  void add(int depth) {
    if (setting_.depth && *setting_.depth != depth) return;
    const int most = space_.most_replicas(setting_);
    const std::size_t before = ways_.size();
    if (most > 1) choose(depth, 0);
    if (most > 1 && !is_full()) return;
    ways_.resize(before);
    ways_.emplace_back(index(depth), 1);
    std::vector<int> even = even_replicas(depth, space_.devices(setting_), most);
    if (even != ways_.back()) ways_.push_back(std::move(even));
  }

  bool is_full() const {
    return ways_.size() > (setting_.schedule.virtual_stages > 1 ? most_looped_ways : most_ways);
  }

  void choose(int left, int used) {
    if (is_full()) return;
    if (left == 0) {
      ways_.push_back(way_);
      return;
    }
    const int most =
        std::min(space_.most_replicas(setting_), space_.devices(setting_) - used - (left - 1));
    for (int replicas = 1; replicas <= most; ++replicas) {
      way_.push_back(replicas);
      choose(left - 1, used + replicas);
      way_.pop_back();
    }
  }

  const Space& space_;
  const Setting& setting_;
  std::vector<int> way_;
  std::vector<std::vector<int>> ways_;
};

/// Lower bounds on the bytes that layers need on whichever devices hold them: parameters,
/// gradients, optimizer states, and saved activations of one microbatch. With several kinds of
/// devices there are none.
class Least {
 public:
  Least(const Space& space, const Setting& setting, const std::vector<int>& replicas)
      : space_(space), setting_(setting) {
    if (space.one_of_each_kind(setting).size() > 1) return;
    const int most = *std::ranges::max_element(replicas);
    table_ = &space.table(setting, 0, share_of_rows(setting, 0, most));
    holders_ = space.holders(setting, most);
  }

  bool is_known() const { return table_ != nullptr; }
  Bytes kept(LayerRange layers) const {
    const OptimizerChoice& optimizer = space_.problem().optimizer;
    const ChunkMemory memory =
        memory_share(table_->memory(layers, optimizer.kind), optimizer.sharding, holders_);
    return memory.parameters + (setting_.trains ? memory.gradients + memory.optimizer : 0);
  }
  /// Bytes that one microbatch saves in the layer until its backward: whether a stage recomputes or
  /// not, the activations of the whole stage exist then. Layers that recompute one by one exist one
  /// at a time.
  Bytes saved(int layer) const {
    const LayerRange one{layer, layer + 1};
    const bool shows =
        setting_.trains && !space_.layers_choose() && table_->backward_input(one) > Duration{0};
    return shows ? table_->memory(one, space_.problem().optimizer.kind).saved : 0;
  }
  Bytes of_all() const {
    Bytes saved = 0;
    if (setting_.schedule.sequence_chunks == 1) {
      for (int layer = 0; layer < space_.layers(); ++layer) saved += this->saved(layer);
    }
    return kept({0, space_.layers()}) + saved / std::max(setting_.schedule.virtual_stages, 1);
  }
  /// For each layer: the least bytes of that layer and all behind it.
  std::vector<Bytes> from_each() const {
    std::vector<Bytes> held(index(space_.layers()) + 1, 0);
    if (!is_known()) return held;
    Bytes saved = 0;
    for (int layer = space_.layers() - 1; layer >= 0; --layer) {
      if (setting_.schedule.virtual_stages == 1) saved += this->saved(layer);
      held[index(layer)] = saved + kept({layer, space_.layers()});
    }
    return held;
  }

 private:
  const Space& space_;
  const Setting& setting_;
  const CostTable* table_ = nullptr;
  Holders holders_;
};

class Tightening {
 public:
  Tightening(FastClock& clock, const Space& space, const Setting& setting, Bytes below,
             Effort& effort, const MeasureOver& measure)
      : clock_(clock),
        space_(space),
        setting_(setting),
        effort_(effort),
        measure_(measure),
        best_(below) {}

  std::optional<Tightest> run(const std::vector<int>& replicas) {
    if (!is_possible(replicas)) return {};
    layout_ = balanced(space_, setting_, replicas);
    overs_.assign(replicas.size(), nothing);
    left_ = Least(space_, setting_, replicas).from_each();
    // The schedule's order is made last: that may take longer than all the rest.
    if (!has_room(0) || clock_.order_for(replicas) == nullptr) return {};
    if (is_allowed(space_, setting_, layout_)) hand_on();
    if (setting_.schedule.virtual_stages == 1 && !is_done()) bisect();
    if (space_.layers() <= most_layers) choose_all();
    if (!found_) return {};
    return Tightest{*std::move(found_), best_};
  }

 private:
  bool is_possible(const std::vector<int>& replicas) {
    const int devices = static_cast<int>(replicas.size());
    const int used = std::accumulate(replicas.begin(), replicas.end(), 0);
    const int stages = devices * std::max(setting_.schedule.virtual_stages, 1);
    return space_.may_end_at(setting_, used) && space_.allows_stages(stages) &&
           space_.layers() >= stages && space_.wants(setting_, replicas);
  }

  int devices() const { return layout_.pipeline_devices(); }
  int device_of(int stage) const { return setting_.device_of(stage, devices()); }
  int first_device(int device) const {
    return std::accumulate(layout_.replicas.begin(), layout_.replicas.begin() + device, 0);
  }

  /// Whether the search may end: the effort is spent, or the best layout needs no memory at all.
  bool is_done() const { return effort_.is_spent() || best_ == nothing; }

  void take_if_better(Bytes over) {
    if (over < best_ && measure_) over = measure_(layout_);
    if (over >= best_) return;
    best_ = over;
    found_ = layout_;
  }

  // --- Remaining layers ---

  /// Whether the layers from this one on may fit with less excess than the best layout so far.
  bool has_room(int layer) const {
    if (best_ == all) return true;
    double room = 0;
    for (int device = 0; device < devices(); ++device) {
      const DeviceKind& kind = space_.kind(setting_, first_device(device));
      if (kind.memory_unlimited || !setting_.trains) return true;
      const Bytes over = overs_[index(device)];
      room += static_cast<double>(best_) - 1 -
              static_cast<double>(over == nothing ? -usable_memory(kind) : over);
    }
    return static_cast<double>(left_[index(layer)]) <= room;
  }

  // --- Enumeration, stage by stage ---

  void choose_all() {
    const auto stages = static_cast<std::size_t>(layout_.stages());
    layout_.cuts.assign(stages + 1, 0);
    layout_.recompute.assign(stages, Recompute::none);
    overs_.assign(overs_.size(), nothing);
    least_.assign(stages * index(space_.layers() + 1), all);
    choose_end(0, nothing);
  }

  /// The layers at which the stage may end, ascending.
  std::vector<int> ends_of(int stage) const {
    const int stages = layout_.stages(), first = layout_.cuts[index(stage)];
    int last = space_.last_end(stages - stage - 1), least = space_.first_end(first);
    if (stage + 1 == stages) return {last};
    if (const auto fixed = space_.fixed_layers(stage)) {
      least = std::max(least, fixed->end);
      last = std::min(last, fixed->end);
    }
    if (const auto [next, begins] = next_fixed(stage); next < stages) {
      const int between = next - stage - 1;
      last = std::min(last, begins - (space_.has_empty_stages() ? 0 : between));
      if (between == 0) least = std::max(least, begins);
    }
    std::vector<int> ends(index(std::max(last - least + 1, 0)));
    std::iota(ends.begin(), ends.end(), least);
    return ends;
  }

  /// The next stage behind this one whose layers are fixed, and its first layer; the end of the
  /// pipeline if there is none.
  std::pair<int, int> next_fixed(int stage) const {
    for (int next = stage + 1; next < layout_.stages(); ++next) {
      if (const auto fixed = space_.fixed_layers(next)) return {next, fixed->first};
    }
    return {layout_.stages(), space_.layers()};
  }

  void choose_end(int stage, Bytes over) {
    if (stage == layout_.stages()) return take_if_better(over);
    const int first = layout_.cuts[index(stage)];
    Bytes& own = overs_[index(device_of(stage))];
    const Bytes before = own;
    for (const int end : ends_of(stage)) {
      if (is_done()) break;
      if (end < first || !space_.allows(stage, {first, end})) continue;
      std::fill(layout_.cuts.begin() + stage + 1, layout_.cuts.end(), end);
      own = settle(device_of(stage));
      if (own >= best_ && is_beyond(device_of(stage), end, own)) break;
      const Bytes fullest = std::max(over, own);
      if (fullest >= best_ || !has_room(end) || !is_least(stage, end, fullest)) continue;
      choose_end(stage + 1, fullest);
    }
    own = before;
    std::fill(layout_.cuts.begin() + stage + 1, layout_.cuts.end(), first);
  }

  /// Whether longer stages need not be tried, since only their messages could be smaller.
  bool is_beyond(int device, int end, Bytes over) const {
    const Bytes output = space_.whole_microbatch(setting_, first_device(device)).crossing(end);
    return over == all || over - output >= best_;
  }

  /// Whether no other partial layout has reached this state with emptier devices. With one stage
  /// per device, the rest depends on nothing else.
  bool is_least(int stage, int end, Bytes over) {
    if (setting_.schedule.virtual_stages > 1) return true;
    Bytes& least = least_[index(stage) * index(space_.layers() + 1) + index(end)];
    if (over >= least) return false;
    least = over;
    return true;
  }

  /// Chooses the recomputation of least memory for the device's stages. Returns the excess over its
  /// memory.
  Bytes settle(int device) {
    const bool may_keep = space_.allows(Recompute::none),
               may_again = space_.allows(Recompute::full);
    std::vector<int> stages;  // the stages with layers
    for (int s = 0; s < layout_.stages(); ++s) {
      if (device_of(s) != device) continue;
      layout_.recompute[index(s)] = may_keep ? Recompute::none : Recompute::full;
      if (layout_.cuts[index(s)] < layout_.cuts[index(s) + 1]) stages.push_back(s);
    }
    const bool is_free = stages.size() <= most_chosen;
    const unsigned ways = is_free ? 1u << stages.size() : 2;
    const auto choose = [&](unsigned way) {
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const bool is_full = ((is_free ? way >> i : way) & 1u) != 0;
        layout_.recompute[index(stages[i])] = is_full ? Recompute::full : Recompute::none;
      }
    };
    Bytes least = all;
    unsigned best = may_keep ? 0 : ways - 1;
    for (unsigned way = best; way < (may_again ? ways : 1); ++way) {
      choose(way);
      effort_.spend(steps_per_look + layout_.stages());
      const Bytes over = clock_.bytes_over(layout_, device);
      if (over >= least) continue;
      least = over;
      best = way;
    }
    choose(best);
    return least;
  }

  // --- Stages of maximum length ---

  void bisect() {
    constexpr Bytes very_much = Bytes{1} << 50;
    Bytes low = 0, high = std::min(best_, very_much);
    for (const DeviceKind& kind : space_.cluster().kinds)
      low = std::min(low, kind.memory_unlimited ? -very_much : -usable_memory(kind));
    if (!fill(high - 1)) return;
    std::optional<Layout> found;
    while (high - low > 1 && !effort_.is_spent()) {
      const Bytes middle = low + (high - low) / 2;
      if (fill(middle)) {
        high = middle;
        found = layout_;
      } else {
        low = middle;
      }
    }
    if (!found) return;
    layout_ = *found;
    hand_on();
  }

  /// Whether stages of maximum length with at most this excess reach the last layer.
  bool fill(Bytes most) {
    std::ranges::fill(layout_.cuts, 0);
    for (int stage = 0; stage < layout_.stages(); ++stage) {
      const std::vector<int> ends = ends_of(stage);
      const auto is_short = [&](int end) {
        std::fill(layout_.cuts.begin() + stage + 1, layout_.cuts.end(), end);
        return settle(device_of(stage)) <= most;
      };
      const auto next = std::partition_point(ends.begin(), ends.end(), is_short);
      if (next == ends.begin() || effort_.is_spent()) return false;
      if (!is_short(*std::prev(next))) return false;
      if (!space_.allows(stage, {layout_.cuts[index(stage)], *std::prev(next)})) return false;
    }
    return true;
  }

  // --- Local search, layer by layer ---

  /// Moves layers from the fullest device to others, many at once first.
  void hand_on() {
    std::vector<Bytes> overs(index(devices()));
    for (int device = 0; device < devices(); ++device) overs[index(device)] = settle(device);
    for (int count = std::max(space_.layers() / layout_.stages() / 8, 1); count > 0; count /= 2) {
      while (!effort_.is_spent() && relieve(overs, count)) {
      }
    }
    take_if_better(*std::ranges::max_element(overs));
  }

  /// Moves `count` layers from a stage of the fullest device. Returns whether that helped.
  bool relieve(std::vector<Bytes>& overs, int count) {
    const auto fullest = static_cast<int>(std::ranges::max_element(overs) - overs.begin());
    for (int from = 0; from < layout_.stages(); ++from) {
      if (device_of(from) != fullest) continue;
      for (int to = 0; to < layout_.stages(); ++to) {
        if (device_of(to) != fullest && move(from, to, count, overs)) return true;
      }
    }
    return false;
  }

  bool move(int from, int to, int count, std::vector<Bytes>& overs) {
    const Layout before = layout_;
    const int first = std::min(from, to), last = std::max(from, to);
    for (int cut = first + 1; cut <= last; ++cut)
      layout_.cuts[index(cut)] += from < to ? -count : count;
    if (is_allowed_between(first, last)) {
      std::vector<Bytes> now = overs;
      for (int stage = first; stage <= last; ++stage) {
        const int device = device_of(stage);
        now[index(device)] = settle(device);
      }
      if (is_tighter(now, overs)) {
        overs = std::move(now);
        return true;
      }
    }
    layout_ = before;
    return false;
  }

  /// Compares by the fullest device, then by the number of devices that are as full.
  static bool is_tighter(const std::vector<Bytes>& a, const std::vector<Bytes>& b) {
    const Bytes of_a = *std::ranges::max_element(a), of_b = *std::ranges::max_element(b);
    if (of_a != of_b) return of_a < of_b;
    return std::ranges::count(a, of_a) < std::ranges::count(b, of_b);
  }

  bool is_allowed_between(int first, int last) const {
    for (int stage = first; stage <= last; ++stage) {
      const LayerRange layers{layout_.cuts[index(stage)], layout_.cuts[index(stage) + 1]};
      if (layers.size() < 1 || !space_.allows(stage, layers)) return false;
    }
    return true;
  }

  FastClock& clock_;
  const Space& space_;
  const Setting& setting_;
  Effort& effort_;
  const MeasureOver& measure_;
  Bytes best_ = 0;  ///< excess of the best layout so far
  std::optional<Layout> found_;
  Layout layout_;
  std::vector<Bytes> overs_;  ///< excess per device, for the stages chosen so far; `nothing` if
                              ///< there is none
  std::vector<Bytes> left_;   ///< see `Least::from_each`
  std::vector<Bytes> least_;  ///< [stage, end]: least excess of the partial layouts that reached it
};

}  // namespace

std::vector<std::vector<int>> ways_to_replicate(const Space& space, const Setting& setting) {
  return Ways(space, setting).take();
}

Bytes least_over(const Space& space, const Setting& setting, const std::vector<int>& replicas) {
  if (!setting.trains) return nothing;
  Bytes room = 0;
  int first = 0;
  for (const int count : replicas) {
    const DeviceKind& kind = space.kind(setting, first);
    if (kind.memory_unlimited) return nothing;
    room += usable_memory(kind);
    first += count;
  }
  const Least least(space, setting, replicas);
  const Bytes lacking = (least.is_known() ? least.of_all() : 0) - room;
  const auto devices = static_cast<Bytes>(replicas.size());
  return lacking / devices - (lacking % devices < 0 ? 1 : 0);
}

std::optional<Tightest> tightest(FastClock& clock, const Space& space, const Setting& setting,
                                 const std::vector<int>& replicas, Bytes below, Effort& effort,
                                 const MeasureOver& measure) {
  return Tightening(clock, space, setting, below, effort, measure).run(replicas);
}

}  // namespace stagecraft
