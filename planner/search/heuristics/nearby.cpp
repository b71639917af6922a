#include "planner/search/heuristics/nearby.hpp"

#include <algorithm>

#include "planner/space/orders.hpp"

namespace stagecraft {

namespace {

const Setting* setting_of(const Space& space, const Plan& plan) {
  const auto& settings = space.settings();
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& setting) {
    return setting.schedule.name == plan.schedule.name && setting.schedule.virtual_stages == 1 &&
           setting.microbatch == plan.batch.microbatch && setting.replicas == plan.replicas;
  });
  return found == settings.end() ? nullptr : &*found;
}

using Replicas = std::vector<std::vector<int>>;

/// The devices of all replicas, regrouped into replicas of `size` devices; nothing if devices would
/// be left over.
std::optional<Replicas> in_groups(const Replicas& replicas, int size) {
  std::vector<int> devices;
  for (const std::vector<int>& peers : replicas)
    devices.insert(devices.end(), peers.begin(), peers.end());
  const auto step = static_cast<std::ptrdiff_t>(size);
  if (std::ssize(devices) % step != 0) return {};
  Replicas grouped;
  for (auto first = devices.begin(); first != devices.end(); first += step)
    grouped.emplace_back(first, first + step);
  return grouped;
}

/// Moves the devices of one replica, of the larger of both stages' degrees, from one stage to the
/// other. Returns false if `from` would have no replica left, or if the devices do not make whole
/// replicas.
bool hand_on(Replicas& from, Replicas& to, bool in_front) {
  const std::size_t count = std::max(from.back().size(), to.back().size()) / from.back().size();
  if (from.size() <= count) return false;
  const Replicas moved(from.end() - static_cast<std::ptrdiff_t>(count), from.end());
  const auto grouped = in_groups(moved, static_cast<int>(to.back().size()));
  if (!grouped) return false;
  from.resize(from.size() - count);
  to.insert(in_front ? to.begin() : to.end(), grouped->begin(), grouped->end());
  return true;
}

class Nearby {
 public:
  Nearby(const Space& space, const Setting& setting, const Candidate& start,
         const std::function<bool(const Plan&)>& is_wanted, Effort& effort)
      : space_(space), setting_(setting), best_(start), is_wanted_(is_wanted), effort_(effort) {}

  Candidate run() {
    const std::size_t stages = best_.plan.stages.size();
    for (bool better = true; better && !effort_.is_spent();) {
      better = false;
      for (std::size_t stage = 0; stage < stages; ++stage) {
        better = change_recomputation(stage) || better;
        better = change_degree(stage) || better;
        if (stage + 1 == stages) continue;
        better = move_cut(stage) || better;
        better = move_devices(stage) || better;
      }
    }
    return best_;
  }

 private:
  bool try_out(const Plan& plan) {
    if (effort_.is_spent() || !is_wanted_(plan)) return false;
    std::int64_t chunks = 0;
    for (const int count : replicas_of_stages(plan)) chunks += count;
    effort_.spend(2 * steps_per_simulated_instruction * plan.batch.microbatches * chunks);
    Candidate candidate = space_.evaluate(best_.name, plan);
    const bool better = candidate.prediction && candidate.prediction->fits &&
                        pace(*candidate.prediction) < pace(*best_.prediction);
    if (better) best_ = std::move(candidate);
    return better;
  }

  bool change_recomputation(std::size_t stage) {
    Plan plan = best_.plan;
    plan.stages[stage].again.clear();
    Recompute& choice = plan.stages[stage].recompute;
    choice = choice == Recompute::none ? Recompute::full : Recompute::none;
    return try_out(plan);
  }

  /// Tries other degrees for the stage, with the cuts around it in place or moved by one layer.
  bool change_degree(std::size_t stage) {
    bool better = false;
    for (const int degree : space_.problem().tensor_parallel) {
      const auto grouped =
          in_groups(best_.plan.stages[stage].devices, degree * best_.plan.parallelism.context);
      if (!grouped || grouped == best_.plan.stages[stage].devices) continue;
      for (const int before : {0, -1, 1}) {
        for (const int behind : {0, -1, 1}) {
          Plan plan = best_.plan;
          plan.stages[stage].devices = *grouped;
          plan.schedule = space_.choice_for(setting_, replicas_of_stages(plan));
          if (shift(plan, stage, before) && shift(plan, stage + 1, behind))
            better = try_out(plan) || better;
        }
      }
    }
    return better;
  }

  /// Moves the cut before the stage. Returns false if a stage would be empty.
  static bool shift(Plan& plan, std::size_t stage, int by) {
    if (by == 0) return true;
    if (stage == 0 || stage == plan.stages.size()) return false;
    LayerRange& before = plan.stages[stage - 1].layers;
    LayerRange& here = plan.stages[stage].layers;
    before.end = here.first = here.first + by;
    return before.size() >= 1 && here.size() >= 1;
  }

  /// Moves the cut behind this stage, far moves first.
  bool move_cut(std::size_t stage) {
    bool better = false;
    for (const int by : {-8, 8, -3, 3, -1, 1}) {
      Plan plan = best_.plan;
      if (shift(plan, stage + 1, by)) better = try_out(plan) || better;
    }
    return better;
  }

  bool move_devices(std::size_t stage) {
    const auto change = [&](const auto& move) {
      Plan plan = best_.plan;
      Replicas& here = plan.stages[stage].devices;
      Replicas& next = plan.stages[stage + 1].devices;
      if (!move(here, next)) return false;
      plan.schedule = space_.choice_for(setting_, replicas_of_stages(plan));
      return try_out(plan);
    };
    const bool on =
        change([](Replicas& here, Replicas& next) { return hand_on(here, next, true); });
    const bool back =
        change([](Replicas& here, Replicas& next) { return hand_on(next, here, false); });
    const bool exchanged = change([](Replicas& here, Replicas& next) {
      std::swap(here.back(), next.front());
      return true;
    });
    return on || back || exchanged;
  }

  const Space& space_;
  const Setting& setting_;
  Candidate best_;
  const std::function<bool(const Plan&)>& is_wanted_;
  Effort& effort_;
};

}  // namespace

Candidate best_nearby(const Problem& problem, const Candidate& candidate,
                      const std::function<bool(const Plan&)>& is_wanted, Effort& effort) {
  if (!candidate.prediction || !candidate.prediction->fits) return candidate;
  const std::vector<int>& order = candidate.plan.order;
  const Problem ordered = order.empty() ? problem : in_order(problem, order);
  const Space space(ordered);
  const Setting* setting = setting_of(space, candidate.plan);
  if (setting == nullptr || candidate.plan.schedule.virtual_stages != 1) return candidate;
  return Nearby(space, *setting, candidate, is_wanted, effort).run();
}

}  // namespace stagecraft
