#include "planner/search/heuristics/layers_again.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "planner/plan/plan_fault.hpp"
#include "planner/timing/timed_order.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// One choice of recomputation for a stage, with its costs on the first replica: extra time per
/// microbatch, bytes saved per microbatch, and the largest workspace.
struct Way {
  Duration longer{0};
  Bytes saved = 0;
  Bytes workspace = 0;
  Recompute stage = Recompute::none;
  std::vector<Recomputed> again;
};

/// Limits: a stage with more choices keeps a sample of them, and a device tries no more
/// combinations.
constexpr std::size_t most_ways = 3'000;
constexpr int most_trials = 200'000;

bool is_as_good(const Way& a, const Way& b) {
  return a.longer <= b.longer && a.saved <= b.saved && a.workspace <= b.workspace;
}

/// The choices that no other one dominates, the shortest extra time first.
std::vector<Way> without_worse(std::vector<Way> ways) {
  std::ranges::stable_sort(ways, [](const Way& a, const Way& b) {
    return std::tie(a.longer, a.saved, a.workspace) < std::tie(b.longer, b.saved, b.workspace);
  });
  std::vector<Way> best;
  for (Way& way : ways) {
    const auto covers = [&](const Way& other) { return is_as_good(other, way); };
    if (std::ranges::none_of(best, covers)) best.push_back(std::move(way));
  }
  const std::size_t stride = best.size() / most_ways + 1;
  if (stride == 1) return best;
  std::vector<Way> some;
  for (std::size_t i = 0; i < best.size(); i += stride) some.push_back(std::move(best[i]));
  return some;
}

/// Extends each choice by one more layer, with every recomputation allowed for it.
std::vector<Way> with_layer(const std::vector<Way>& ways, const LayerCost& cost, std::size_t place,
                            const std::vector<Recomputed>& may) {
  std::vector<Way> more;
  for (const Way& way : ways) {
    for (const Recomputed what : may) {
      if (what == Recomputed::selective && !cost.selective) continue;
      const LayerCost changed = recomputed(cost, what);
      Way next = way;
      next.longer += changed.backward_input - cost.backward_input;
      next.saved += changed.saved;
      next.workspace = std::max(way.workspace, changed.workspace);
      next.again[place] = what;
      more.push_back(std::move(next));
    }
  }
  return more;
}

/// The memory of one device's stages at a memory peak, for each of their choices.
struct Room {
  Bytes limit = 0;
  std::size_t turn = 0;                  ///< the stage whose backward runs
  std::vector<char> shows;               ///< per choice of that stage: whether its backward takes
                                         ///< time, so that the peak counts
  Bytes always = 0;                      ///< parameters, gradients and optimizer states
  std::vector<std::vector<Bytes>> held;  ///< [stage][way]
  std::vector<Bytes> least_from;         ///< [stage]: least bytes of this stage and those after it
  bool may_hide = false;                 ///< some choice has no peak here

  Room(Bytes most, const FullMoment& moment, const std::vector<const std::vector<Way>*>& ways,
       const std::vector<std::vector<ChunkMemory>>& memory, std::vector<char> shown)
      : limit(most), turn(index(moment.turn)), shows(std::move(shown)) {
    may_hide = std::ranges::find(shows, 0) != shows.end();
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const ChunkMemory& first = memory[i].front();
      always += first.parameters + first.gradients + first.optimizer;
      std::vector<Bytes>& own = held.emplace_back();
      for (std::size_t w = 0; w < memory[i].size(); ++w)
        own.push_back(held_at(moment, i, memory[i][w], (*ways[i])[w].stage));
    }
    least_from.assign(memory.size() + 1, 0);
    for (std::size_t i = memory.size(); i-- > 0;)
      least_from[i] = least_from[i + 1] + *std::ranges::min_element(held[i]);
  }

  /// Whether the first `stages` stages, which hold `bytes`, leave room for the others.
  bool may_fit(std::size_t stages, const std::vector<std::size_t>& chosen, Bytes bytes,
               Bytes slack) const {
    if (always > limit - slack) return false;
    const bool is_hidden = turn < stages ? shows[chosen[turn]] == 0 : may_hide;
    return is_hidden || always + bytes + least_from[stages] <= limit - slack;
  }
};

/// Branch and bound for the choices of a device's stages with the least extra time in all.
class LeastExtraTime {
 public:
  LeastExtraTime(const std::vector<Room>& rooms, std::vector<const std::vector<Way>*> ways,
                 const std::set<std::vector<std::size_t>>& refused, Bytes slack,
                 const std::stop_token& stop)
      : rooms_(rooms),
        ways_(std::move(ways)),
        refused_(refused),
        slack_(slack),
        stop_(stop),
        chosen_(ways_.size()),
        held_(ways_.size() + 1, std::vector<Bytes>(rooms.size())) {}

  /// The choice of each stage; empty if nothing fits, or a stop is requested.
  std::vector<std::size_t> find() {
    descend(0, Duration{0});
    return stop_.stop_requested() ? std::vector<std::size_t>{} : best_;
  }

