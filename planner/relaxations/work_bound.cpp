#include "planner/relaxations/work_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "planner/space/device_orders.hpp"
#include "profiles/infinite.hpp"

namespace stagecraft {

namespace {

/// Whether stages are placed so that device d has stage d first.
bool starts_in_line(StagePlacement placement) {
  return placement != StagePlacement::bidirectional;
}

}  // namespace

/// Adds the layer's choices of recomputation, at the cost on the cheapest kind of device, with the
/// bytes that they free while a microbatch is in the layers behind. These are the layer as a whole,
/// or first a part of it if that is cheaper per byte, then the rest.
void ColumnBounds::add_again(Work& work, const std::vector<const CostTable*>& tables, int layer,
                             double saved, double behind) const {
  std::vector<std::pair<double, double>> ways;  // time, and bytes saved
  const auto add = [&](Recomputed what) {
    double again = infinite, less = 0;
    for (const CostTable* table : tables) {
      const LayerCost& cost = table->layer(layer);
      const LayerCost changed = recomputed(cost, what);
      again = std::min(again,
                       static_cast<double>((changed.backward_input - cost.backward_input).count()));
      less = std::max(less, static_cast<double>(cost.saved - changed.saved));
    }
    if (less > 0) ways.emplace_back(again, std::min(less, saved));
  };
  const bool may_be_whole = space_.allows(Recompute::full);
  for (const Recomputed what : space_.problem().recompute_layers) {
    if (what != Recomputed::full || !may_be_whole) add(what);
  }
  if (may_be_whole) add(Recomputed::full);
  std::ranges::sort(ways, {}, &std::pair<double, double>::second);
  // The lower convex hull of time over bytes saved, starting at (0, 0).
  std::vector<std::pair<double, double>> hull{{0, 0}};
  const auto is_above = [](const auto& from, const auto& middle, const auto& to) {
    return (middle.first - from.first) * (to.second - from.second) >=
           (to.first - from.first) * (middle.second - from.second);
  };
  for (const auto& way : ways) {
    while (hull.size() > 1 && is_above(hull[hull.size() - 2], hull.back(), way)) hull.pop_back();
    hull.push_back(way);
  }
  for (std::size_t i = 1; i < hull.size(); ++i) {
    work.kept.emplace_back(hull[i].first - hull[i - 1].first,
                           (hull[i].second - hull[i - 1].second) * behind);
  }
}

/// Adds the layers' saved bytes times the time they are held; the minimum over kinds of device.
void ColumnBounds::add_memory(Work& work, const std::vector<const CostTable*>& tables) const {
  double behind = 0;
  for (int layer = space_.layers() - 1; layer >= 0; --layer) {
    const LayerRange one{layer, layer + 1};
    double stay = std::numeric_limits<double>::infinity(), saved = stay;
    bool shows = true;
    for (const CostTable* table : tables) {
      const auto forward = static_cast<double>(table->forward(one).count());
      const auto back = static_cast<double>(table->backward_input(one).count());
      stay = std::min(stay, forward + back);
      shows = shows && back > 0;
      const ChunkMemory memory = table->memory(one, space_.problem().optimizer.kind);
      saved = std::min(saved, static_cast<double>(memory.saved));
    }
    behind += stay;
    add_again(work, tables, layer, saved, behind);
    work.all_kept += saved * behind;
    if (shows) work.saved_once += saved;
  }
  std::stable_sort(work.kept.begin(), work.kept.end(), [](const auto& a, const auto& b) {
    return a.first * b.second < b.first * a.second;
  });
}

const ColumnBounds::Work& ColumnBounds::work(const Setting& setting) {
  const auto key = std::tuple(setting.choice, setting.peers, setting.microbatch, setting.whole());
  const auto known = works_.find(key);
  if (known != works_.end()) return known->second;
  // The cost tables of all kinds of device; each layer takes its fastest.
  std::vector<const CostTable*> tables;
  for (int device = 0; device < space_.devices(setting); ++device) {
    const CostTable* table = &space_.whole_microbatch(setting, device);
    if (tables.empty() || tables.back() != table) tables.push_back(table);
  }
  std::sort(tables.begin(), tables.end());
  tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
  Work work;
  std::vector<Time> layers;
  for (int layer = 0; layer < space_.layers(); ++layer) {
    Time least = never;
    for (const CostTable* table : tables) {
      const Time forward = table->forward({layer, layer + 1}).count();
      const Time backward = table->backward({layer, layer + 1}).count();
      least = std::min(least, forward + backward);
      work.least_forward = std::min(work.least_forward, forward);
      work.least_backward = std::min(work.least_backward, backward);
      if (forward + backward > 0) {
        work.forward_share =
            std::min(work.forward_share,
                     static_cast<double>(forward) / static_cast<double>(forward + backward));
      }
    }
    layers.push_back(least);
    work.all += least;
  }
  add_memory(work, tables);
  std::sort(layers.begin(), layers.end(), std::greater<>());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i + 1 == layers.size() || layers[i + 1] < layers[i]) {
      work.heavy.emplace_back(layers[i], static_cast<int>(i) + 1);
    }
  }
  add_packing(work, layers);
  return works_.emplace(key, std::move(work)).first->second;
}

