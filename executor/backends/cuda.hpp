// The CUDA backend, as the rest of the program sees it. It lives in a module
// (executor/driver/modules.hpp, backends/cuda/), so that the program starts quickly and runs where
// there is no GPU.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/backends/backend.hpp"

namespace stagecraft {

/// Whether an instruction's calls are recorded, and launched in one piece: CUDA graphs.
enum class GraphUse {
  automatic,  ///< where they can be, else call by call, with a remark
  on,         ///< it is an error if they cannot
  off,        ///< call by call
};

/// Rows of logits begin at multiples of so many bytes: products with rows of an odd vocabulary are
/// several times as slow.
inline constexpr Bytes cuda_row_alignment = 128;

struct CudaOptions {
  std::string asked_for = "--backend cuda";  ///< named by errors
  GraphUse graphs = GraphUse::automatic;
  /// The same bits whenever the same is computed; without it attention's gradients may be added up
  /// in any order, which takes less memory.
  bool deterministic = true;
  bool ranges = false;      ///< every instruction is a range that profilers show (NVTX)
  std::vector<int> gpus;    ///< of rank 0, 1 …, and from the start again; empty: all there are
  bool partitions = false;  ///< ranks that share a GPU have a part of its multiprocessors each
  int ranks = 1;            ///< that are threads of this process
  /// Told what the user should know, on any thread; may be empty.
  std::function<void(const std::string&)> remark;
};

/// For this rank. fp32 and bf16; no convolutions and pools. Throws Error (execution) in one
/// sentence if the program was built without CUDA, or there is no driver or GPU.
std::unique_ptr<Backend> make_cuda_backend(int rank, const CudaOptions& options = {});

/// What the module finds on this machine.
struct CudaDevice {
  std::string name;
  std::string capability;  ///< "9.0"
  Bytes memory = 0;
  int multiprocessors = 0;
  int clock_megahertz = 0;  ///< the highest, as the next
  int memory_clock_megahertz = 0;
  std::vector<int> peers;  ///< GPUs whose memory it can look into
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
