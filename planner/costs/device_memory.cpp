#include "planner/costs/device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

void give_memory(DeviceKind& kind, Bytes memory) {
  kind.memory = memory;
  kind.memory_unlimited = false;
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

std::string why_nothing_left(const Cluster& cluster) {
  for (const DeviceKind& kind : cluster.kinds) {
    if (kind.memory_unlimited || kind.reserve == 0 || kind.memory > kind.reserve) continue;
    return concat(format_bytes(kind.memory), " of each ", kind.name,
                  " leave nothing for training: ", format_bytes(kind.reserve),
                  " are taken before it (", kind.reserve_source, ")");
  }
  return {};
}

void take_part_of_memory(DeviceKind& kind, double part) {
  if (kind.memory_unlimited || part >= 1) return;
  const auto memory = static_cast<Bytes>(static_cast<double>(kind.memory) * part);
  kind.memory = std::max(memory, kind.reserve);
}

void take_memory_of_question(Cluster& cluster, const Plan& plan) {
  const std::vector<std::optional<Bytes>> asked = asked_memory(cluster, plan);
  for (std::size_t kind = 0; kind < asked.size(); ++kind) {
    if (cluster.kinds[kind].memory_unlimited && asked[kind])
      give_memory(cluster.kinds[kind], *asked[kind] + cluster.kinds[kind].reserve);
  }
}

std::string other_memory(const Cluster& cluster, const Plan& plan) {
  const std::vector<std::optional<Bytes>> asked = asked_memory(cluster, plan);
  for (const int device : used_devices(plan)) {
    const int which = cluster.devices[static_cast<std::size_t>(device)];
    const DeviceKind& kind = cluster.kinds[static_cast<std::size_t>(which)];
    const std::optional<Bytes>& memory = asked[static_cast<std::size_t>(which)];
    if (kind.memory_unlimited || !memory || *memory == usable_memory(kind)) continue;
    const Bytes whole = *memory + kind.reserve;
    return concat("the plan was made for ", format_bytes(whole), " of each ", kind.name,
                  ", but is judged by all of its memory, ", format_bytes(kind.memory),
                  "; --memory ", exact_bytes(whole), " asks about the former");
  }
  return {};
}

std::string rounded_up(Bytes bytes) {
  constexpr std::array names{"B", "KiB", "MiB", "GiB"};
  std::size_t which = 0;
  double number = static_cast<double>(bytes);
  for (; number >= 1024 && which + 1 < names.size(); ++which) number /= 1024;
  if (number < 10 && which > 0)
    return fmt::format("{:.2g}{}", std::ceil(number * 10) / 10, names[which]);
  return fmt::format("{:.0f}{}", std::ceil(number), names[which]);
}

}  // namespace stagecraft