/// Splits the layers into the group of equal layers with the most time in all, and the others;
/// `layers` is sorted, longest first.
void ColumnBounds::add_packing(Work& work, const std::vector<Time>& layers) {
  constexpr std::size_t most_others = 8;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < layers.size(); i = begin) {
    while (begin < layers.size() && layers[begin] == layers[i]) ++begin;
    const auto count = static_cast<int>(begin - i);
    if (count * layers[i] <= work.blocks * work.block) continue;
    work.block = layers[i];
    work.blocks = count;
  }
  for (const Time layer : layers) {
    if (layer != work.block && work.others.size() < most_others) work.others.push_back(layer);
  }
}

/// The least C of the packing bound, per microbatch (see work_bound.hpp).
Time ColumnBounds::packing(const Work& work, int devices) {
  if (work.block == 0) return 0;
  const double block = static_cast<double>(work.block);
  for (int each = (work.blocks + devices - 1) / devices;; ++each) {
    const int spare = each * devices - work.blocks;
    // Tests for room for all other layers but the first i.
    Time longer = std::accumulate(work.others.begin(), work.others.end(), Time{0});
    for (std::size_t i = work.others.size() + 1; i-- > 0;) {
      if (i < work.others.size()) longer -= work.others[i];
      const Time room = i < work.others.size() ? work.others[i] : 0;
      double least = static_cast<double>(room);
      if (longer > 0) {
        if (spare == 0) continue;
        least = std::max(least, static_cast<double>(longer) / spare - block);
      }
      // If one more of the others would fit, the next round gives the tighter value.
      if (i > 0 && least >= static_cast<double>(work.others[i - 1])) continue;
      if (least < block) return each * work.block + static_cast<Time>(least);
    }
  }
}

/// Bytes of a column's devices that parameters, gradients and optimizer states leave; negative if
/// these do not fit, infinite without a limit.
double ColumnBounds::room(const Setting& setting) const {
  double room = 0;
  for (int device = 0; device < *setting.depth; ++device) {
    const DeviceKind& kind = space_.kind(setting, device);
    if (kind.memory_unlimited) return std::numeric_limits<double>::infinity();
    room += static_cast<double>(usable_memory(kind));
  }
  const OptimizerChoice& optimizer = space_.problem().optimizer;
  const CostTable& table = space_.whole_microbatch(setting, 0);
  const ChunkMemory memory = memory_share(table.memory({0, space_.layers()}, optimizer.kind),
                                          optimizer.sharding, space_.holders(setting, 1));
  return room - static_cast<double>(memory.parameters + memory.gradients + memory.optimizer);
}

/// The least step with enough memory for saved activations and enough time for recomputation.
double ColumnBounds::memory_bound(const Setting& setting, const Work& work) const {
  const double room = this->room(setting);
  // Recomputed or not, all of a stage is there when it goes back: a device has one at least of as
  // much as its stages on average.
  const bool is_whole = setting.schedule.sequence_chunks == 1 && !space_.layers_choose();
  const double once = is_whole ? work.saved_once / std::max(setting.schedule.virtual_stages, 1) : 0;
  if (room <= 0 || room < once) return static_cast<double>(never);
  const double microbatches = setting.microbatches, depth = *setting.depth;
  double busy = microbatches * static_cast<double>(work.all) / depth;
  double held = microbatches * work.all_kept / room;
  if (held <= busy) return busy;
  for (const auto& [again, kept] : work.kept) {
    const double more = microbatches * again / depth, less = microbatches * kept / room;
    if (busy + more >= held - less) {
      // The fraction of this layer at which memory and time balance.
      const double part = (held - busy) / (more + less);
      return busy + part * more;
    }
    busy += more;
    held -= less;
  }
  return std::max(busy, held);
}

