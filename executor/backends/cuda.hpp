// The CUDA backend, as the rest of the program sees it. It lives in a module (executor/modules.hpp,
// backends/cuda/), so that the program starts quickly and runs where there is no GPU.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/backend.hpp"

namespace stagecraft {

/// For rank `rank`: the GPU of that number, or, if there are fewer, the one that its number falls
/// on in turn. fp32 and bf16; no convolutions and pools. Throws Error (execution) in one sentence
/// if the program was built without CUDA, or there is no driver or GPU.
std::unique_ptr<Backend> make_cuda_backend(int rank);

/// What the module finds on this machine.
struct CudaDevice {
  std::string name;
  std::string capability;  ///< "9.0"
  Bytes memory = 0;
  int multiprocessors = 0;
  int clock_megahertz = 0;  ///< the highest, as the next
  int memory_clock_megahertz = 0;
};
struct CudaReport {
  std::string driver;   ///< the newest CUDA version it serves, "13.0"; empty: there is none
  std::string runtime;  ///< versions of the libraries, as loaded
  std::string cublas;
  std::string cudnn;
  std::vector<CudaDevice> devices;
};

/// Throws Error (execution) if the program was built without CUDA, or a library is missing.
CudaReport describe_cuda();

}  // namespace stagecraft
