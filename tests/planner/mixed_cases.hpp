// Small problems whose stages may have tensor-parallel degrees of their own, and everything tried.

#pragma once

#include <functional>
#include <numeric>
#include <set>

#include "planner/problem/objective.hpp"
#include "planner/search/enumerate/mixed_search.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

/// Every chain of a setting's schedule whose stages have degrees 1 or 2 of their own.
class Everything {
 public:
  explicit Everything(const Space& space) : space_(space) {}

  /// Of chains of several degrees; `Duration::max()` if none fits.
  Duration best() {
    Duration best = Duration::max();
    for (const Setting& setting : space_.settings()) {
      if (setting.peers == 1 && setting.schedule.virtual_stages == 1)
        best = std::min(best, best_of(setting));
    }
    return best;
  }
  /// With this setting's schedule, microbatch and policy.
  Duration best_of(const Setting& setting) {
    setting_ = &setting;
    best_ = Duration::max();
    add_stage(0, 0);
    return best_;
  }
  int tried() const { return tried_; }

  std::function<void(const Candidate&)> on_plan;  ///< called with each that can be simulated

 private:
  void add_stage(int layer, int device) {
    if (layer == space_.layers()) return try_out();
    for (const int peers : {1, 2}) {
      for (int replicas = 1; device + peers * replicas <= space_.devices(*setting_); ++replicas) {
        std::vector<std::vector<int>> devices;
        for (int replica = 0; replica < replicas; ++replica) {
          auto& own = devices.emplace_back(static_cast<std::size_t>(peers));
          std::iota(own.begin(), own.end(), device + peers * replica);
        }
        for (int end = space_.first_end(layer); end <= space_.layers(); ++end) {
          for (const Recompute recompute : {Recompute::none, Recompute::full}) {
            stages_.push_back({{layer, end}, devices, recompute, {}});
            add_stage(end, device + peers * replicas);
            stages_.pop_back();
          }
        }
      }
    }
  }

  void try_out() {
    std::set<std::size_t> degrees;
    Layout layout{.replicas = {}, .cuts = {0}, .recompute = {}};
    for (const Stage& stage : stages_) {
      degrees.insert(stage.devices.front().size());
      layout.replicas.push_back(static_cast<int>(stage.devices.size()));
      layout.cuts.push_back(stage.layers.end);
      layout.recompute.push_back(stage.recompute);
    }
    if (degrees.size() == 1 || !space_.wants(*setting_, layout.replicas)) return;
    Plan plan = space_.plan(*setting_, layout);
    plan.stages = stages_;
    if (!is_wanted(space_, plan)) return;
    const Candidate candidate = space_.evaluate("everything", plan);
    if (!candidate.prediction) return;
    ++tried_;
    if (on_plan) on_plan(candidate);
    if (candidate.prediction->fits) best_ = std::min(best_, pace(*candidate.prediction));
  }

  const Space& space_;
  const Setting* setting_ = nullptr;
  std::vector<Stage> stages_;
  Duration best_ = Duration::max();
  int tried_ = 0;
};

/// Four devices, in one box or two; what two peers take of each layer is measured: about half, or
/// the whole.
inline Problem with_degrees(std::uint32_t seed) {
  Problem problem = random_problem(seed, {.layers = 4, .devices = 4});
  Random random(seed);
  const Link link = problem.cluster.levels.back().link;
  const Bytes memory =
      problem.cluster.kinds.front().memory_unlimited ? 0 : problem.cluster.kinds.front().memory;
  std::vector<Level> boxes = {{2, random_link(random)}, {2, link}};
  problem.cluster = cluster_of(random.chance(50) ? boxes : std::vector<Level>{{4, link}}, memory);
  problem.schedules = {{.name = random.chance(60) ? "1f1b" : "gpipe"}};
  problem.tensor_parallel = {1, 2};
  problem.profile.entries.resize(1);
  ProfileEntry halves = problem.profile.entries.front();
  halves.setting.tensor_parallel = 2;
  for (LayerCost& cost : halves.layers) {
    const int percent = random.chance(50) ? random.between(40, 60) : 100;
    for (Duration* time : {&cost.forward, &cost.backward_input, &cost.backward_weight})
      *time = *time * percent / 100;
    cost.saved /= 2;
    cost.parameters = cost.gradients = (cost.parameters + 1) / 2;
    cost.optimizer = 2 * cost.parameters;
  }
  problem.profile.entries.push_back(std::move(halves));
  return problem;
}

/// What the search says of a problem is what trying everything says. Returns whether the best plan
/// has several degrees.
inline bool require_as_good_as_every_degree(const Problem& problem, int& tried) {
  const Space space(problem);
  Everything everything(space);
  const Duration best = everything.best();
  tried += everything.tried();
  const SearchResult found = search_exact(problem, {});
  CHECK(std::min(found.lower_bound, found.families.least_left_out()) <= best);
  if (found.plans.empty()) {
    CHECK(best == Duration::max());
    return false;
  }
  const Duration step = pace(*found.plans.front().prediction);
  CHECK(step <= best);
  CHECK_FALSE(found.families.has(PlanFamily::several_degrees));
  const Plan& plan = found.plans.front().plan;
  const bool is_mixed = is_mixed_chain(space, plan);
  if (is_mixed) CHECK(step == best);
  // Unless another planner has found better on devices that are not consecutive.
  if (is_mixed || lies_in_space(space, plan)) CHECK(found.proved_optimal);
  return is_mixed;
}

}  // namespace stagecraft::tests