/// The taper bound, for one stage per device in pipeline order.
double ColumnBounds::taper_bound(const Setting& setting, const Work& work) {
  const double fill = setting.splits_backward ? work.forward_share : 1;
  const double microbatches = setting.microbatches, all = static_cast<double>(work.all);
  if (fill <= 0) return microbatches * all / *setting.depth;
  return fill * all / (1 - std::pow(1 - fill / microbatches, *setting.depth));
}

Time ColumnBounds::bound(const Setting& setting) {
  const Work& work = this->work(setting);
  const Time depth = *setting.depth, microbatches = setting.microbatches;
  Time around = 0;
  if (starts_in_line(setting.placement)) {
    around = work.least_forward + (setting.splits_backward ? 0 : work.least_backward);
  }
  Time least = microbatches * work.all / depth + (depth - 1) * around / 2;
  for (const auto& [time, layers] : work.heavy) {
    least = std::max(least, microbatches * ((layers + depth - 1) / depth) * time);
  }
  least = std::max(least, microbatches * packing(work, static_cast<int>(depth)));
  // Factor that keeps rounding of the sums from raising the bound.
  constexpr double safe = 1 - 1e-9;
  double more = memory_bound(setting, work);
  if (setting.placement == StagePlacement::linear) {
    more = std::max(more, taper_bound(setting, work));
  }
  return std::max(least, static_cast<Time>(safe * more));
}

std::vector<Time> ColumnBounds::least_by_layer(const Setting& setting) const {
  const bool split = setting.replicas == ReplicaPolicy::split;
  const int replicas = split ? space_.most_replicas(setting) : 1;
  std::vector<Time> least(static_cast<std::size_t>(space_.layers()), never);
  const std::vector<int> kinds = space_.one_of_each_kind(setting);
  std::int64_t before = 0;
  for (int count = 1; count <= replicas; ++count) {
    const std::int64_t rows = (setting.microbatch + count - 1) / count;
    // More replicas with the same share only occupy more devices for the same time.
    if (rows == before) continue;
    before = rows;
    for (const int device : kinds) {
      const CostTable& table = space_.table(setting, device, rows);
      for (int layer = 0; layer < space_.layers(); ++layer) {
        const LayerRange one{layer, layer + 1};
        Time& time = least[static_cast<std::size_t>(layer)];
        const Duration back = setting.trains ? table.backward(one) : Duration{0};
        time = std::min(time, count * (table.forward(one) + back).count());
      }
    }
  }
  return least;
}

Time ColumnBounds::least_of_all(const Setting& setting) {
  const bool split = setting.replicas == ReplicaPolicy::split;
  const auto key = std::tuple(setting.choice, setting.peers, setting.microbatch, setting.whole(),
                              space_.most_replicas(setting), setting.columns,
                              space_.devices(setting), split, setting.trains);
  const auto [known, is_new] = sums_.try_emplace(key);
  if (is_new) {
    const std::vector<Time> least = least_by_layer(setting);
    known->second = std::accumulate(least.begin(), least.end(), Time{0});
  }
  return setting.microbatches * known->second / space_.devices(setting);
}

Time ColumnBounds::least_of_any_kind() {
  const auto layers = static_cast<std::size_t>(space_.layers());
  // By microbatch size: degree and times of the layers' forward and backward on single devices.
  std::map<std::int64_t, std::pair<int, std::vector<Time>>> least;
  std::set<std::tuple<std::int64_t, int, int, ReplicaPolicy>> known;
  for (const Setting& setting : space_.settings()) {
    if (!setting.drains) return 0;
    if (!known.emplace(setting.microbatch, setting.peers, setting.choice, setting.replicas).second)
      continue;
    auto& [microbatches, times] = least[setting.microbatch];
    microbatches = setting.microbatches;
    times.resize(layers, never);
    const std::vector<Time> own = least_by_layer(setting);
    for (std::size_t l = 0; l < layers; ++l) times[l] = std::min(times[l], setting.peers * own[l]);
  }
  const auto devices = std::ssize(devices_in_use(space_.problem()));
  Time bound = never;
  for (const auto& [microbatch, of] : least) {
    const auto& [microbatches, times] = of;
    const Time work = std::accumulate(times.begin(), times.end(), Time{0});
    bound = std::min(bound, microbatches * work / devices);
  }
  return bound == never ? 0 : bound;
}

}  // namespace stagecraft
