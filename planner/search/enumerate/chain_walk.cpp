#include "planner/search/enumerate/chain_walk.hpp"

namespace stagecraft {

void ChainWalk::walk(int stages) {
  stages_ = stages;
  path_.clear();
  choose_kind(0, 0);
}

void ChainWalk::choose_kind(int layer, int device) {
  for (std::size_t kind = 0; kind < bounds_.kinds().size(); ++kind) {
    const StageKind& next = bounds_.kinds()[kind];
    if (!bounds_.stands(next, device)) continue;
    Head head = StageBounds::start();
    if (!path_.empty()) {
      const Place& before = path_.back();
      head = bounds_.after(before.head, before.choice, kind_of(before).replicas, device,
                           next.replicas, layer);
    }
    path_.push_back({.kind = static_cast<int>(kind), .device = device, .head = head});
    choose_end(layer);
    path_.pop_back();
  }
}

void ChainWalk::choose_end(int first) {
  const auto number = static_cast<int>(path_.size()) - 1;
  const int left = stages_ - number;
  const StageKind& kind = kind_of(path_.back());
  const StageBounds& stage = bounds_.stage(kind);
  const int own = ChainBounds::own_device(kind, path_.back().device);
  const int next = path_.back().device + kind.devices();
  for (int end = left == 1 ? space_.layers() : space_.first_end(first); end <= space_.layers();
       ++end) {
    if (gives_up()) return;
    count_step();
    Place& place = path_.back();
    place.layers = {first, end};
    if (stage.is_too_long(place.head, place.layers, own, kind.replicas, limit())) return;
    if (!space_.allows(number, place.layers)) continue;
    const Beyond beyond = bounds_.beyond(left - 1, end, next, kind.replicas);
    if (beyond.round_trip >= never) continue;
    const auto choice = stage.choose(place.layers, own, kind.replicas, left);
    if (!choice && stage.is_too_large(place.layers, own, kind.replicas)) return;
    if (!choice) continue;
    if (stage.bound(place.head, *choice, place.layers, own, kind.replicas, left, beyond) >
        limit()) {
      count_pruned();
      continue;
    }
    place.choice = *choice;
    left > 1 ? choose_kind(end, next) : visit();
  }
}

}  // namespace stagecraft
