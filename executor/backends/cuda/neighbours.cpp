#include "executor/backends/cuda/neighbours.hpp"

#include <algorithm>
#include "executor/backends/cuda/check.hpp"

namespace stagecraft::cuda {

namespace {

int count_devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "count the GPUs");
  return count;
}

/// The GPU whose memory this is; -1: the process's.
int device_of(const void* data) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, data), "ask whose memory it is");
  return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

/// Memory that a pool gives out has permissions of its own.
void open_pool(int owner, int reader) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, owner), "find the memory pool");
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = reader;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  check(cudaMemPoolSetAccess(pool, &access, 1), "let a GPU look into another's memory");
}

void open_memory(int owner, int reader) {
  check(cudaSetDevice(reader), "use the GPU");
  const cudaError_t status = cudaDeviceEnablePeerAccess(owner, 0);
  if (status != cudaErrorPeerAccessAlreadyEnabled) {
    check(status, "let a GPU look into another's memory");
  }
  (void)cudaGetLastError();
  if (has_memory_pools(owner)) open_pool(owner, reader);
}

}  // namespace

std::vector<int> neighbours_of(int device) {
  std::vector<int> neighbours;
  for (int other = 0; other < count_devices(); ++other) {
    int can = 0;
    if (other == device) continue;
    check(cudaDeviceCanAccessPeer(&can, device, other), "ask who can look into whose memory");
    if (can != 0) neighbours.push_back(other);
  }
  return neighbours;
}

std::set<int> open_memory_of(const std::set<int>& others, int device) {
  std::set<int> open{device};
  for (const int other : others.size() > 1 ? neighbours_of(device) : std::vector<int>{}) {
    if (!others.contains(other)) continue;
    open_memory(other, device);
    open.insert(other);
  }
  return open;
}

bool can_use(const std::set<int>& open, const void* data) {
  const int owner = device_of(data);
  return owner < 0 || open.contains(owner);
}

void copy_between(Commands& commands, const void* from, void* to, Bytes bytes) {
  struct Key {
    const void* from;
    void* to;
    Bytes bytes;
  };
  struct Copy {};
  const int own = commands.device();
  const auto owner_of = [&](const void* data) {
    return commands.is_on_only_gpu() ? own : device_of(data);
  };
  const int source = owner_of(from), target = owner_of(to);
  const bool is_own = source == own && target == own;
  const auto size = static_cast<std::size_t>(bytes);
  commands.add(kind_of<Copy>(), Key{from, to, bytes}, [=](cudaStream_t stream) {
    const cudaError_t status = source >= 0 && target >= 0 && !is_own
                                   ? cudaMemcpyPeerAsync(to, target, from, source, size, stream)
                                   : cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream);
    check(status, "copy a tensor");
  });
}

}  // namespace stagecraft::cuda
