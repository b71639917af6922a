// Memory limits of a plan's devices, to be compared with `device_peaks`.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// The limit of a program's device from `Prediction::memory_limits`; nothing: unlimited.
std::optional<Bytes> limit_of(const Prediction& prediction, std::size_t lead);

/// The limits of all devices that the plan uses, in device order.
std::vector<std::optional<Bytes>> device_limits(const Plan& plan, const Prediction& prediction);

/// "48.1GiB of 39.5GiB"; with the difference if both round to the same text.
std::string needed_of(Bytes needed, Bytes limit);

}  // namespace stagecraft
