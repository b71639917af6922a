#include "planner/baselines/own_figures.hpp"

#include <algorithm>
#include <numeric>

#include "planner/costs/device_memory.hpp"
#include "profiles/error.hpp"
#include "profiles/peer_messages.hpp"

namespace stagecraft {

namespace {

constexpr double most_bytes = 1e18;  // as many as `Bytes` hold, about

}  // namespace

int usable_devices(const Problem& problem) {
  const int available = device_count(problem.cluster);
  return std::min(problem.devices.value_or(available), available);
}

double usable_memory(const Problem& problem) {
  DeviceKind kind = kind_of(problem.cluster, 0);
  if (kind.memory_unlimited) return unlimited_memory;
  take_part_of_memory(kind, problem.memory_fraction);
  return static_cast<double>(usable_memory(kind));
}

SearchResult no_stages(const NoStages& why) {
  SearchResult result{.plans = {}, .infeasible = {}, .strategy = std::string(why.strategy)};
  const std::string reason =
      why.otherwise.empty()
          ? concat(why.none, " ", why.counts, ", into ",
                   format_bytes(static_cast<Bytes>(std::min(why.memory, most_bytes))), " each")
          : concat(why.none, ", whatever their memory: ", why.otherwise);
  result.infeasible = Infeasible{.reason = reason, .short_by = 0, .remedies = {}};
  return result;
}

Link slowest_link(const Problem& problem) {
  std::vector<int> devices(static_cast<std::size_t>(usable_devices(problem)));
  if (devices.size() < 2) return {};
  std::iota(devices.begin(), devices.end(), 0);
  return group_link(problem.cluster, devices);
}

namespace {

CostSetting setting_of(const Problem& problem, int tensor_parallel) {
  const DeviceKind& kind = kind_of(problem.cluster, 0);
  return {.device = kind.generic ? "generic" : kind.name,
          .microbatch = problem.microbatches.front(),
          .sequence = problem.sequence,
          .tensor_parallel = tensor_parallel,
          .precision = problem.precision,
          .kernels = problem.kernels};
}

}  // namespace

bool was_measured(const Problem& problem, int tensor_parallel) {
  return find_entry(problem.profile, setting_of(problem, tensor_parallel)) != nullptr;
}

std::vector<LayerCost> costs_at(const Problem& problem, int tensor_parallel) {
  return costs_with_messages(problem.profile, problem.cluster, kind_of(problem.cluster, 0),
                             setting_of(problem, tensor_parallel));
}

}  // namespace stagecraft
