#include "planner/analysis/requests.hpp"

#include <algorithm>

#include "planner/costs/device_limits.hpp"
#include "profiles/wide.hpp"

namespace stagecraft {

namespace {

Plan with_microbatches(Plan plan, int microbatches) {
  plan.batch.microbatches = microbatches;
  plan.batch.global = plan.batch.microbatch * microbatches;
  return plan;
}

}  // namespace

std::optional<RequestRoom> room_for_requests(const Plan& plan, const Profile& profile,
                                             const Cluster& cluster) {
  if (!serves(plan)) return std::nullopt;
  // From two on, a message may wait beside the one that is worked on.
  constexpr int few = 4;
  const Prediction some = predict(with_microbatches(plan, few), profile, cluster);
  const Prediction more = predict(with_microbatches(plan, 2 * few), profile, cluster);
  const std::vector<int> devices = lead_devices(plan);
  std::optional<RequestRoom> least;
  for (std::size_t device = 0; device < some.peaks.size(); ++device) {
    const Bytes grown = more.peaks[device].bytes - some.peaks[device].bytes;
    const std::optional<Bytes> limit = limit_of(some, device);
    if (grown <= 0 || !limit) continue;
    const Bytes alone = some.peaks[device].bytes - grown;
    const Bytes rest = std::max<Bytes>(*limit - alone, 0);
    // Microbatches, by what `few` of them add; wide, since their product is.
    const auto microbatches = static_cast<std::int64_t>(Wide{rest} * few / grown);
    const std::int64_t requests = microbatches * plan.batch.microbatch;
    if (!least || requests < least->requests)
      least = RequestRoom{requests, devices[device], grown / (few * plan.batch.microbatch)};
  }
  return least;
}

}  // namespace stagecraft
