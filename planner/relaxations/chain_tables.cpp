// The tables of ChainBounds: prefixes from the first stage on, suffixes from the last one.

#include <algorithm>

#include "planner/relaxations/chain_bounds.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Heads of stages that start at this layer and device: the best over what came before.
void ChainBounds::arrive(int layer, int device) {
  for (int replicas = 1; replicas <= std::min(most_replicas_, devices_ - device); ++replicas) {
    Head& head = prefix_[at(layer, device, replicas)];
    for (int before = 1; before <= std::min(most_replicas_, device); ++before) {
      const Head& leaving = leaving_[at(layer, device, before)];
      if (leaving.fill >= never) continue;
      const Transfer moved = transfer(device - before, before, replicas, layer);
      head.fill = std::min(head.fill, leaving.fill + moved.there);
      const Time both = moved.there + moved.back;
      head.fill_and_drain = std::min(head.fill_and_drain, leaving.fill_and_drain + both);
      head.fill_and_return = std::min(head.fill_and_return, leaving.fill_and_return + both);
      head.others.lower_to(leaving.others);
    }
  }
}

/// Every stage that could stand here, and when it hands on.
void ChainBounds::leave(int layer, int device, int replicas, Time limit) {
  const Head& head = prefix_[at(layer, device, replicas)];
  if (head.fill >= never) return;
  const int least = space_.problem().min_layers_per_stage;
  const int stages_left = setting_.depth ? *setting_.depth - device : 2;  // at least
  if (stages_left < 2) return;
  for (int end = std::max(layer + least, space_.first_end(layer)); end < layers_; ++end) {
    const LayerRange layers{layer, end};
    if (is_too_long(head, layers, device, replicas, limit)) break;
    const auto choice = choose(layers, device, replicas, stages_left);
    if (!choice && is_too_large(layers, device, replicas)) break;
    if (!choice) continue;
    if (bound(head, *choice, layers, device, replicas, stages_left, {0, 0}) > limit) continue;
    Head& leaving = leaving_[at(end, device + replicas, replicas)];
    leaving.fill = std::min(leaving.fill, head.fill + choice->fill);
    const Time own = choice->fill + choice->drain;
    leaving.fill_and_drain =
        std::min(leaving.fill_and_drain,
                 own + std::max(head.fill + choice->left + choice->post, head.fill_and_drain));
    leaving.fill_and_return = std::min(leaving.fill_and_return, own + head.fill_and_return);
    leaving.others.lower_to(most_of(head.others, choice->others));
  }
}

void ChainBounds::fill_prefix(Time limit, const std::stop_token& stop) {
  prefix_.assign(at(layers_, devices_, most_replicas_) + 1, {});
  leaving_ = prefix_;
  for (int replicas = 1; replicas <= most_replicas_; ++replicas) {
    prefix_[at(0, 0, replicas)] = start();
  }
  for (int device = 0; device < devices_; ++device) {
    for (int layer = device == 0 ? 0 : 1; layer < layers_; ++layer) {
      if (stop.stop_requested()) return;
      if (device > 0) arrive(layer, device);
      for (int replicas = 1; replicas <= std::min(most_replicas_, devices_ - device); ++replicas) {
        leave(layer, device, replicas, limit);
      }
      if (device == 0) break;
    }
  }
}

/// The best stage to follow one of so many replicas, with `stages` stages to go.
void ChainBounds::fill_behind(int stages) {
  auto& table = behind_[index(stages)];
  table.assign(prefix_.size(), {});
  for (int layer = 1; layer < layers_; ++layer) {
    for (int device = 1; device < devices_; ++device) {
      if (!may_have_left(device, stages)) continue;
      for (int before = 1; before <= std::min(most_replicas_, device); ++before) {
        Behind& best = table[at(layer, device, before)];
        for (int next = 1; next <= std::min(most_replicas_, devices_ - device); ++next) {
          const Step& step = suffix_[index(stages)][at(layer, device, next)];
          if (step.round_trip >= never) continue;
          const Transfer moved = transfer(device - before, before, next, layer);
          const Time trip = moved.there + step.round_trip + moved.back;
          best.best.tie = std::min(best.best.tie, step.tie);
          best.best.last_replicas = std::max(best.best.last_replicas, step.last_replicas);
          best.best.others.lower_to(step.others);
          if (trip >= best.best.round_trip) continue;
          best.best.round_trip = trip;
          best.replicas = next;
        }
      }
    }
  }
}

