#include "planner/searches/layers_again.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "planner/certificate.hpp"
#include "planner/layouts/timed_order.hpp"
#include "planner/plan_fault.hpp"
#include "planner/searches/leaderboard.hpp"
#include "planner/strategies.hpp"

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// One way for a stage to recompute. Of its first replica: time per microbatch,
/// what it saves of one, and its largest workspace.
struct Way {
  Duration longer{0};
  Bytes saved = 0;
  Bytes workspace = 0;
  Recompute stage = Recompute::none;
  std::vector<Recomputed> again;
};

/// More ways of a stage than these are thinned out, and more combinations on a
/// device not tried.
constexpr std::size_t most_ways = 3'000;
constexpr int most_trials = 50'000;

bool is_as_good(const Way& a, const Way& b) {
  return a.longer <= b.longer && a.saved <= b.saved && a.workspace <= b.workspace;
}

/// Those that no other one is as good as, the shortest first.
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

/// Each way with one more layer, which does what it may.
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

class Fitting {
 public:
  Fitting(const Space& space, const Plan& plan, const std::stop_token& stop)
      : space_(space),
        stop_(stop),
        plan_(plan),
        schedule_(find_schedule(plan.schedule.name).generate(shape_of(plan))),
        chosen_(index(pipeline_devices(plan))),
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
    // Copies of the model in several pipes, and parts of microbatches, have moments of their own.
    const bool is_plain = stages_per_pipe(schedule_) == schedule_.stages && schedule_.parts == 1;
    if (!is_plain || !timed_ || timed_->places_recompute) return {};
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
    // Backwards, so that of alike layers the first ones do most again.
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

  bool fits(int device, const std::vector<int>& stages) const {
    const OptimizerChoice& optimizer = plan_.optimizer;
    const std::size_t replicas = plan_.stages[index(device)].devices.size();
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      const int lead = plan_.stages[index(device)].devices[replica].front();
      const DeviceKind& kind = kind_of(space_.cluster(), lead);
      if (kind.memory_unlimited) continue;
      std::vector<ChunkMemory> memory;
      std::vector<Recompute> recompute;
      std::vector<char> computes;
      for (const int s : stages) {
        const Stage& stage = plan_.stages[index(s)];
        const CostTable& costs = table(stage, replica);
        const Holders holders =
            holders_of(plan_.parallelism, static_cast<int>(replicas),
                       static_cast<int>(plan_.stages[index(device)].devices[replica].size()));
        memory.push_back(memory_share(costs.memory(stage.layers, optimizer.kind, stage.again),
                                      optimizer.sharding, holders));
        recompute.push_back(stage.recompute);
        computes.push_back(costs.times(stage.layers, stage.again).backward_input > Duration{0});
      }
      const Bytes limit = usable_memory(kind) - slack_[index(device)];
      for (const FullMoment& moment : timed_->moments[index(device)]) {
        const bool shows = computes[index(moment.turn)] != 0;
        if (bytes_at(moment, memory, recompute, shows) > limit) return false;
      }
    }
    return true;
  }

  /// The least extra time on the device; false if nothing fits, or a stop is requested.
  bool choose(int device) {
    const std::vector<int> stages = stages_on(device);
    const auto ways = [&](std::size_t i) -> const std::vector<Way>& {
      return ways_[index(stages[i])];
    };
    std::vector<std::size_t> chosen(stages.size()), best;
    Duration least = Duration::max();
    int trials = 0;
    const auto descend = [&](const auto& self, std::size_t i, Duration longer) -> void {
      if (i == stages.size()) {
        const bool refused = refused_[index(device)].contains(chosen);
        if (++trials > most_trials || refused || !fits(device, stages)) return;
        least = longer;
        best = chosen;
        return;
      }
      for (std::size_t w = 0; w < ways(i).size() && trials < most_trials; ++w) {
        if (stop_.stop_requested()) return;
        if (longer + ways(i)[w].longer >= least) return;
        take(stages[i], ways(i)[w]);
        chosen[i] = w;
        self(self, i + 1, longer + ways(i)[w].longer);
      }
    };
    descend(descend, 0, Duration{0});
    if (best.empty() || stop_.stop_requested()) return false;
    chosen_[index(device)] = best;
    for (std::size_t i = 0; i < stages.size(); ++i) take(stages[i], ways(i)[best[i]]);
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
  std::vector<std::vector<Way>> ways_;  ///< per stage
  // Per pipeline device: the ways of its stages, those that turned out not to fit, and what the
  // estimate has left out.
  std::vector<std::vector<std::size_t>> chosen_;
  std::vector<std::set<std::vector<std::size_t>>> refused_;
  std::vector<Bytes> slack_;
};

}  // namespace

std::optional<Candidate> with_layers_again(const Space& space, const Candidate& candidate,
                                           const std::stop_token& stop) {
  return Fitting(space, candidate.plan, stop).run(candidate.name);
}

Problem without_memory_limits(const Problem& problem) {
  Problem changed = problem;
  for (DeviceKind& kind : changed.cluster.kinds) kind.memory_unlimited = true;
  changed.memory_cap.reset();
  changed.recompute = {Recompute::none};
  changed.recompute_layers.clear();
  return changed;
}

SearchResult search_layers(const Problem& problem, const SearchControl& control) {
  constexpr int most_starts = 4;
  const Space space(problem);
  SearchControl several = control;
  several.top = std::max(control.top, most_starts);
  SearchResult result = search_exact(without_memory_limits(problem), several);
  Leaderboard board(control.top);
  const auto consider = [&](const std::vector<Candidate>& plans) {
    for (const Candidate& plan : plans) {
      const Candidate again = space.evaluate(plan.name, plan.plan);
      if (again.prediction && again.prediction->fits) board.add(again);
      if (const auto chosen = with_layers_again(space, plan, control.stop)) board.add(*chosen);
    }
  };
  const std::vector<Candidate> unlimited = std::move(result.plans);
  consider(unlimited);
  result.interrupted = result.interrupted || control.stop.stop_requested();
  // A search that was stopped still has its first plan of whole stages, where nothing else fits.
  if (board.best() != result.lower_bound && (!result.interrupted || !board.best())) {
    Problem whole = problem;
    whole.recompute_layers.clear();
    const SearchResult other = search_exact(whole, several);
    consider(other.plans);
    result.infeasible = other.infeasible;
    result.candidates += other.candidates;
    result.pruned += other.pruned;
    result.interrupted = result.interrupted || other.interrupted;
  }
  if (result.question) result.question = question_of(problem);
  if (result.lower_bound < board.best().value_or(Duration::max()))
    result.rests_on = "plans without limits of memory: what recomputation costs is not counted";
  result = finish(board, std::move(result));
  if (!result.plans.empty()) result.infeasible.reset();
  return result;
}

}  // namespace stagecraft
