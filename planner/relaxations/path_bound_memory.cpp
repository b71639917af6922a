// Constraints beside path lengths: memory peaks, and the room of each device.

#include <cmath>
#include <utility>

#include "planner/relaxations/path_bound.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// The bytes that the device holds at all times: parameters, gradients and optimizer states.
Weighting PathBound::held_always(int device) const {
  Weighting sum(costs_.stages());
  for (int s = 0; s < costs_.stages(); ++s) {
    if (costs_.device_of(s) == device) sum.stages[index(s)][Part::fixed] = 1 / costs_.limit(device);
  }
  return sum;
}

/// The bytes at a peak, if the stage whose turn it is takes time.
Weighting PathBound::held_at(const FullMoment& moment, int device) const {
  Weighting sum = held_always(device);
  const double per_byte = 1 / costs_.limit(device);
  const int turn_stage = costs_.stage_of(device, moment.turn);
  for (int s = 0; s < costs_.stages(); ++s) {
    if (costs_.device_of(s) != device) continue;
    StageParts& weights = sum.stages[index(s)];
    weights[Part::in_flight] = per_byte * moment.in_flight[index(costs_.turn_of(s))];
    weights[Part::waiting] = per_byte * moment.waiting[index(costs_.turn_of(s))];
    if (s == turn_stage) weights[Part::turn] = per_byte;
    if (s == turn_stage && moment.splits) weights[Part::split_turn] = per_byte;
  }
  return sum;
}

/// The sum, relaxed so that it only limits layouts in which the stage takes time: for others it is
/// lowered by the most that can be in flight.
Weighting PathBound::unless_idle(int stage, const Weighting& sum) const {
  double hidden = 0;
  for (int s = 0; s < costs_.stages(); ++s) {
    const StageChoices::Most& most = most_[index(s)];
    const StageParts& parts = s == stage ? most.idle : most.any;
    for (const Part part : {Part::in_flight, Part::waiting})
      hidden += sum.stages[index(s)][part] * parts[part];
  }
  Weighting limited(costs_.stages());
  limited.add(sum, 1 / (1 + hidden));
  limited.stages[index(stage)][Part::busy] = hidden / (1 + hidden);
  return limited;
}

/// Adds a memory peak. If the stage whose turn it is may take no time, the activations in flight
/// need not show at the peak.
void PathBound::add_moment(const FullMoment& moment, int device) {
  Weighting sum = held_at(moment, device);
  const int turn_stage = costs_.stage_of(device, moment.turn);
  if (!costs_.may_take_no_time(turn_stage)) return add_limit(std::move(sum), device);
  Weighting own = sum;
  for (int s = 0; s < costs_.stages(); ++s) {
    if (s != turn_stage)
      own.stages[index(s)][Part::in_flight] = own.stages[index(s)][Part::waiting] = 0;
  }
  // A sum over this stage alone needs little slack for that case; a sum over all of the device's
  // stages needs more, so both are added.
  const bool has_others = costs_.stages() > costs_.depth();
  if (has_others) add_limit(unless_idle(turn_stage, own), device);
  add_limit(unless_idle(turn_stage, sum), device);
}

void PathBound::add_moments() {
  bool may_be_idle = false;
  for (int s = 0; s < costs_.stages(); ++s) may_be_idle = may_be_idle || costs_.may_take_no_time(s);
  for (int s = 0; s < costs_.stages() && may_be_idle; ++s) {
    most_.push_back(choices_.most(s));
    spent_ += static_cast<std::int64_t>(choices_.of(s).size());
  }
  for (int device = 0; device < costs_.depth(); ++device) {
    if (!std::isfinite(costs_.limit(device))) continue;
    if (may_be_idle) add_limit(held_always(device), device);
    for (const FullMoment& moment : order_.moments[index(device)]) add_moment(moment, device);
  }
}

void PathBound::add_rooms(const BlockPacking& packing) {
  const std::vector<int> most_layers = packing.most_layers();
  if (most_layers.empty()) return;  // no limits are known
  for (int device = 0; device < costs_.depth(); ++device) {
    Weighting sum(costs_.stages());
    const int most = std::max(most_layers[index(device)], 1);
    for (int s = 0; s < costs_.stages(); ++s) {
      if (costs_.device_of(s) == device) sum.stages[index(s)][Part::layers] = 1.0 / most;
    }
    add_limit(std::move(sum), device);
  }
}

/// Adds a sum over the device's stages that must be at most 1. With one stage it only removes
/// choices, unless recomputation is per layer; else it becomes a row with a weight.
void PathBound::add_limit(Weighting unit, int device) {
  const auto is_own = [&](int s) { return costs_.device_of(s) == device; };
  int stages = 0, own = 0;
  for (int s = 0; s < costs_.stages(); ++s) {
    if (!is_own(s)) continue;
    ++stages;
    own = s;
  }
  if (stages == 1) {
    spent_ += static_cast<std::int64_t>(choices_.of(own).size());
    choices_.leave_out_single(own, unit.stages[index(own)], safe);
    // With recomputation per layer, less room costs time, so the row needs a weight as well.
    if (!choices_.layers_choose()) return;
  }
  moments_.push_back(std::make_shared<Row>(Row{.unit = std::move(unit), .is_time = false}));
}

bool PathBound::is_always_full() {
  // Choices that fit on single devices may still not form a layout.
  choices_.least(Weighting(costs_.stages()), 0, scratch_);
  for (const RowRef& row : moments_) {
    choices_.least(row->unit, safe, scratch_);
    spent_ += choices_.steps();
    if (choices_.are_none()) return true;
  }
  return choices_.are_none();
}

}  // namespace stagecraft
