#include "planner/walk.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// A walk over chains of p stages.
class ChainWalk {
 public:
  ChainWalk(const Space& space, const Setting& setting, const ChainBounds& bounds, FastClock& clock,
            Judge& judge, Time limit)
      : space_(space),
        setting_(setting),
        bounds_(bounds),
        clock_(clock),
        judge_(judge),
        limit_(limit) {}

  bool walk(int stages) {
    stages_ = stages;
    layout_ = {};
    layout_.cuts = {0};
    for (int replicas = 1; replicas <= most_replicas(0); ++replicas) {
      choose_end(bounds_.start(), 0, replicas);
    }
    return complete_;
  }

 private:
  int most_replicas(int device) const {
    return std::min(bounds_.most_replicas(), space_.devices(setting_) - device);
  }
  Time limit() const { return std::min(limit_, judge_.limit()); }
  bool gives_up() {
    if (judge_.effort().is_spent() || judge_.stopped()) complete_ = false;
    return !complete_;
  }

  void choose_end(const Head& head, int device, int replicas) {
    const int stage = static_cast<int>(layout_.replicas.size());
    const int left = stages_ - stage;
    const int first = layout_.cuts.back();
    layout_.replicas.push_back(replicas);
    for (int end = left == 1 ? space_.layers() : first + 1; end <= space_.layers(); ++end) {
      if (gives_up()) break;
      judge_.effort().spend(20);
      const LayerRange layers{first, end};
      if (bounds_.is_too_long(head, layers, device, replicas, limit())) break;
      if (!space_.allows(stage, layers)) continue;
      const Beyond beyond = bounds_.beyond(left - 1, end, device + replicas, replicas);
      if (beyond.round_trip >= never) continue;
      const auto choice = bounds_.choose(layers, device, replicas, left);
      if (!choice) continue;
      if (bounds_.bound(head, *choice, layers, device, replicas, left, beyond) > limit()) {
        judge_.count_pruned();
        continue;
      }
      descend(head, *choice, device, end);
    }
    layout_.replicas.pop_back();
  }

  void descend(const Head& head, const StageChoice& choice, int device, int end) {
    const int replicas = layout_.replicas.back();
    layout_.cuts.push_back(end);
    layout_.recompute.push_back(choice.recompute);
    if (layout_.stages() == stages_) {
      if (space_.wants(setting_, layout_.replicas)) {
        complete_ = judge_.consider(clock_, setting_, layout_, limit_) && complete_;
      }
    } else {
      const int next_device = device + replicas;
      for (int next = 1; next <= most_replicas(next_device); ++next) {
        choose_end(bounds_.after(head, choice, device, replicas, next, end), next_device, next);
      }
    }
    layout_.recompute.pop_back();
    layout_.cuts.pop_back();
  }

  const Space& space_;
  const Setting& setting_;
  const ChainBounds& bounds_;
  FastClock& clock_;
  Judge& judge_;
  Time limit_;
  int stages_ = 0;
  Layout layout_;
  bool complete_ = true;
};

}  // namespace

WalkEnd walk_chain(const Space& space, const Setting& setting, const ChainBounds& bounds,
                   FastClock& clock, Judge& judge, Time limit) {
  ChainWalk walk(space, setting, bounds, clock, judge, limit);
  for (int stages = 1; stages <= bounds.most_stages(); ++stages) {
    if (bounds.is_open(stages) && !walk.walk(stages)) return WalkEnd::gave_up;
  }
  return WalkEnd::complete;
}

// --- Several stages per device
// --------------------------------------------------------------------

struct LoopedWalk::Path {
  FastClock& clock;
  Judge& judge;
  Time limit;
  Layout layout;
  std::vector<std::vector<Time>> load;  ///< per pipeline device and replica, of its stages so far
  std::vector<Time>
      around;  ///< per pipeline device: fill before its first work and drain after its last
  bool complete = true;
};

int LoopedWalk::own_microbatches(int replicas, int replica) const {
  const bool split = setting_.replicas == ReplicaPolicy::split;
  return split ? setting_.microbatches
               : (setting_.microbatches - replica + replicas - 1) / replicas;
}