Beyond ChainBounds::beyond(int stages, int layer, int device, int replicas) const {
  if (stages == 0) {
    const bool ends = layer == layers_ && space_.may_end_at(setting_, device);
    return {ends ? 0 : never, end_tie(device - replicas, replicas), replicas, {}};
  }
  if (layer >= layers_ || device >= devices_) return {};
  return behind_[index(stages)][at(layer, device, replicas)].best;
}

void ChainBounds::fill_state(int stages, int layer, int device, int replicas, Time limit) {
  const Head& head = prefix_[at(layer, device, replicas)];
  if (head.fill >= never) return;
  Step& best = suffix_[index(stages)][at(layer, device, replicas)];
  const int least = space_.problem().min_layers_per_stage;
  const int first_end = stages == 1 ? layers_ : std::max(layer + least, space_.first_end(layer));
  const int last_end = std::min(space_.last_end(stages - 1), layers_ - (stages - 1) * least);
  for (int end = first_end; end <= last_end; ++end) {
    const LayerRange layers{layer, end};
    if (layers.size() < least || is_too_long(head, layers, device, replicas, limit)) return;
    const Beyond behind = beyond(stages - 1, end, device + replicas, replicas);
    if (behind.round_trip >= never) continue;
    const auto choice = choose(layers, device, replicas, stages);
    if (!choice && is_too_large(layers, device, replicas)) return;
    if (!choice) continue;
    if (bound(head, *choice, layers, device, replicas, stages, behind) > limit) continue;
    best.tie = std::min(best.tie, behind.tie);
    best.last_replicas = std::max(best.last_replicas, behind.last_replicas);
    const OtherPasses own = others(*choice, replicas, behind.last_replicas);
    best.others.lower_to(most_of(own, behind.others));
    const Time whole = choice->fill + behind.round_trip + choice->drain;
    if (whole < best.round_trip) {
      best.round_trip = whole;
      best.end = end;
      best.recompute = choice->recompute;
    }
  }
}

void ChainBounds::fill_suffix(int stages, Time limit, const std::stop_token& stop) {
  suffix_[index(stages)].assign(prefix_.size(), {});
  for (int layer = 0; layer < layers_ && !stop.stop_requested(); ++layer) {
    for (int device = 0; device < devices_; ++device) {
      if ((layer == 0) != (device == 0) || !may_have_left(device, stages)) continue;
      for (int replicas = 1; replicas <= std::min(most_replicas_, devices_ - device); ++replicas) {
        fill_state(stages, layer, device, replicas, limit);
      }
    }
  }
}

bool ChainBounds::probe(Time limit, const std::stop_token& stop) {
  fill_prefix(limit, stop);
  suffix_.assign(index(most_stages_ + 1), {});
  behind_.assign(index(most_stages_ + 1), {});
  bool open = false;
  for (int stages = 1; stages <= most_stages_ && !stop.stop_requested(); ++stages) {
    fill_suffix(stages, limit, stop);
    fill_behind(stages);
    open = open || is_open(stages);
  }
  if (!stop.stop_requested()) return open;
  suffix_.assign(index(most_stages_ + 1), {});
  return true;
}

bool ChainBounds::is_open(int stages) const {
  if (!space_.allows_stages(stages) || !may_have_left(0, stages)) return false;
  if (suffix_[index(stages)].empty()) return false;
  if (!warm_up_.empty() && warm_up_.size() != index(stages)) return false;
  for (int replicas = 1; replicas <= most_replicas_; ++replicas) {
    if (suffix_[index(stages)][at(0, 0, replicas)].round_trip < never) return true;
  }
  return false;
}

Layout ChainBounds::best_chain(int stages) const {
  int replicas = 1;
  const auto& first = suffix_[index(stages)];
  for (int other = 2; other <= most_replicas_; ++other) {
    if (first[at(0, 0, other)].round_trip < first[at(0, 0, replicas)].round_trip) replicas = other;
  }
  Layout layout;
  layout.cuts = {0};
  int device = 0;
  for (int left = stages; left > 0; --left) {
    const Step& step = suffix_[index(left)][at(layout.cuts.back(), device, replicas)];
    layout.replicas.push_back(replicas);
    layout.cuts.push_back(step.end);
    layout.recompute.push_back(step.recompute);
    device += replicas;
    if (left > 1) replicas = behind_[index(left - 1)][at(step.end, device, replicas)].replicas;
  }
  return layout;
}

}  // namespace stagecraft
