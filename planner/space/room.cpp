#include "planner/space/room.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "planner/space/device_orders.hpp"

namespace stagecraft {

namespace {

/// Bytes of a layer over all devices that share one copy of it: tensor-parallel peers, and the
/// devices that share experts. Without training, weights alone.
double bytes_of_one_copy(const Space& space, const Setting& setting, int device, int layer) {
  const ChunkMemory share = space.whole_microbatch(setting, device)
                                .memory({layer, layer + 1}, space.problem().optimizer.kind);
  const Parallelism& parallelism = space.parallelism(setting);
  const int tensor = tensor_degree(parallelism, static_cast<std::size_t>(setting.peers));
  const auto sum = [&](Bytes parameters, Bytes gradients, Bytes optimizer) {
    return static_cast<double>(parameters) +
           (setting.trains ? static_cast<double>(gradients) + static_cast<double>(optimizer) : 0.0);
  };
  const double all = sum(share.parameters, share.gradients, share.optimizer);
  const double experts =
      sum(share.experts.parameters, share.experts.gradients, share.experts.optimizer);
  const int sharers = std::max(parallelism.expert, 1) * expert_tensor_of(parallelism, tensor);
  return tensor * (all - experts) + sharers * experts;
}

}  // namespace

bool lacks_room_for_one_copy(const Space& space) {
  double room = 0;
  for (const int device : devices_in_use(space.problem())) {
    const DeviceKind& kind = kind_of(space.cluster(), device);
    if (kind.memory_unlimited) return false;
    room += static_cast<double>(usable_memory(kind));
  }
  // Stages may have different degrees, so each layer counts with the degree of least bytes.
  std::vector<double> least(static_cast<std::size_t>(space.layers()),
                            std::numeric_limits<double>::infinity());
  std::set<std::tuple<std::int64_t, int, int, bool>> known;
  for (const Setting& setting : space.settings()) {
    if (!known.emplace(setting.microbatch, setting.peers, setting.choice, setting.trains).second) {
      continue;
    }
    for (const int device : space.one_of_each_kind(setting)) {
      for (int layer = 0; layer < space.layers(); ++layer) {
        double& bytes = least[static_cast<std::size_t>(layer)];
        bytes = std::min(bytes, bytes_of_one_copy(space, setting, device, layer));
      }
    }
  }
  return !space.settings().empty() && std::accumulate(least.begin(), least.end(), 0.0) > room;
}

bool lacks_room_for_one_copy(const Problem& problem) {
  return lacks_room_for_one_copy(Space(problem));
}

}  // namespace stagecraft