 private:
  void descend(std::size_t i, Duration longer) {
    if (i == ways_.size()) {
      if (refused_.contains(chosen_)) return;
      least_ = longer;
      best_ = chosen_;
      return;
    }
    const std::vector<Way>& ways = *ways_[i];
    for (std::size_t w = 0; w < ways.size() && trials_ < most_trials; ++w) {
      if (stop_.stop_requested() || longer + ways[w].longer >= least_) return;
      ++trials_;
      chosen_[i] = w;
      if (may_fit(i)) descend(i + 1, longer + ways[w].longer);
    }
  }

  bool may_fit(std::size_t i) {
    for (std::size_t r = 0; r < rooms_.size(); ++r) {
      held_[i + 1][r] = held_[i][r] + rooms_[r].held[i][chosen_[i]];
      if (!rooms_[r].may_fit(i + 1, chosen_, held_[i + 1][r], slack_)) return false;
    }
    return true;
  }

  const std::vector<Room>& rooms_;
  std::vector<const std::vector<Way>*> ways_;
  const std::set<std::vector<std::size_t>>& refused_;
  Bytes slack_;
  const std::stop_token& stop_;
  std::vector<std::size_t> chosen_, best_;
  std::vector<std::vector<Bytes>> held_;  ///< [stages chosen][room]
  Duration least_ = Duration::max();
  int trials_ = 0;
};

class Fitting {
 public:
  Fitting(const Space& space, const Plan& plan, const std::stop_token& stop)
      : space_(space),
        stop_(stop),
        plan_(plan),
        schedule_(find_schedule(plan.schedule.name).generate(shape_of(plan))),
        chosen_(index(pipeline_devices(plan))),
        rooms_(chosen_.size()),
        refused_(chosen_.size()),
        slack_(chosen_.size()) {
    for (const Stage& stage : plan.stages) ways_.push_back(ways(stage));
    const bool split = plan.replicas == ReplicaPolicy::split;
    std::vector<int> strides;
    for (int device = 0; device < pipeline_devices(plan); ++device) {
      strides.push_back(split ? 1 : static_cast<int>(plan.stages[index(device)].devices.size()));
    }
    timed_ = time_order(schedule_, strides);
  }

  std::optional<Candidate> run(const std::string& name) {
    constexpr int most_rounds = 40, one_by_one = 32;
    // Bidirectional pipelines and split microbatches have other memory peaks.
    const bool is_plain = stages_per_pipe(schedule_) == schedule_.stages && schedule_.parts == 1;
    if (!is_plain || !timed_ || timed_->places_recompute) return {};
    for (int device = 0; device < pipeline_devices(plan_); ++device) add_rooms(device);
    for (int round = 0; round < most_rounds && !stop_.stop_requested(); ++round) {
      for (int device = 0; device < pipeline_devices(plan_); ++device) {
        if (!choose(device)) return {};
      }
      Candidate candidate = space_.evaluate(name, plan_);
      if (!candidate.prediction) return {};
      if (candidate.prediction->fits) return candidate;
      take_room(*candidate.prediction, round < one_by_one);
    }
    return {};
  }

 private:
  std::vector<int> stages_on(int device) const {
    std::vector<int> stages;
    for (int s = 0; s < static_cast<int>(plan_.stages.size()); ++s) {
      if (pipeline_device_of(plan_, s) == device) stages.push_back(s);
    }
    return stages;
  }

  std::int64_t rows_of(std::size_t replica, std::size_t replicas) const {
    const std::int64_t rows = plan_.batch.microbatch;
    if (plan_.replicas == ReplicaPolicy::round_robin) return rows;
    const auto r = static_cast<std::int64_t>(replica), all = static_cast<std::int64_t>(replicas);
    return rows * (r + 1) / all - rows * r / all;
  }

  const CostTable& table(const Stage& stage, std::size_t replica) const {
    const std::vector<int>& peers = stage.devices[replica];
    return space_.book(plan_).table(space_.cluster().devices[index(peers.front())],
                                    plan_.batch.microbatch, rows_of(replica, stage.devices.size()),
                                    static_cast<int>(peers.size()));
  }

  std::vector<Way> ways(const Stage& stage) const {
    const CostTable& costs = table(stage, 0);
    std::vector<Recomputed> may{Recomputed::none};
    for (const Recomputed what : space_.problem().recompute_layers) may.push_back(what);
    std::vector<Way> ways{{.again = std::vector(index(stage.layers.size()), Recomputed::none)}};
    // From the last layer to the first, so that of equal layers the first ones recompute most.
    for (int i = stage.layers.size(); i-- > 0 && !stop_.stop_requested();) {
      const LayerCost& cost = costs.layer(stage.layers.first + i);
      ways = without_worse(with_layer(ways, cost, index(i), may));
    }
    for (Way& way : ways) {
      if (std::ranges::count(way.again, Recomputed::none) == std::ssize(way.again)) {
        way.again.clear();
      }
    }
    if (space_.allows(Recompute::full)) {
      ways.push_back({.longer = costs.forward(stage.layers), .stage = Recompute::full});
    }
    std::ranges::stable_sort(ways, {}, &Way::longer);
    return ways;
  }

