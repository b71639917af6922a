#include "planner/costs/device_memory.hpp"

#include <algorithm>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

void give_memory(DeviceKind& kind, Bytes memory) {
  kind.memory = memory;
  kind.memory_unlimited = false;
  kind.reserve = 0;  // what is given may be used
}

/// What the plan was made for, of each of the cluster's kinds; nothing where it does not say so.
std::vector<std::optional<Bytes>> asked_memory(const Cluster& cluster, const Plan& plan) {
  const bool asks = plan.search && plan.search->question &&
                    plan.search->question->memory.size() == cluster.kinds.size();
  if (!asks) return std::vector<std::optional<Bytes>>(cluster.kinds.size());
  return plan.search->question->memory;
}

}  // namespace

void give_memory(Cluster& cluster, Bytes memory) {
  for (DeviceKind& kind : cluster.kinds) give_memory(kind, memory);
}

void take_part_of_memory(DeviceKind& kind, double part) {
  if (kind.memory_unlimited || part >= 1) return;
  const auto usable = static_cast<double>(usable_memory(kind));
  kind.memory = static_cast<Bytes>(usable * part) + kind.reserve;
}

void take_memory_of_question(Cluster& cluster, const Plan& plan) {
  const std::vector<std::optional<Bytes>> asked = asked_memory(cluster, plan);
  for (std::size_t kind = 0; kind < asked.size(); ++kind) {
    if (cluster.kinds[kind].memory_unlimited && asked[kind])
      give_memory(cluster.kinds[kind], *asked[kind]);
  }
}

std::string other_memory(const Cluster& cluster, const Plan& plan) {
  const std::vector<std::optional<Bytes>> asked = asked_memory(cluster, plan);
  for (const int device : used_devices(plan)) {
    const int which = cluster.devices[static_cast<std::size_t>(device)];
    const DeviceKind& kind = cluster.kinds[static_cast<std::size_t>(which)];
    const std::optional<Bytes>& memory = asked[static_cast<std::size_t>(which)];
    if (kind.memory_unlimited || !memory || *memory == usable_memory(kind)) continue;
    return concat("the plan was made for ", format_bytes(*memory), " of each ", kind.name,
                  ", but is judged by all that may be used, ", format_bytes(usable_memory(kind)),
                  "; --memory ", exact_bytes(*memory), " asks about the former");
  }
  return {};
}

}  // namespace stagecraft
