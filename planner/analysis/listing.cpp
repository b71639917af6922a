#include "planner/analysis/listing.hpp"

#include <algorithm>
#include <numeric>

#include "planner/problem/objective.hpp"
#include "planner/timing/fast_clock.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Stages and plans of one setting, before somebody else has to answer.
constexpr std::int64_t most_steps = 400'000;
constexpr int most_simulated = 2'000;

class Listing {
 public:
  Listing(const Space& space, const Setting& setting, Duration bound)
      : space_(space), setting_(setting), bound_(bound.count()) {}

  Listed run() {
    for (int p = 1; p <= space_.most_pipeline_devices(setting_); ++p) {
      layout_ = {};
      choose_replicas(p, 0);
    }
    return {.is_complete = !gave_up_ && !faster_, .faster = std::move(faster_)};
  }

 private:
  bool ends() const { return gave_up_ || faster_; }

  void choose_replicas(int left, int used) {
    if (ends()) return;
    if (left == 0) {
      if (space_.may_end_at(setting_, used) && space_.wants(setting_, layout_.replicas)) begin();
      return;
    }
    const int most =
        std::min(space_.most_replicas(setting_), space_.devices(setting_) - used - (left - 1));
    for (int count = 1; count <= most; ++count) {
      layout_.replicas.push_back(count);
      choose_replicas(left - 1, used + count);
      layout_.replicas.pop_back();
    }
  }

  void begin() {
    const int p = layout_.pipeline_devices();
    stages_ = p * std::max(setting_.schedule.virtual_stages, 1);
    if (!space_.allows_stages(stages_) || !space_.schedule(setting_, layout_.replicas)) return;
    first_device_.assign(index(p), 0);
    std::exclusive_scan(layout_.replicas.begin(), layout_.replicas.end(), first_device_.begin(), 0);
    loads_.assign(index(p), 0);
    begins_.assign(index(p), -1);
    layout_.cuts = {0};
    layout_.recompute.clear();
    add_stage(0);
  }

  /// The slowest replica's part of a microbatch; `of` times a range of layers.
  template <class Of>
  Time slowest(int device, const Of& of) const {
    Time slowest = 0;
    for_each_replica(device, [&](const CostTable& table) {
      slowest = std::max<Time>(slowest, of(table).count());
    });
    return slowest;
  }

  template <class Visit>
  void for_each_replica(int device, const Visit& visit) const {
    const int replicas = layout_.replicas[index(device)];
    for (int replica = 0; replica < replicas; ++replica) {
      visit(space_.table(setting_, first_device_[index(device)] + replica,
                         share_of_rows(setting_, replica, replicas)));
    }
  }

  int own_microbatches(int device) const {
    const int replicas = layout_.replicas[index(device)];
    const bool split = setting_.replicas == ReplicaPolicy::split;
    return split ? setting_.microbatches : (setting_.microbatches + replicas - 1) / replicas;
  }

  void add_stage(Time fill) {
    const int s = static_cast<int>(layout_.recompute.size()), first = layout_.cuts.back();
    if (s == stages_) return judge();
    const int device = setting_.device_of(s, layout_.pipeline_devices());
    const bool last = s + 1 == stages_;
    for (int end = last ? space_.layers() : space_.first_end(first);
         end <= space_.last_end(stages_ - 1 - s) && !ends(); ++end) {
      const LayerRange layers{first, end};
      if (!space_.allows(s, layers)) continue;
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        if (space_.allows(recompute)) try_stage(device, layers, recompute, fill);
      }
    }
  }

  void try_stage(int device, const LayerRange& layers, Recompute recompute, Time fill) {
    if (++steps_ > most_steps) gave_up_ = true;
    if (ends()) return;
    Time& load = loads_[index(device)];
    Time& begin = begins_[index(device)];
    const Time load_before = load, begin_before = begin;
    const bool again = recompute == Recompute::full && setting_.trains;
    load += own_microbatches(device) * slowest(device, [&](const CostTable& table) {
              const Duration forward = table.forward(layers);
              return (again ? 2 * forward : forward) +
                     (setting_.trains ? table.backward(layers) : Duration{0});
            });
    if (begin < 0) begin = setting_.drains ? fill : 0;
    if (begin + load < bound_ && has_room_for(layers.end)) {
      Time pass = never;
      for_each_replica(device, [&](const CostTable& table) {
        pass = std::min<Time>(pass, table.forward(layers).count());
      });
      layout_.cuts.push_back(layers.end);
      layout_.recompute.push_back(recompute);
      add_stage(fill + pass);
      layout_.recompute.pop_back();
      layout_.cuts.pop_back();
    }
    load = load_before;
    begin = begin_before;
  }

  /// Whether what is left could be done below the bound by what devices have left of it.
  bool has_room_for(int first) {
    double room = 0;
    for (int d = 0; d < layout_.pipeline_devices(); ++d) {
      room += static_cast<double>(bound_ - loads_[index(d)]) * layout_.replicas[index(d)];
    }
    return static_cast<double>(work_from(first)) * setting_.microbatches <= room;
  }

  /// Device time of the layers from `first` on for a microbatch, at the least.
  Time work_from(int first) {
    if (work_from_.empty()) {
      work_from_.assign(index(space_.layers()) + 1, 0);
      for (int layer = space_.layers() - 1; layer >= 0; --layer) {
        work_from_[index(layer)] =
            work_from_[index(layer) + 1] + layer_work(space_, setting_, layer);
      }
    }
    return work_from_[index(first)];
  }

  void judge() {
    if (++simulated_ > most_simulated) gave_up_ = true;
    if (ends()) return;
    Candidate candidate = space_.evaluate("listed", space_.plan(setting_, layout_));
    if (!candidate.prediction || !candidate.prediction->fits) return;
    if (is_undecided(candidate)) gave_up_ = true;
    if (gave_up_) return;
    if (pace(*candidate.prediction).count() < bound_) faster_ = std::move(candidate);
  }

  const Space& space_;
  const Setting& setting_;
  Time bound_ = 0;
  Layout layout_;
  int stages_ = 0;
  std::vector<int> first_device_;
  std::vector<Time> loads_, begins_;  ///< per pipeline device
  std::vector<Time> work_from_;
  std::int64_t steps_ = 0;
  int simulated_ = 0;
  bool gave_up_ = false;
  std::optional<Candidate> faster_;
};

}  // namespace

std::int64_t layer_work(const Space& space, const Setting& setting, int layer) {
  const LayerRange one{layer, layer + 1};
  const bool split = setting.replicas == ReplicaPolicy::split;
  Time least = never;
  std::int64_t before = 0;
  for (int replicas = 1; replicas <= (split ? space.most_replicas(setting) : 1); ++replicas) {
    const std::int64_t rows = (setting.microbatch + replicas - 1) / replicas;
    if (rows == before) continue;
    before = rows;
    for (int device = 0; device < space.devices(setting); ++device) {
      const CostTable& table = space.table(setting, device, rows);
      const Duration time =
          table.forward(one) + (setting.trains ? table.backward(one) : Duration{0});
      least = std::min<Time>(least, replicas * time.count());
      if (device > 0) continue;
      // Kinds come in blocks: one look at each kind is enough where all are of one.
      if (space.cluster().kinds.size() == 1) break;
    }
  }
  return least;
}

Listed list_plans(const Space& space, const Setting& setting, Duration bound) {
  return Listing(space, setting, bound).run();
}

}  // namespace stagecraft
