#include "executor/backends/cuda.hpp"

#include "executor/driver/modules.hpp"

namespace stagecraft {

std::unique_ptr<Backend> make_cuda_backend(int rank, const CudaOptions& options) {
  using Make = Backend*(int rank, const CudaOptions& options);
  auto* make = reinterpret_cast<Make*>(
      module_entry("cuda", "stagecraft_make_cuda_backend", options.asked_for));
  return std::unique_ptr<Backend>(make(rank, options));
}

CudaReport describe_cuda() {
  using Describe = void(CudaReport & report);
  auto* describe =
      reinterpret_cast<Describe*>(module_entry("cuda", "stagecraft_describe_cuda", "CUDA"));
  CudaReport report;
  describe(report);
  return report;
}

}  // namespace stagecraft
