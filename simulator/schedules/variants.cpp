#include "simulator/schedules/variants.hpp"

#include <algorithm>
#include <string>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// 1f1b: K(r) = slope * (p - r - 1) + 1 + extra, as far as memory goes. Slope 1 is the least that
/// keeps equal stages busy, slope 2 (DAPPLE's policy B) hides transfers, and what is extra hides
/// jitter.
std::vector<ScheduleShape> warm_ups(const ScheduleShape& shape, int limit) {
  const int most = std::min(limit, shape.microbatches);
  std::vector<ScheduleShape> shapes;
  for (const int slope : {1, 2}) {
    for (int extra = 0; extra < most; extra = 2 * extra + 1) {
      ScheduleShape& variant = shapes.emplace_back(shape);
      for (int r = 0; r < shape.devices; ++r) {
        variant.warm_up.push_back(std::min(most, slope * (shape.devices - r - 1) + 1 + extra));
      }
    }
  }
  return shapes;
}

/// Groups of p, 2p, … microbatches, and all of them.
std::vector<ScheduleShape> groups(const ScheduleShape& shape, int limit) {
  std::vector<ScheduleShape> shapes;
  for (int group = shape.devices; group <= std::min(limit, shape.microbatches);
       group += shape.devices) {
    shapes.emplace_back(shape).group = group;
  }
  shapes.emplace_back(shape).group = shape.microbatches;
  return shapes;
}

/// Does the schedule take the shape with this change?
template <class Change>
bool accepts(const ScheduleKind& kind, const ScheduleShape& shape, Change change) {
  ScheduleShape changed{.devices = 2,
                        .microbatches = 4,
                        .virtual_stages = shape.virtual_stages,
                        .group = {},
                        .warm_up = {}};
  change(changed);
  try {
    kind.generate(changed);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

double microbatches_held(const Schedule& schedule) {
  const std::vector<int> peaks = peak_in_flight(schedule, false);
  const int most = peaks.empty() ? 0 : *std::max_element(peaks.begin(), peaks.end());
  const double stages_per_device =
      static_cast<double>(stages_per_pipe(schedule)) / static_cast<double>(schedule.devices.size());
  return most / stages_per_device / schedule.parts;
}

std::vector<ScheduleShape> variants(const ScheduleKind& kind, const ScheduleShape& shape,
                                    int microbatches_in_flight) {
  if (!shape.warm_up.empty() || shape.group || shape.in_flight) return {shape};
  if (accepts(kind, shape, [](ScheduleShape& s) { s.warm_up = {2, 1}; })) {
    return warm_ups(shape, microbatches_in_flight);
  }
  if (accepts(kind, shape, [](ScheduleShape& s) { s.in_flight = 2; })) {
    std::vector<ScheduleShape> shapes{shape};
    shapes.front().in_flight = microbatches_in_flight;
    return shapes;
  }
  if (kind.placement == StagePlacement::loop &&
      accepts(kind, shape, [](ScheduleShape& s) { s.group = 4; })) {
    return groups(shape, microbatches_in_flight);
  }
  return {shape};
}

}  // namespace stagecraft
