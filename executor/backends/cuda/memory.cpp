#include "executor/backends/cuda/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "executor/backends/cuda/check.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

/// Makes a GPU the thread's for a while. Memory ends on any thread, in the middle of work on
/// another GPU; there is nothing to tell anybody if this fails.
class OnDevice {
 public:
  explicit OnDevice(int device) : before_(device) {
    (void)cudaGetDevice(&before_);
    (void)cudaSetDevice(device);
  }
  ~OnDevice() { (void)cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

int count_gpus() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "count the GPUs");
  return count;
}

}  // namespace

Memory::Memory(int device, std::shared_ptr<Partitions> partitions, int part)
    : device_(device),
      has_pools_(has_memory_pools(device)),
      is_only_gpu_(count_gpus() == 1),
      partitions_(std::move(partitions)) {
  check(cudaSetDevice(device), "use the GPU");
  if (partitions_) {
    stream_ = partitions_->make_stream(part);
  } else {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  if (!has_pools_) return;
  // What steps free, the next one asks for again.
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "find the memory pool");
  std::uint64_t keep_all = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all),
        "set up the memory pool");
}

// Nothing to tell anybody if these fail: the process is about to let go of the GPU anyway.
Memory::~Memory() {
  const OnDevice own(device_);
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
  cudaStream_t stream = raw_stream();
  const cudaError_t status =
      has_pools_ ? cudaMallocAsync(&block, size, stream) : cudaMalloc(&block, size);
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
    free(block);
  }
}

void Memory::free(void* block) const noexcept {
  const OnDevice own(device_);
  (void)(has_pools_ ? cudaFreeAsync(block, stream_) : cudaFree(block));
}

void Memory::keep_what_is_given_back() {
  const std::lock_guard lock(mutex_);
  keeps_ = true;
}

void Memory::let_go() {
  const std::lock_guard lock(mutex_);
  keeps_ = false;
  for (void* block : kept_) free(block);
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

bool has_memory_pools(int device) {
  int has = 0;
  check(cudaDeviceGetAttribute(&has, cudaDevAttrMemoryPoolsSupported, device),
        "ask for memory pools");
  return has != 0;
}

}  // namespace stagecraft::cuda
