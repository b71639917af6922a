// Memory of one rank on one GPU: exact counters over CUDA's own pool, in the order of the rank's
// stream, so that what is freed is used again without waiting.

#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>

#include "executor/backends/byte_count.hpp"

namespace stagecraft::cuda {

/// Also owns the stream, for blocks are freed in its order. Blocks may be freed on any thread; the
/// last one alive keeps the Memory alive.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  explicit Memory(int device);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /// Makes the GPU the calling thread's; whoever asks for something on it calls this before.
  cudaStream_t stream() const;

  /// Uninitialised, aligned to 256 bytes, counted as exactly `bytes`. Throws Error (execution) if
  /// there is not enough.
  std::shared_ptr<void> allocate(Bytes bytes);

  ByteCount allocated() const;
  void reset_peak();

 private:
  void give_back(void* block, Bytes bytes) noexcept;

  int device_;
  cudaStream_t stream_ = nullptr;
  mutable std::mutex mutex_;
  ByteCount allocated_;
};

}  // namespace stagecraft::cuda