  std::vector<const std::vector<Way>*> ways_of(const std::vector<int>& stages) const {
    std::vector<const std::vector<Way>*> ways;
    for (const int s : stages) ways.push_back(&ways_[index(s)]);
    return ways;
  }

  /// Lists the device's memory at each peak, once for every replica that differs from the one
  /// before it.
  void add_rooms(int device) {
    const std::vector<int> stages = stages_on(device);
    const auto& replicas = plan_.stages[index(device)].devices;
    std::vector<const CostTable*> before;
    Bytes limit_before = 0;
    for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
      const DeviceKind& kind = kind_of(space_.cluster(), replicas[replica].front());
      std::vector<const CostTable*> tables;
      for (const int s : stages) tables.push_back(&table(plan_.stages[index(s)], replica));
      const Bytes limit = usable_memory(kind);
      if (kind.memory_unlimited || (tables == before && limit == limit_before)) continue;
      add_rooms(device, stages, tables, replica, limit);
      before = std::move(tables);
      limit_before = limit;
    }
  }

  void add_rooms(int device, const std::vector<int>& stages,
                 const std::vector<const CostTable*>& tables, std::size_t replica, Bytes limit) {
    const auto& replicas = plan_.stages[index(device)].devices;
    const Holders holders = holders_of(plan_.parallelism, static_cast<int>(replicas.size()),
                                       static_cast<int>(replicas[replica].size()));
    const OptimizerChoice& optimizer = plan_.optimizer;
    std::vector<std::vector<ChunkMemory>> memory;
    const std::vector<const std::vector<Way>*> ways = ways_of(stages);
    std::vector<std::vector<char>> shows;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const LayerRange& layers = plan_.stages[index(stages[i])].layers;
      memory.emplace_back();
      shows.emplace_back();
      for (const Way& way : *ways[i]) {
        memory.back().push_back(memory_share(tables[i]->memory(layers, optimizer.kind, way.again),
                                             optimizer.sharding, holders));
        const bool computes = tables[i]->times(layers, way.again).backward_input > Duration{0};
        shows.back().push_back(computes ? 1 : 0);
      }
    }
    for (const FullMoment& moment : timed_->moments[index(device)])
      rooms_[index(device)].emplace_back(limit, moment, ways, memory, shows[index(moment.turn)]);
  }

  /// Takes the choices of least extra time on the device; false if nothing fits, or a stop is
  /// requested.
  bool choose(int device) {
    const std::vector<int> stages = stages_on(device);
    const std::vector<const std::vector<Way>*> ways = ways_of(stages);
    const std::vector<std::size_t> best =
        LeastExtraTime(rooms_[index(device)], ways, refused_[index(device)], slack_[index(device)],
                       stop_)
            .find();
    if (best.empty()) return false;
    chosen_[index(device)] = best;
    for (std::size_t i = 0; i < stages.size(); ++i) take(stages[i], (*ways[i])[best[i]]);
    return true;
  }

  void take(int stage, const Way& way) {
    plan_.stages[index(stage)].recompute = way.stage;
    plan_.stages[index(stage)].again = way.again;
  }

  void take_room(const Prediction& prediction, bool one_by_one) {
    const std::vector<int> leads = lead_devices(plan_);
    for (int device = 0; device < pipeline_devices(plan_); ++device) {
      Bytes excess = 0;
      for (const std::vector<int>& peers : plan_.stages[index(device)].devices) {
        const auto place = static_cast<std::size_t>(std::ranges::lower_bound(leads, peers.front()) -
                                                    leads.begin());
        excess = std::max(excess, prediction.peaks[place].bytes - prediction.memory_limits[place]);
      }
      if (excess <= 0) continue;
      if (one_by_one) {
        refused_[index(device)].insert(chosen_[index(device)]);
      } else {
        slack_[index(device)] += excess;
      }
    }
  }

  const Space& space_;
  const std::stop_token& stop_;
  Plan plan_;
  Schedule schedule_;
  std::optional<TimedOrder> timed_;
  std::vector<std::vector<Way>> ways_;  ///< choices per stage
  // Per pipeline device: the choices of its stages, their memory, the combinations that did not fit
  // when simulated, and the bytes that the estimate left out.
  std::vector<std::vector<std::size_t>> chosen_;
  std::vector<std::vector<Room>> rooms_;
  std::vector<std::set<std::vector<std::size_t>>> refused_;
  std::vector<Bytes> slack_;
};

}  // namespace

std::optional<Candidate> with_layers_again(const Space& space, const Candidate& candidate,
                                           const std::stop_token& stop) {
  return Fitting(space, candidate.plan, stop).run(candidate.name);
}

}  // namespace stagecraft
