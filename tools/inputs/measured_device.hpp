// The device that is measured: --device, --gpus and --partitions of `profile`.

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

/// For ranks that are threads of this process; or, with `one_rank`, for this process's only one,
/// which takes the GPU that its place on the host gives it unless --gpus says which. Throws Error
/// (usage) for flags that contradict each other, Error (execution) where there is no such GPU.
MeasuredDevice measured_device(const DeviceFlags& flags, bool one_rank = false);

/// The built-in kind by that name, with as much memory as the measured GPU really has.
DeviceKind kind_of_measured(const MeasuredDevice& device);

}  // namespace stagecraft
