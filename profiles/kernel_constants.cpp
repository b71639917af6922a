#include "profiles/kernel_constants.hpp"

namespace stagecraft {

KernelConstants usual_constants(std::string_view device) {
  KernelConstants constants;
  // Rounded from what the single-node measurements of vTrain give on A100.
  constants.product_rate = 0.88;
  constants.product_depth = 65;
  constants.product_outputs = 2e6;
  constants.memory_rate = 0.7;
  constants.kernel_seconds = 4.5e-6;
  constants.message_seconds = 1.7e-5;
  constants.peer_seconds = 3.6e-6;
  // Narayanan et al. 2021, section 5.9: all-reduces of replicas cross the bisection with 13 TB/s on
  // 3072 devices, 8.5 GB/s for each port of 25.
  if (device.starts_with("a100")) constants.between_rate = 0.4;
  // A core calls its kernels itself, and fills them with few rows.
  if (device == "cpu") {
    constants.product_depth = 16;
    constants.product_outputs = 500;
    constants.attention_length = 16;
    constants.kernel_seconds = 1e-6;
    constants.host_seconds = 1e-7;
  }
  return constants;
}

}  // namespace stagecraft
