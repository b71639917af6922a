#include "planner/space/room.hpp"

#include <algorithm>
#include <limits>

#include "planner/space/device_orders.hpp"

namespace stagecraft {

namespace {

/// Of all layers, as one device of the setting has its share of them. Peers have parts each, and
/// those who share experts have parts of these. Without training there are weights alone.
double bytes_of_one_copy(const Space& space, const Setting& setting, int device) {
  const ChunkMemory share = space.whole_microbatch(setting, device)
                                .memory({0, space.layers()}, space.problem().optimizer.kind);
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
  double least = std::numeric_limits<double>::infinity();
  for (const Setting& setting : space.settings()) {
    for (const int device : space.one_of_each_kind(setting))
      least = std::min(least, bytes_of_one_copy(space, setting, device));
  }
  return least > room && !space.settings().empty();
}

bool lacks_room_for_one_copy(const Problem& problem) {
  return lacks_room_for_one_copy(Space(problem));
}

}  // namespace stagecraft