/// Forward and backward of one microbatch, on every replica.
std::vector<Time> LoopedWalk::passes(const LayerRange& layers, int device, int replicas) const {
  std::vector<Time> times;
  for (int replica = 0; replica < replicas; ++replica) {
    const CostTable& table =
        space_.table(setting_, device + replica, share_of_rows(setting_, replica, replicas));
    const Duration back = setting_.trains ? table.backward(layers) : Duration{0};
    times.push_back((table.forward(layers) + back).count());
  }
  return times;
}

/// All its microbatches on every replica.
std::vector<Time> LoopedWalk::loads(const LayerRange& layers, int device, int replicas) const {
  std::vector<Time> times = passes(layers, device, replicas);
  for (int replica = 0; replica < replicas; ++replica) {
    times[index(replica)] *= own_microbatches(replicas, replica);
  }
  return times;
}

/// One microbatch passing by, before later devices have anything to do and after they have nothing
/// left. Split backwards leave weight gradients for that time, so only the way there counts.
Time LoopedWalk::passing(const LayerRange& layers, int device, int replicas) const {
  if (!setting_.drains) return 0;  // a steady state neither fills nor drains
  if (!setting_.splits_backward) {
    const std::vector<Time> times = passes(layers, device, replicas);
    return *std::min_element(times.begin(), times.end());
  }
  Time least = never;
  for (int replica = 0; replica < replicas; ++replica) {
    const CostTable& table =
        space_.table(setting_, device + replica, share_of_rows(setting_, replica, replicas));
    least = std::min<Time>(least, table.forward(layers).count());
  }
  return least;
}

LoopedWalk::LoopedWalk(const Space& space, const Setting& setting)
    : space_(space), setting_(setting), work_before_{0} {
  // Replicas work in parallel, so r of them spend at least r times their least share.
  std::vector<Time> works;
  for (int layer = 0; layer < space.layers(); ++layer) {
    Time work = never;
    for (int replicas = 1; replicas <= space.most_replicas(setting); ++replicas) {
      for (int device = 0; device + replicas <= space.devices(setting); ++device) {
        const bool split = setting.replicas == ReplicaPolicy::split;
        const std::vector<Time> times = passes({layer, layer + 1}, device, split ? replicas : 1);
        const Time least = *std::min_element(times.begin(), times.end());
        work = std::min(work, (split ? replicas : 1) * least * setting.microbatches);
      }
    }
    works.push_back(work);
    work_before_.push_back(work_before_.back() + work);
  }
  least_ = work_before_.back() / space.devices(setting);
  find_heavy(works);
}

/// Of n layers that take at least w each, some device gets ceil(n / devices), unless replicas share
/// them. A few sizes w are enough.
void LoopedWalk::find_heavy(const std::vector<Time>& works) {
  constexpr std::size_t most_sizes = 6;
  std::vector<Time> sizes = works;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const std::size_t stride = (sizes.size() + most_sizes - 1) / most_sizes;
  for (std::size_t i = 0; i < sizes.size(); i += stride) {
    if (sizes[i] <= 0) continue;
    Heavy heavy{.work = sizes[i], .from = std::vector<int>(works.size() + 1)};
    for (std::size_t layer = works.size(); layer-- > 0;) {
      heavy.from[layer] = heavy.from[layer + 1] + (works[layer] >= heavy.work ? 1 : 0);
    }
    const int devices = space_.devices(setting_);
    const Time busiest = (heavy.from[0] + devices - 1) / devices * heavy.work;
    if (space_.most_replicas(setting_) == 1) least_ = std::max(least_, busiest);
    heavy_.push_back(std::move(heavy));
  }
}

WalkEnd LoopedWalk::walk(FastClock& clock, Judge& judge, Time limit) const {
  Path path{clock, judge, limit, {}, {}, {}, true};
  for (int p = 1; p <= space_.most_pipeline_devices(setting_); ++p) choose_replicas(path, p, 0);
  return path.complete ? WalkEnd::complete : WalkEnd::gave_up;
}

