#include "executor/backends/cuda/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "executor/backends/cuda/check.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

Memory::Memory(int device) : device_(device) {
  check(cudaSetDevice(device), "use the GPU");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  // What steps free, the next one asks for again.
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "find the memory pool");
  std::uint64_t keep_all = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all),
        "set up the memory pool");
}

// Nothing to tell anybody if these fail: the process is about to let go of the GPU anyway.
Memory::~Memory() {
  (void)cudaSetDevice(device_);
  (void)cudaStreamSynchronize(stream_);
  (void)cudaStreamDestroy(stream_);
}

cudaStream_t Memory::stream() const {
  check(cudaSetDevice(device_), "use the GPU");
  return stream_;
}

std::shared_ptr<void> Memory::allocate(Bytes bytes) {
  void* block = nullptr;
  const auto size = static_cast<std::size_t>(std::max<Bytes>(bytes, 1));
  const cudaError_t status = cudaMallocAsync(&block, size, stream());
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is told here, and not again by the next kernel
    throw Error(ErrorKind::execution,
                concat("cannot allocate ", format_bytes(bytes), " on GPU ", device_, " (",
                       format_bytes(allocated().now()), " are in use)"));
  }
  check(status, "allocate memory");
  {
    const std::lock_guard lock(mutex_);
    allocated_.add(bytes);
  }
  return {block,
          [memory = shared_from_this(), bytes](void* freed) { memory->give_back(freed, bytes); }};
}

void Memory::give_back(void* block, Bytes bytes) noexcept {
  (void)cudaFreeAsync(block, stream_);
  const std::lock_guard lock(mutex_);
  allocated_.remove(bytes);
}

ByteCount Memory::allocated() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

void Memory::reset_peak() {
  const std::lock_guard lock(mutex_);
  allocated_.reset_peak();
}

}  // namespace stagecraft::cuda
