#include "planner/costs/request_room.hpp"

#include <algorithm>

#include "planner/costs/device_limits.hpp"
#include "profiles/wide.hpp"

namespace stagecraft {

namespace {

Plan with_microbatches(Plan plan, std::int64_t rows, int microbatches) {
  plan.batch.microbatch = rows;
  plan.batch.microbatches = microbatches;
  plan.batch.global = rows * microbatches;
  return plan;
}

/// With passes of so many requests.
std::optional<RequestRoom> room_with_rows(const Plan& plan, std::int64_t rows,
                                          const Profile& profile, const Cluster& cluster) {
  // From two on, a message may wait beside the one that is worked on.
  constexpr int few = 4;
  const Prediction some = predict(with_microbatches(plan, rows, few), profile, cluster);
  const Prediction more = predict(with_microbatches(plan, rows, 2 * few), profile, cluster);
  const std::vector<int> devices = lead_devices(plan);
  const auto use = [](const MemoryPeak& peak, MemoryCategory category) {
    return peak.use[static_cast<std::size_t>(category)];
  };
  std::optional<RequestRoom> least;
  for (std::size_t device = 0; device < some.peaks.size(); ++device) {
    const MemoryPeak& peak = some.peaks[device];
    const Bytes grown = more.peaks[device].bytes - peak.bytes;
    const std::optional<Bytes> limit = limit_of(some, device);
    if (grown <= 0 || !limit) continue;
    const Bytes alone = peak.bytes - grown;
    const Bytes rest = std::max<Bytes>(*limit - alone, 0);
    // Of what `few` microbatches add; wide, since the product is.
    const auto requests = static_cast<std::int64_t>(Wide{rest} * few * rows / grown);
    if (least && requests >= least->requests) continue;
    const Bytes weights = use(peak, MemoryCategory::parameters);
    const Bytes reserve = use(peak, MemoryCategory::reserve);
    least = RequestRoom{.requests = requests,
                        .device = devices[device],
                        .each = grown / (few * rows),
                        .weights = weights,
                        .pass = alone - weights - reserve,
                        .reserve = reserve,
                        .limit = *limit};
  }
  return least;
}

/// Whole microbatches, each of which a pass computes.
std::optional<RequestRoom> room_for_microbatches(const Plan& plan, const Profile& profile,
                                                 const Cluster& cluster) {
  const std::int64_t rows = plan.batch.microbatch;
  std::optional<RequestRoom> room = room_with_rows(plan, rows, profile, cluster);
  if (room) room->requests = room->requests / rows * rows;
  return room;
}

/// More requests make passes fuller, until chunks are full: the most that there is room for.
std::optional<RequestRoom> room_in_chunks(const Plan& plan, const Profile& profile,
                                          const Cluster& cluster) {
  const std::int64_t given = plan.batch.sequence;
  const std::int64_t prompt = std::max<std::int64_t>(given > 0 ? given : profile.model.sequence, 1);
  const std::int64_t full = (requests_of(plan).chunk + prompt - 1) / prompt;
  std::optional<RequestRoom> room = room_with_rows(plan, full, profile, cluster);
  if (!room || room->requests >= full) return room;
  std::int64_t least = 0, most = full;  // passes of `least` have room for them, those of `most` not
  std::optional<RequestRoom> best = room_with_rows(plan, 1, profile, cluster);
  best->requests = 0;
  while (most - least > 1) {
    const std::int64_t rows = least + (most - least) / 2;
    room = room_with_rows(plan, rows, profile, cluster);
    const bool fits = room->requests >= rows;
    (fits ? least : most) = rows;
    if (fits) best = room;
  }
  best->requests = least;
  return best;
}

}  // namespace

Plan of_one_replica(Plan plan) {
  for (Stage& stage : plan.stages) stage.devices.resize(1);
  return plan;
}

std::optional<RequestRoom> room_for_requests(const Plan& plan, const Profile& profile,
                                             const Cluster& cluster) {
  if (!serves(plan)) return std::nullopt;
  if (!plan.requests) return room_for_microbatches(plan, profile, cluster);
  std::optional<RequestRoom> room = room_in_chunks(of_one_replica(plan), profile, cluster);
  if (room) room->requests *= replicas_of_stages(plan).front();
  return room;
}

}  // namespace stagecraft
