// The plans that every schedule owes a run of, bit for bit as without programs.

#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/executor/tiny_training.hpp"

namespace stagecraft::tests {

/// References, of one number of steps, by what they depend on: not on the order of work, and not on
/// where a model without replicas is cut.
class References {
 public:
  const RunResult& of(const Setting& setting, const Prepared& prepared, const RunOptions& options) {
    const Schedule& schedule = prepared.compiled.schedule;
    const bool is_cut = !setting.replicas.empty() || schedule.weights != WeightPolicy::flush;
    const auto key =
        std::tuple(std::pair(setting.microbatches, setting.rows), setting.replicas, setting.policy,
                   std::pair(schedule.pipes, schedule.parts), schedule.trains, setting.optimizer,
                   schedule.weights, is_cut ? schedule.device_of_stage : std::vector<int>{},
                   is_cut ? setting.cuts : std::vector<int>{});
    const auto [found, is_new] = results_.try_emplace(key);
    if (is_new) found->second = reference(prepared, options);
    return found->second;
  }

 private:
  using Key = std::tuple<std::pair<int, int>, std::vector<int>, ReplicaPolicy, std::pair<int, int>,
                         bool, OptimizerKind, WeightPolicy, std::vector<int>, std::vector<int>>;
  std::map<Key, RunResult> results_;
};

/// One, two, and unequal numbers in turn: 2-1-2-1, 3-1-3-1.
inline std::vector<int> replicas_in_turn(int first, int second, int devices) {
  std::vector<int> replicas;
  for (int i = 0; i < devices; ++i) replicas.push_back(i % 2 == 0 ? first : second);
  return first == 1 && second == 1 ? std::vector<int>{} : replicas;
}

/// What lowering refuses with a reason: partners with unequal replicas, evictions with
/// recomputation.
inline bool is_lowered(const Setting& setting) {
  if (setting.schedule != "bpipe" || setting.devices < 4) return true;
  const bool even = setting.replicas.empty() || setting.replicas.front() == setting.replicas.back();
  return even && setting.recompute == Recompute::none;
}

/// All that one row of the table of schedules owes; or every `every`-th of it, from `first` on.
inline std::vector<Setting> equality_matrix(const ScheduleKind& kind, int every = 1,
                                            int first = 0) {
  std::vector<Setting> settings;
  int number = -first;
  for (const int devices : {1, 2, 3, 4}) {
    for (const int microbatches : {1, 2, 4, 6, 8, 12}) {
      using Again = std::vector<Recomputed>;
      for (const auto& [recompute, again] : {std::pair(Recompute::none, Again{}),
                                             {Recompute::full, {}},
                                             {Recompute::none, every_choice()},
                                             {Recompute::none, in_runs()}}) {
        for (const auto& [one, other] : {std::pair(1, 1), {2, 2}, {2, 1}, {3, 1}}) {
          for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
            if (one == 1 && policy == ReplicaPolicy::round_robin) continue;
            if (number++ % every != 0) continue;
            const Setting setting{.schedule = std::string(kind.name),
                                  .devices = devices,
                                  .virtual_stages = fewest_virtual_stages(kind.placement),
                                  .microbatches = microbatches,
                                  .rows = one == 3 ? 6 : 4,
                                  .replicas = replicas_in_turn(one, other, devices),
                                  .policy = policy,
                                  .recompute = recompute,
                                  .again = again};
            if (is_legal(setting) && is_lowered(setting)) settings.push_back(setting);
          }
        }
      }
    }
  }
  return settings;
}

}  // namespace stagecraft::tests