void LoopedWalk::choose_replicas(Path& path, int pipeline_devices, int used) const {
  Layout& layout = path.layout;
  if (layout.pipeline_devices() == pipeline_devices) {
    const int stages = pipeline_devices * setting_.schedule.virtual_stages;
    if (!space_.may_end_at(setting_, used) || !space_.allows_stages(stages)) return;
    if (!space_.wants(setting_, layout.replicas) || !path.clock.order_for(layout.replicas)) return;
    layout.cuts = {0};
    layout.recompute.clear();
    path.load.clear();
    for (const int count : layout.replicas) path.load.emplace_back(index(count), 0);
    path.around.assign(index(pipeline_devices), 0);
    return choose_cuts(path);
  }
  for (int count = 1; count <= space_.most_replicas(setting_); ++count) {
    if (used + count > space_.devices(setting_)) break;
    layout.replicas.push_back(count);
    choose_replicas(path, pipeline_devices, used + count);
    layout.replicas.pop_back();
  }
}

/// Device time that is left within the limit on each pipeline device; nothing if one is beyond it.
std::optional<std::vector<Time>> LoopedWalk::rooms(const Path& path) const {
  const Time limit = std::min({path.limit, path.judge.limit(), never / 1024});
  std::vector<Time> rooms;
  Time around = 0;
  for (int d = 0; d < path.layout.pipeline_devices(); ++d) {
    around = std::max(around, path.around[index(d)]);
    Time room = 0;
    for (const Time load : path.load[index(d)]) {
      const Time left = limit - around - load;
      if (left < 0) return {};
      room += left;
    }
    rooms.push_back(room);
  }
  return rooms;
}

/// The stage just added is within the limit, and the layers that are left find room.
bool LoopedWalk::is_within(const Path& path, int end) const {
  const auto rooms = this->rooms(path);
  if (!rooms) return false;
  const Time room = std::accumulate(rooms->begin(), rooms->end(), Time{0});
  if (work_before_.back() - work_before_[index(end)] > room) return false;
  return std::all_of(heavy_.begin(), heavy_.end(), [&](const Heavy& heavy) {
    Time places = 0;
    for (const Time left : *rooms) places += left / heavy.work;
    return places >= heavy.from[index(end)];
  });
}

void LoopedWalk::choose_cuts(Path& path) const {
  Layout& layout = path.layout;
  const int p = layout.pipeline_devices();
  const int stages = p * setting_.schedule.virtual_stages;
  const int stage = layout.stages();
  const int first = layout.cuts.back();
  if (stage == stages) {
    layout.recompute.assign(index(stages), Recompute::none);
    path.complete = path.judge.consider(path.clock, setting_, layout, path.limit) && path.complete;
    layout.recompute.clear();
    return;
  }
  const int d = setting_.device_of(stage, p);
  const int replicas = layout.replicas[index(d)];
  const int device = std::accumulate(layout.replicas.begin(), layout.replicas.begin() + d, 0);
  const std::vector<Time> load_before = path.load[index(d)];
  const int last = space_.layers() - (stages - stage - 1);
  for (int end = stage + 1 == stages ? space_.layers() : first + 1; end <= last; ++end) {
    if (path.judge.effort().is_spent() || path.judge.stopped()) path.complete = false;
    if (!path.complete) break;
    path.judge.effort().spend(60);
    const LayerRange layers{first, end};
    if (!space_.allows(stage, layers)) continue;
    path.load[index(d)] = loads(layers, device, replicas);
    for (int replica = 0; replica < replicas; ++replica) {
      path.load[index(d)][index(replica)] += load_before[index(replica)];
    }
    if (stage + 1 < p) {
      path.around[index(stage + 1)] = path.around[index(stage)] + passing(layers, device, replicas);
    }
    if (!is_within(path, end)) {
      path.judge.count_pruned();
      continue;
    }
    layout.cuts.push_back(end);
    choose_cuts(path);
    layout.cuts.pop_back();
  }
  path.load[index(d)] = load_before;
  if (stage + 1 < p) path.around[index(stage + 1)] = 0;
}

// --- Good layouts to start from
// -------------------------------------------------------------------

std::vector<int> even_cuts(int layers, int parts) {
  std::vector<int> cuts{0};
  for (int part = 0; part < parts; ++part) {
    cuts.push_back(cuts.back() + layers / parts + (part < layers % parts ? 1 : 0));
  }
  return cuts;
}

