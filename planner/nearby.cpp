#include "planner/nearby.hpp"

#include <algorithm>

#include "planner/orders.hpp"

namespace stagecraft {

namespace {

std::vector<int> replica_counts(const Plan& plan) {
  std::vector<int> counts;
  for (const Stage& stage : plan.stages) counts.push_back(static_cast<int>(stage.devices.size()));
  return counts;
}

const Setting* setting_of(const Space& space, const Plan& plan) {
  const auto& settings = space.settings();
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& setting) {
    return setting.schedule.name == plan.schedule.name && setting.schedule.virtual_stages == 1 &&
           setting.microbatch == plan.batch.microbatch && setting.replicas == plan.replicas;
  });
  return found == settings.end() ? nullptr : &*found;
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
    for (const int count : replica_counts(plan)) chunks += count;
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

  /// The one behind this stage, far moves first.
  bool move_cut(std::size_t stage) {
    bool better = false;
    for (const int by : {-8, 8, -3, 3, -1, 1}) {
      Plan plan = best_.plan;
      LayerRange& here = plan.stages[stage].layers;
      LayerRange& next = plan.stages[stage + 1].layers;
      here.end = next.first = here.end + by;
      if (here.size() >= 1 && next.size() >= 1) better = try_out(plan) || better;
    }
    return better;
  }

  bool move_devices(std::size_t stage) {
    using Replicas = std::vector<std::vector<int>>;
    const auto change = [&](const auto& move) {
      Plan plan = best_.plan;
      Replicas& here = plan.stages[stage].devices;
      Replicas& next = plan.stages[stage + 1].devices;
      if (!move(here, next)) return false;
      plan.schedule = space_.choice_for(setting_, replica_counts(plan));
      return try_out(plan);
    };
    const auto hand_on = [](Replicas& from, Replicas& to, Replicas::iterator place) {
      if (from.size() < 2) return false;
      to.insert(place, from.back());
      from.pop_back();
      return true;
    };
    const bool on =
        change([&](Replicas& here, Replicas& next) { return hand_on(here, next, next.begin()); });
    const bool back =
        change([&](Replicas& here, Replicas& next) { return hand_on(next, here, here.end()); });
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
