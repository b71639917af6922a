// The functions of CUDA's runtime that the backend calls: devices, memory, copies.

#include <cstring>

#include "profiles/error.hpp"
#include "tests/cuda/stand_in/machine.hpp"

using namespace stagecraft;
using namespace stagecraft::stand_in;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

Block* block_of(const void* address) {
  return state().find(address);
}

bool is_device_memory(const void* address) {
  const Block* block = block_of(address);
  return block != nullptr && !block->is_pinned;
}

bool is_pinned(const void* address) {
  const Block* block = block_of(address);
  return block != nullptr && block->is_pinned && !block->is_free;
}

bool is_device(int device) {
  return 0 <= device && device < state().machine.devices;
}

void require_current(int device, std::string_view call) {
  if (device != current_device()) complain(call, "while another GPU is the thread's");
}

/// Between memories, later; `call` is already known to be legal.
cudaError_t copy_later(Stream& stream, std::string_view call, void* to, const void* from,
                       std::size_t bytes) {
  const bool put_well = put(stream, {.call = std::string(call),
                                     .work =
                                         [=] {
                                           require_usable(from, bytes);
                                           require_usable(to, bytes);
                                           std::memcpy(to, from, bytes);
                                         },
                                     .nanoseconds = 500.0 + static_cast<double>(bytes) / 16,
                                     .needs = nullptr,
                                     .records = nullptr});
  return put_well ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

/// What the process may do with its memory as soon as the call has returned is copied at once; what
/// CUDA copies to such memory is there when the call returns.
cudaError_t copy_ordinary(Stream& stream, void* to, const void* from, std::size_t bytes) {
  if (is_device_memory(to)) {
    auto kept = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(kept->data(), from, bytes);
    put(stream, {.call = "cudaMemcpyAsync",
                 .work =
                     [=] {
                       require_usable(to, bytes);
                       std::memcpy(to, kept->data(), bytes);
                     },
                 .nanoseconds = 500.0 + static_cast<double>(bytes) / 16,
                 .needs = nullptr,
                 .records = nullptr});
    return cudaSuccess;
  }
  ++state().counts.host_waits;
  copy_later(stream, "cudaMemcpyAsync", to, from, bytes);
  state().carry_out(stream);
  return cudaSuccess;
}

}  // namespace

extern "C" {

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default: break;
  }
  static thread_local std::string words;
  words = concat("error ", static_cast<int>(status));
  const std::vector<std::string> all = complaints();
  if (!all.empty()) words += " (" + all.back() + ")";
  return words.c_str();
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = state().machine.devices;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->totalGlobalMem = std::size_t{8} << 30;
  properties->multiProcessorCount = state().machine.multiprocessors;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return cudaErrorInvalidDevice;
  constexpr int kilohertz = 1'000'000;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = state().machine.multiprocessors; break;
    case cudaDevAttrMemoryPoolsSupported: *value = state().machine.memory_pools ? 1 : 0; break;
    default: *value = kilohertz;
  }
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return cudaErrorInvalidDevice;
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return cudaErrorInvalidDevice;
  *can = state().machine.peer_access && device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  const Lock lock(state().mutex);
  if (!state().machine.peer_access || !is_device(peer)) return cudaErrorInvalidDevice;
  const bool is_new = state().peers.emplace(current_device(), peer).second;
  return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const Lock lock(state().mutex);
  *attributes = {};
  const Block* block = block_of(data);
  if (block == nullptr) return cudaSuccess;
  attributes->type = block->is_pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = block->device;
  return cudaSuccess;
}

