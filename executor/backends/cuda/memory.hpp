// Memory of one rank on one GPU: exact counters over CUDA's own pool, in the order of the rank's
// stream, so that what is freed is used again without waiting. Without a pool, allocations wait for
// the whole GPU; a run's arenas are few.

#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "executor/backends/byte_count.hpp"
#include "executor/backends/cuda/partitions.hpp"

namespace stagecraft::cuda {

/// Also owns the stream, for blocks are freed in its order. Blocks may be freed on any thread; the
/// last one alive keeps the Memory alive.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  /// On this part of the GPU, if it is divided.
  explicit Memory(int device, std::shared_ptr<Partitions> partitions = {}, int part = 0);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /// Makes the GPU the calling thread's; whoever asks for something on it calls this before. What
  /// has been collected (see commands.hpp) is not on the stream yet.
  cudaStream_t raw_stream() const;
  int device() const { return device_; }
  /// Whether the process sees no other GPU: then nobody need ask whose memory something is.
  bool is_only_gpu() const { return is_only_gpu_; }
  /// That the stream's work can use; 0: all there are.
  int multiprocessors() const { return partitions_ ? partitions_->multiprocessors_of_part() : 0; }

  /// Uninitialised, aligned to 256 bytes, counted as exactly `bytes`. Throws Error (execution) if
  /// there is not enough.
  std::shared_ptr<void> allocate(Bytes bytes);
  /// For whoever counts what is used of it.
  std::shared_ptr<void> allocate_uncounted(Bytes bytes);
  void count(Bytes bytes);
  /// What is given back in between stays until the second call: calls that use it may be collected,
  /// and not on the stream yet.
  void keep_what_is_given_back();
  void let_go();

  ByteCount allocated() const;
  void reset_peak();

 private:
  void* take(Bytes bytes);
  void give_back(void* block, Bytes counted) noexcept;
  void free(void* block) const noexcept;

  int device_;
  bool has_pools_, is_only_gpu_;
  std::shared_ptr<Partitions> partitions_;
  cudaStream_t stream_ = nullptr;
  mutable std::mutex mutex_;
  ByteCount allocated_;
  bool keeps_ = false;
  std::vector<void*> kept_;
};

/// Whether the GPU has memory pools: a part of one that a virtual machine is lent may have none.
bool has_memory_pools(int device);

}  // namespace stagecraft::cuda
