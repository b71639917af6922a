// The device to measure: --device, --gpus and --partitions of `profile`.

#pragma once

#include <string>

#include "executor/measurement/measure.hpp"
#include "profiles/cluster.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given.
struct DeviceFlags {
  std::string device = "cpu", gpus;
  int partitions = 1;
};

void declare_device(CLI::App& app, DeviceFlags& flags);

/// The device for ranks that are threads of this process; or, with `one_rank`, for this process's
/// single rank, which takes the GPU of its number on the host unless --gpus names one. Throws Error
/// (usage) for contradicting flags, Error (execution) if there is no such GPU.
MeasuredDevice measured_device(const DeviceFlags& flags, bool one_rank = false);

/// The built-in kind with this name, with the real memory of the measured GPU.
DeviceKind kind_of_measured(const MeasuredDevice& device);

}  // namespace stagecraft
