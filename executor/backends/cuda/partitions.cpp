#include "executor/backends/cuda/partitions.hpp"

#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "executor/backends/cuda/check.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

/// A function of the driver, which the module is never linked with.
template <class Function>
Function* driver_entry(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &entry, CUDART_VERSION, cudaEnableDefault, &found),
        "look for a function of the driver");
  if (entry == nullptr) {
    throw Error(ErrorKind::execution,
                concat("--partitions: the NVIDIA driver has no ", name,
                       ", so it is too old to divide a GPU; update it, or leave --partitions out"));
  }
  return reinterpret_cast<Function*>(entry);
}

void check_driver(CUresult status, std::string_view what) {
  if (status == CUDA_SUCCESS) return;
  throw Error(ErrorKind::execution, concat("--partitions: cannot ", what, ": the driver answers ",
                                           static_cast<int>(status)));
}

CUdevResource multiprocessors_of(int device) {
  CUdevResource all{};
  auto* get = driver_entry<decltype(cuDeviceGetDevResource)>("cuDeviceGetDevResource");
  check_driver(get(device, &all, CU_DEV_RESOURCE_TYPE_SM), "ask for the multiprocessors");
  return all;
}

/// As many as every part can have, in whole groups of those that are scheduled together.
unsigned size_of_part(int device, const CUdevSmResource& all, unsigned parts) {
  const unsigned group = std::max(all.smCoscheduledAlignment, 1u);
  const unsigned least = std::max(all.minSmPartitionSize, group);
  const unsigned size = all.smCount / parts / group * group;
  if (size >= least) return size;
  throw Error(
      ErrorKind::execution,
      concat("--partitions: GPU ", device, " has ", all.smCount, " multiprocessors in parts of ",
             least, " or more, so it cannot be divided among ", parts, " ranks; use at most ",
             all.smCount / least, " ranks per GPU, or leave --partitions out"));
}

}  // namespace

std::shared_ptr<Partitions> Partitions::of_device(int device, int parts) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::weak_ptr<Partitions>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Partitions> partitions = all[{device, parts}].lock();
  if (!partitions) {
    partitions = std::make_shared<Partitions>(device, parts);
    all[{device, parts}] = partitions;
  }
  return partitions;
}

Partitions::Partitions(int device, int parts) {
  check(cudaSetDevice(device), "use the GPU");
  const CUdevResource all = multiprocessors_of(device);
  const auto count = static_cast<unsigned>(parts);
  const unsigned size = size_of_part(device, all.sm, count);
  std::vector<CUdevResource> divided(count);
  unsigned made = count;
  auto* split = driver_entry<decltype(cuDevSmResourceSplitByCount)>("cuDevSmResourceSplitByCount");
  check_driver(split(divided.data(), &made, &all, nullptr, 0, size), "divide the multiprocessors");
  if (made < count) {
    throw Error(ErrorKind::execution,
                concat("--partitions: the driver divides GPU ", device, " into ", made,
                       " parts of ", size, " multiprocessors, not into ", count));
  }
  auto* describe = driver_entry<decltype(cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc");
  auto* create = driver_entry<decltype(cuGreenCtxCreate)>("cuGreenCtxCreate");
  for (CUdevResource& part : divided) {
    CUdevResourceDesc description{};
    check_driver(describe(&description, &part, 1), "describe a part");
    CUgreenCtx context{};
    check_driver(create(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "make a part");
    contexts_.push_back(context);
  }
  multiprocessors_ = static_cast<int>(divided.front().sm.smCount);
}

Partitions::~Partitions() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  (void)cudaGetDriverEntryPointByVersion("cuGreenCtxDestroy", &entry, CUDART_VERSION,
                                         cudaEnableDefault, &found);
  if (entry == nullptr) return;
  for (CUgreenCtx context : contexts_) {
    (void)reinterpret_cast<decltype(cuGreenCtxDestroy)*>(entry)(context);
  }
}

cudaStream_t Partitions::make_stream(int part) const {
  auto* create = driver_entry<decltype(cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate");
  CUstream stream{};
  check_driver(
      create(&stream, contexts_[static_cast<std::size_t>(part)], CU_STREAM_NON_BLOCKING, 0),
      "make a stream");
  return stream;
}

}  // namespace stagecraft::cuda
