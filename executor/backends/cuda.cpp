#include "executor/backends/cuda.hpp"

#include "executor/modules.hpp"

namespace stagecraft {

std::unique_ptr<Backend> make_cuda_backend(int rank) {
  using Make = Backend*(int rank);
  auto* make = reinterpret_cast<Make*>(
      module_entry("cuda", "stagecraft_make_cuda_backend", "--backend cuda"));
  return std::unique_ptr<Backend>(make(rank));
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
