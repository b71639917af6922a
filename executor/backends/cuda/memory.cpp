#include "executor/backends/cuda/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "executor/backends/cuda/check.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

Memory::Memory(int device, std::shared_ptr<Partitions> partitions, int part)
    : device_(device), partitions_(std::move(partitions)) {
  check(cudaSetDevice(device), "use the GPU");
  if (partitions_) {
    stream_ = partitions_->make_stream(part);
  } else {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
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

cudaStream_t Memory::raw_stream() const {
  check(cudaSetDevice(device_), "use the GPU");
  return stream_;
}

void* Memory::take(Bytes bytes) {
  void* block = nullptr;
  const auto size = static_cast<std::size_t>(std::max<Bytes>(bytes, 1));
  const cudaError_t status = cudaMallocAsync(&block, size, raw_stream());
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is told here, and not again by the next kernel
    throw Error(ErrorKind::execution,
                concat("cannot allocate ", format_bytes(bytes), " on GPU ", device_, " (",
                       format_bytes(allocated().now()), " are in use)"));
  }
  check(status, "allocate memory");
  return block;
}

std::shared_ptr<void> Memory::allocate(Bytes bytes) {
  void* block = take(bytes);
  count(bytes);
  return {block,
          [memory = shared_from_this(), bytes](void* freed) { memory->give_back(freed, bytes); }};
}

std::shared_ptr<void> Memory::allocate_uncounted(Bytes bytes) {
  return {take(bytes), [memory = shared_from_this()](void* freed) { memory->give_back(freed, 0); }};
}

void Memory::give_back(void* block, Bytes counted) noexcept {
  const std::lock_guard lock(mutex_);
  allocated_.remove(counted);
  if (keeps_) {
    kept_.push_back(block);
  } else {
    (void)cudaFreeAsync(block, stream_);
  }
}

void Memory::keep_what_is_given_back() {
  const std::lock_guard lock(mutex_);
  keeps_ = true;
}

void Memory::let_go() {
  const std::lock_guard lock(mutex_);
  keeps_ = false;
  for (void* block : kept_) (void)cudaFreeAsync(block, stream_);
  kept_.clear();
}

void Memory::count(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  allocated_.add(bytes);
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
