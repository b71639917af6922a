// A GPU's multiprocessors in parts, one for each rank that shares it: CUDA's green contexts. What a
// rank asks for runs on its own part, so ranks that share a GPU wait for each other as if each had
// one; memory, its bandwidth and the cache stay shared.

#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

namespace stagecraft::cuda {

/// One GPU in so many equal parts, while any rank uses one of them.
class Partitions {
 public:
  /// The same for all that ask. Throws Error (execution) in one sentence if the GPU cannot be
  /// divided so, or the driver cannot divide any.
  static std::shared_ptr<Partitions> of_device(int device, int parts);

  Partitions(int device, int parts);
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;
  ~Partitions();

  int multiprocessors_of_part() const { return multiprocessors_; }
  cudaStream_t make_stream(int part) const;

 private:
  int multiprocessors_ = 0;
  std::vector<CUgreenCtx> contexts_;
};

}  // namespace stagecraft::cuda