Layout balanced(const Space& space, const Setting& setting, const std::vector<int>& replicas) {
  const CostTable& table = space.whole_microbatch(setting, 0);
  const auto time_before = [&](int layer) {
    return (table.forward({0, layer}) + table.backward({0, layer})).count();
  };
  const int stages = static_cast<int>(replicas.size()) * setting.schedule.virtual_stages;
  const int devices = std::accumulate(replicas.begin(), replicas.end(), 0);
  Layout layout{.replicas = replicas, .cuts = {0}, .recompute = {}};
  layout.recompute.assign(index(stages), Recompute::none);
  double share = 0;
  for (int stage = 0; stage + 1 < stages; ++stage) {
    share += static_cast<double>(replicas[index(stage) % replicas.size()]) /
             (static_cast<double>(devices) * setting.schedule.virtual_stages);
    const auto goal = share * static_cast<double>(time_before(space.layers()));
    int cut = layout.cuts.back() + 1;
    const int last = space.layers() - (stages - stage - 1);
    const auto distance = [&](int at) {
      return std::abs(static_cast<double>(time_before(at)) - goal);
    };
    while (cut < last && distance(cut + 1) <= distance(cut)) ++cut;
    layout.cuts.push_back(cut);
  }
  layout.cuts.push_back(space.layers());
  return layout;
}

bool may_fit(FastClock& clock, const Layout& layout) {
  for (int device = 0; device < layout.pipeline_devices(); ++device) {
    if (!clock.may_fit(layout, device)) return false;
  }
  return true;
}

std::optional<Layout> made_to_fit(FastClock& clock, const Setting& setting, Layout layout) {
  for (int device = 0; device < layout.pipeline_devices();) {
    if (clock.may_fit(layout, device)) {
      ++device;
      continue;
    }
    // Its largest stage hands a layer on to the next one.
    int largest = -1, layers = 1;
    for (int stage = 0; stage + 1 < layout.stages(); ++stage) {
      const int size = layout.cuts[index(stage) + 1] - layout.cuts[index(stage)];
      const bool here = setting.device_of(stage, layout.pipeline_devices()) == device;
      if (!here || size <= layers) continue;
      largest = stage;
      layers = size;
    }
    if (largest < 0) return {};
    --layout.cuts[index(largest) + 1];
    // Whoever takes the layer must fit, too, be it before or after this device.
    device = std::min(device, setting.device_of(largest + 1, layout.pipeline_devices()));
  }
  return layout;
}

Layout improve(FastClock& clock, const Space& space, const Setting& setting, Layout layout,
               Effort& effort) {
  Time best = clock.step(layout);
  const bool fits = may_fit(clock, layout);
  const std::int64_t steps = std::int64_t{4} * layout.stages() * setting.microbatches;
  const auto is_allowed = [&](std::size_t cut) {
    for (const std::size_t stage : {cut - 1, cut}) {
      if (!space.allows(static_cast<int>(stage), {layout.cuts[stage], layout.cuts[stage + 1]})) {
        return false;
      }
      const int device = setting.device_of(static_cast<int>(stage), layout.pipeline_devices());
      if (fits && !clock.may_fit(layout, device)) return false;
    }
    return true;
  };
  for (bool better = true; better && !effort.is_spent();) {
    better = false;
    for (std::size_t cut = 1; cut + 1 < layout.cuts.size(); ++cut) {
      for (const int move : {-1, 1}) {
        layout.cuts[cut] += move;
        const bool sensible = layout.cuts[cut - 1] < layout.cuts[cut] &&
                              layout.cuts[cut] < layout.cuts[cut + 1] && is_allowed(cut);
        effort.spend(steps);
        const Time step = sensible ? clock.step(layout) : never;
        if (step < best) {
          best = step;
          better = true;
        } else {
          layout.cuts[cut] -= move;
        }
      }
    }
  }
  return layout;
}

/// p stages with equally many replicas each; devices left over go to the first ones.
std::vector<int> even_replicas(int p, int devices, int most) {
  std::vector<int> replicas;
  for (int i = 0; i < p; ++i) {
    replicas.push_back(std::min(devices / p + (i < devices % p ? 1 : 0), most));
  }
  return replicas;
}

std::vector<Layout> usual_layouts(const Space& space, const Setting& setting, FastClock& clock) {
  std::vector<Layout> layouts;
  const int most = space.most_replicas(setting);
  for (int p = 1; p <= space.most_pipeline_devices(setting); ++p) {
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
