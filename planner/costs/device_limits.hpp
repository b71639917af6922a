// How much memory the devices of a plan may use, beside `device_peaks`.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// Of a program's device, as `Prediction::memory_limits` have it; nothing: unlimited.
std::optional<Bytes> limit_of(const Prediction& prediction, std::size_t lead);

/// Of all devices the plan uses, in device order.
std::vector<std::optional<Bytes>> device_limits(const Plan& plan, const Prediction& prediction);

/// "48.1GiB of 39.5GiB"; where both look alike, by how much, too.
std::string needed_of(Bytes needed, Bytes limit);

}  // namespace stagecraft
