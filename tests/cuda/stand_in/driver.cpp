// The driver's entry points that the backend asks the runtime for: partitions of a device's
// multiprocessors ("green contexts").

#include <cuda.h>

#include <cstring>
#include <map>

#include "tests/cuda/stand_in/machine.hpp"

using namespace stagecraft::stand_in;

namespace {

struct Context {
  int device = 0;
  int multiprocessors = 0;
};

/// A description is one of these numbers of multiprocessors.
std::map<CUdevResourceDesc, int>& descriptions() {
  static std::map<CUdevResourceDesc, int> all;
  return all;
}

unsigned to_multiple(unsigned count, unsigned of) {
  return (count + of - 1) / of * of;
}

CUresult get_resource(CUdevice, CUdevResource* resource, CUdevResourceType) {
  *resource = {};
  resource->type = CU_DEV_RESOURCE_TYPE_SM;
  resource->sm.smCount = static_cast<unsigned>(state().machine.multiprocessors);
  resource->sm.minSmPartitionSize = static_cast<unsigned>(state().machine.granularity);
  resource->sm.smCoscheduledAlignment = static_cast<unsigned>(state().machine.granularity);
  return CUDA_SUCCESS;
}

CUresult split(CUdevResource* results, unsigned* groups, const CUdevResource* input,
               CUdevResource* remaining, unsigned, unsigned least) {
  const unsigned size = to_multiple(least, input->sm.smCoscheduledAlignment);
  const unsigned possible = input->sm.smCount / size;
  if (results != nullptr) {
    *groups = std::min(*groups, possible);
    for (unsigned i = 0; i < *groups; ++i) {
      results[i] = *input;
      results[i].sm.smCount = size;
    }
  } else {
    *groups = possible;
  }
  if (remaining != nullptr) {
    *remaining = *input;
    remaining->sm.smCount = input->sm.smCount - *groups * size;
  }
  return CUDA_SUCCESS;
}

CUresult describe(CUdevResourceDesc* made, CUdevResource* resources, unsigned) {
  static std::uintptr_t next = 0;
  *made = reinterpret_cast<CUdevResourceDesc>(++next);
  descriptions()[*made] = static_cast<int>(resources->sm.smCount);
  return CUDA_SUCCESS;
}

CUresult create(CUgreenCtx* made, CUdevResourceDesc description, CUdevice device, unsigned) {
  *made = reinterpret_cast<CUgreenCtx>(new Context{device, descriptions().at(description)});
  return CUDA_SUCCESS;
}

CUresult create_stream(CUstream* made, CUgreenCtx handle, unsigned flags, int) {
  const auto* context = reinterpret_cast<const Context*>(handle);
  const int before = current_device();
  current_device() = context->device;
  cudaStreamCreateWithFlags(made, flags);
  current_device() = before;
  reinterpret_cast<Stream*>(*made)->multiprocessors = context->multiprocessors;
  return CUDA_SUCCESS;
}

CUresult destroy(CUgreenCtx handle) {
  delete reinterpret_cast<const Context*>(handle);
  return CUDA_SUCCESS;
}

const std::map<std::string_view, void*>& entries() {
  static const std::map<std::string_view, void*> all{
      {"cuDeviceGetDevResource", reinterpret_cast<void*>(get_resource)},
      {"cuDevSmResourceSplitByCount", reinterpret_cast<void*>(split)},
      {"cuDevResourceGenerateDesc", reinterpret_cast<void*>(describe)},
      {"cuGreenCtxCreate", reinterpret_cast<void*>(create)},
      {"cuGreenCtxStreamCreate", reinterpret_cast<void*>(create_stream)},
      {"cuGreenCtxDestroy", reinterpret_cast<void*>(destroy)},
  };
  return all;
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned,
                                                        unsigned long long,
                                                        cudaDriverEntryPointQueryResult* status) {
  const auto found = entries().find(name);
  *entry = found == entries().end() ? nullptr : found->second;
  if (status != nullptr) {
    *status = *entry == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}
