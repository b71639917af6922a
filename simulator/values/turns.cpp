#include "simulator/values/turns.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

TurnsFault no_common_count(const Schedule& schedule, int stage, int replicas) {
  return {concat("the ", replicas, " replicas of stage ", stage,
                 " take turns at microbatches, and update after rounds of ", replicas, ", but ",
                 schedule.name,
                 " names one version for all stages, which count theirs in updates of their own"),
          "use \"split\", or the schedule pipedream"};
}

std::optional<TurnsFault> find_group_fault(const Schedule& schedule,
                                           const std::vector<int>& replicas) {
  const int all = common_multiple(replicas);
  for (std::size_t stage = 0; stage < replicas.size(); ++stage) {
    if (schedule.update_every % replicas[stage] == 0) continue;
    return TurnsFault{concat("the ", replicas[stage], " replicas of stage ", stage,
                             " cannot take equally many turns in groups of ", schedule.update_every,
                             " microbatches"),
                      concat("nearest legal group: ", nearest_multiples(schedule.update_every, all),
                             "; or use \"split\"")};
  }
  return {};
}

std::optional<TurnsFault> find_round_fault(const Schedule& schedule,
                                           const std::vector<int>& replicas) {
  const int all = common_interval(schedule, ReplicaPolicy::round_robin, replicas);
  for (std::size_t stage = 0; stage < replicas.size(); ++stage) {
    const int round = schedule.update_every * replicas[stage];
    if (schedule.microbatches % round == 0) continue;
    return TurnsFault{
        concat("the ", replicas[stage], " replicas of stage ", stage,
               " take turns and update after rounds of ", round, ", but ", schedule.microbatches,
               schedule.microbatches == 1 ? " microbatch is" : " microbatches are",
               " no whole number of them"),
        concat("nearest legal microbatches: ", nearest_multiples(schedule.microbatches, all),
               "; or use \"split\", or a schedule that flushes")};
  }
  return {};
}

/// Forwards in front of the device's first backward.
int window(const std::vector<Instruction>& order) {
  const auto backward = std::ranges::find_if(
      order, [](const Instruction& instruction) { return is_backward(instruction.op); });
  return static_cast<int>(
      std::ranges::count(order.begin(), backward, Op::forward, &Instruction::op));
}

}  // namespace

std::vector<int> round_robin_warm_up(const std::vector<int>& replicas, int microbatches) {
  std::vector<int> warm_up;
  int devices = std::accumulate(replicas.begin(), replicas.end(), 0);
  for (const int count : replicas) {
    warm_up.push_back(std::min(devices, microbatches));
    devices -= count;
  }
  return warm_up;
}

int common_multiple(const std::vector<int>& numbers) {
  std::int64_t all = 1;
  for (const int number : numbers) {
    all = std::min<std::int64_t>(std::lcm(all, std::int64_t{number}),
                                 std::numeric_limits<int>::max());
  }
  return static_cast<int>(all);
}

int update_interval(const Schedule& schedule, ReplicaPolicy policy, int replicas) {
  const bool in_rounds =
      schedule.weights == WeightPolicy::stashing && policy == ReplicaPolicy::round_robin;
  return schedule.update_every * (in_rounds ? replicas : 1);
}

int common_interval(const Schedule& schedule, ReplicaPolicy policy,
                    const std::vector<int>& replicas) {
  std::vector<int> intervals{std::max(schedule.update_every, 1)};
  for (const int count : replicas) {
    intervals.push_back(std::max(update_interval(schedule, policy, count), 1));
  }
  return common_multiple(intervals);
}

std::optional<TurnsFault> find_turns_fault(const Schedule& schedule,
                                           const std::vector<int>& replicas) {
  const auto several = std::ranges::find_if(replicas, [](const int count) { return count > 1; });
  if (several == replicas.end()) return {};
  switch (schedule.weights) {
    case WeightPolicy::flush: return {};
    case WeightPolicy::stashing: return find_round_fault(schedule, replicas);
    case WeightPolicy::double_buffered: return find_group_fault(schedule, replicas);
    case WeightPolicy::vertical_sync:
      return no_common_count(schedule, static_cast<int>(several - replicas.begin()), *several);
  }
  return {};
}

std::optional<TurnsFault> find_window_fault(const Schedule& schedule,
                                            const std::vector<int>& replicas) {
  if (schedule.weights == WeightPolicy::flush) return {};
  for (int stage = 0; stage + 1 < static_cast<int>(replicas.size()); ++stage) {
    const int own = window(schedule.devices[index(schedule.device_of_stage[index(stage)])]);
    const int next = window(schedule.devices[index(schedule.device_of_stage[index(stage + 1)])]);
    const int least = std::min(next + replicas[index(stage)] - 1, schedule.microbatches);
    if (replicas[index(stage)] == 1 || own >= least) continue;
    return TurnsFault{
        concat("with ", own, own == 1 ? " forward" : " forwards",
               " before its first backward, the ", replicas[index(stage)], " replicas of stage ",
               stage, " may wait for each other's gradients in a circle: stage ", stage + 1,
               " asks for up to ", next + replicas[index(stage)] - 1),
        concat("give stage ", stage, " a warm-up of at least ", least,
               ", or leave the warm-up out: it counts devices then")};
  }
  return {};
}

}  // namespace stagecraft