// --- Memory --------------------------------------------------------------------------------------

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (!is_device(device)) return cudaErrorInvalidDevice;
  if (!state().machine.memory_pools) return cudaErrorNotSupported;
  *pool = reinterpret_cast<cudaMemPool_t>(static_cast<std::uintptr_t>(device) + 1);
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                 std::size_t count) {
  const Lock lock(state().mutex);
  const int owner = static_cast<int>(reinterpret_cast<std::uintptr_t>(pool)) - 1;
  for (std::size_t i = 0; i < count; ++i) {
    const int device = list[i].location.id;
    if (!state().machine.peer_access || !is_device(device)) return cudaErrorInvalidDevice;
    state().pool_peers.emplace(device, owner);
  }
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const Lock lock(state().mutex);
  if (recordings_of_thread() > 0) {
    for (auto& [key, stream] : state().streams) refuse_while_recording(key, "cudaMalloc");
    return cudaErrorStreamCaptureUnsupported;
  }
  *data = state().allocate(bytes, {.device = current_device(), .is_ready = true});
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  const Lock lock(state().mutex);
  if (data == nullptr) return cudaSuccess;
  // It waits for the device.
  ++state().counts.host_waits;
  for (auto& [key, stream] : state().streams) {
    if (!stream->recorded) state().carry_out(*stream);
  }
  const Block* block = block_of(data);
  if (block == nullptr || block->is_free) {
    complain("cudaFree", "gives back what is not allocated");
    return cudaErrorInvalidValue;
  }
  require_current(block->device, "cudaFree");
  state().release(data);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  const Lock lock(state().mutex);
  if (recordings_of_thread() > 0) return cudaErrorStreamCaptureUnsupported;
  *data = state().allocate(bytes, {.device = -1, .is_ready = true, .is_pinned = true});
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  return cudaHostAlloc(data, bytes, 0);
}

cudaError_t cudaFreeHost(void* data) {
  const Lock lock(state().mutex);
  for (auto& [key, stream] : state().streams) {
    if (!stream->recorded) state().carry_out(*stream);
  }
  state().release(data);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** data, std::size_t bytes, cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaMallocAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (!state().machine.memory_pools) return cudaErrorNotSupported;
  // It may be part of a graph, which then owns the memory; nobody here wants that.
  if (refuse_while_recording(stream, "cudaMallocAsync")) return cudaErrorStreamCaptureUnsupported;
  if (bytes > std::size_t{4} << 30) return cudaErrorMemoryAllocation;
  void* made = state().allocate(bytes, {.device = stream->device, .is_pooled = true});
  if (made == nullptr) return cudaErrorMemoryAllocation;
  put(*stream, {.call = "cudaMallocAsync",
                .work = [made] { block_of(made)->is_ready = true; },
                .needs = nullptr,
                .records = nullptr});
  *data = made;
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaFreeAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  require_current(stream->device, "cudaFreeAsync");
  if (refuse_while_recording(stream, "cudaFreeAsync")) return cudaErrorStreamCaptureUnsupported;
  put(*stream, {.call = "cudaFreeAsync",
                .work =
                    [data] {
                      const Block* block = block_of(data);
                      if (block == nullptr || block->is_free) {
                        return complain("cudaFreeAsync", "gives back what is not allocated");
                      }
                      state().release(data);
                    },
                .needs = nullptr,
                .records = nullptr});
  return cudaSuccess;
}

// --- Copies --------------------------------------------------------------------------------------

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaMemcpyAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const auto is_known = [](const void* data) { return is_device_memory(data) || is_pinned(data); };
  if (is_known(to) && is_known(from)) {
    return copy_later(*stream, "cudaMemcpyAsync", to, from, bytes);
  }
  if (refuse_while_recording(stream, "cudaMemcpyAsync")) return cudaErrorStreamCaptureUnsupported;
  return copy_ordinary(*stream, to, from, bytes);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaMemcpyPeerAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const auto require_device = [](const void* data, int device) {
    const Block* block = block_of(data);
    if (block != nullptr && block->device == device) return;
    complain("cudaMemcpyPeerAsync", concat("is told that memory is device ", device, "'s"));
  };
  require_device(to, to_device);
  require_device(from, from_device);
  ++state().counts.peer_copies;
  // It needs no access: the driver goes through the process where there is none.
  const auto is_usable = [](const Block* block) { return block->is_ready && !block->is_free; };
  put(*stream, {.call = "cudaMemcpyPeerAsync",
                .work =
                    [=] {
                      if (!is_usable(block_of(to)) || !is_usable(block_of(from))) {
                        complain("cudaMemcpyPeerAsync", "uses memory that is not allocated now");
                      }
                      std::memcpy(to, from, bytes);
                    },
                .nanoseconds = 2000.0 + static_cast<double>(bytes) / 4,
                .needs = nullptr,
                .records = nullptr});
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t handle) {
  const Lock lock(state().mutex);
  Stream* stream = find_stream(handle, "cudaMemsetAsync");
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  put(*stream, {.call = "cudaMemsetAsync",
                .work =
                    [=] {
                      require_usable(data, bytes);
                      std::memset(data, value, bytes);
                    },
                .nanoseconds = 500,
                .needs = nullptr,
                .records = nullptr});
  return cudaSuccess;
}

}  // extern "C"
