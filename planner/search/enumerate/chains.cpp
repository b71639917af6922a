#include "planner/search/enumerate/chains.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/search/enumerate/chain_walk.hpp"
#include "planner/space/setting_kinds.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Enumerates chains of one degree; the judge times each chain that the bounds leave.
class JudgedWalk : public ChainWalk {
 public:
  JudgedWalk(const Space& space, const Setting& setting, const ChainBounds& bounds,
             FastClock& clock, Judge& judge, Time limit)
      : ChainWalk(space, bounds), setting_(setting), clock_(clock), judge_(judge), limit_(limit) {}

  bool is_complete() const { return complete_; }

 private:
  Time limit() const override { return std::min(limit_, judge_.limit()); }
  bool gives_up() override {
    if (judge_.effort().is_spent() || judge_.stopped()) complete_ = false;
    return !complete_;
  }
  void count_step() override { judge_.effort().spend(20); }
  void count_pruned() override { judge_.count_pruned(); }

  void visit() override {
    layout_.replicas.clear();
    layout_.cuts = {0};
    layout_.recompute.clear();
    for (const Place& place : path_) {
      layout_.replicas.push_back(kind_of(place).replicas);
      layout_.cuts.push_back(place.layers.end);
      layout_.recompute.push_back(place.choice.recompute);
    }
    if (space_.wants(setting_, layout_.replicas))
      complete_ = judge_.consider(clock_, setting_, layout_, limit_) && complete_;
  }

  const Setting& setting_;
  FastClock& clock_;
  Judge& judge_;
  Time limit_;
  Layout layout_;
  bool complete_ = true;
};

}  // namespace

WalkEnd walk_chain(const Space& space, const Setting& setting, const ChainBounds& bounds,
                   FastClock& clock, Judge& judge, Time limit) {
  JudgedWalk walk(space, setting, bounds, clock, judge, limit);
  for (int stages = 1; stages <= bounds.most_stages(); ++stages) {
    if (bounds.is_open(stages)) walk.walk(stages);
    if (!walk.is_complete()) return WalkEnd::gave_up;
  }
  // If the search was stopped, the tables of the bounds are incomplete.
  return judge.stopped() ? WalkEnd::gave_up : WalkEnd::complete;
}

// --- Several stages per device
// --------------------------------------------------------------------

struct LoopedWalk::Path {
  FastClock& clock;
  Judge& judge;
  Time limit;
  Layout layout;
  std::vector<std::vector<Time>> load;  ///< per pipeline device and replica: load of the stages so
                                        ///< far
  std::vector<Time>
      around;  ///< per pipeline device: fill before its first work and drain after its last
  bool complete = true;
};

int LoopedWalk::own_microbatches(int replicas, int replica) const {
  const bool split = setting_.replicas == ReplicaPolicy::split;
  return split ? setting_.microbatches
               : (setting_.microbatches - replica + replicas - 1) / replicas;
}

/// Time of forward and backward of one microbatch, on every replica.
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

/// Time of all of a replica's microbatches, for every replica.
std::vector<Time> LoopedWalk::loads(const LayerRange& layers, int device, int replicas) const {
  std::vector<Time> times = passes(layers, device, replicas);
  for (int replica = 0; replica < replicas; ++replica) {
    times[index(replica)] *= own_microbatches(replicas, replica);
  }
  return times;
}

/// Time that one microbatch spends on the stage before later devices can start and after they have
/// finished. With split backwards, weight gradients fill the second part, so only the forward
/// counts.
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
  // Replicas work in parallel, so r of them need at least r times the smallest share of device
  // time.
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

/// Pigeonhole bound: of n layers of at least w each, some device gets ceil(n / devices), unless
/// replicas share them. A few values of w are enough.
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
  const int most = space_.most_pipeline_devices(setting_);
  for (int p = setting_.depth.value_or(1); p <= most; ++p) choose_replicas(path, p, 0);
  return path.complete ? WalkEnd::complete : WalkEnd::gave_up;
}

void LoopedWalk::walk_shallow(FastClock& clock, Judge& judge, Time limit) const {
  Path path{clock, judge, limit, {}, {}, {}, true};
  for (int p = 1; p <= space_.most_pipeline_devices(setting_); ++p) {
    if (count_layouts(space_, setting_, p) > most_layouts_walked) return;
    choose_replicas(path, p, 0);
  }
}

bool LoopedWalk::gives_up(Path& path) {
  if (path.judge.effort().is_spent() || path.judge.stopped()) path.complete = false;
  return !path.complete;
}

void LoopedWalk::choose_replicas(Path& path, int pipeline_devices, int used) const {
  // On many devices, the assignments of replicas alone are too many to enumerate.
  if (gives_up(path)) return;
  path.judge.effort().spend(20);
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

/// Device time left within the limit on each pipeline device; nothing if a device exceeds the
/// limit.
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

/// Whether the stage just added is within the limit, and the remaining layers find room on the
/// devices.
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
  const int last = space_.last_end(stages - stage - 1);
  for (int end = stage + 1 == stages ? last : space_.first_end(first); end <= last; ++end) {
    if (gives_up(path)) break;
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

}  // namespace stagecraft
