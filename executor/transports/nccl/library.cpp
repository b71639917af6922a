#include "executor/transports/nccl/library.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <cstring>
#include <string_view>

#include "executor/driver/host.hpp"
#include "executor/transports/nccl/version.hpp"
#include "profiles/error.hpp"

namespace stagecraft::nccl {

namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(UniqueId));
static_assert(static_cast<int>(Result::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(Result::in_progress) == ncclInProgress);
static_assert(static_cast<int>(Result::timeout) == ncclInProgress + 1);  // not in every header

void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  throw Error(ErrorKind::execution,
              concat("--transport nccl: cannot ", what, ": ", cudaGetErrorString(status)));
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorKind::execution,
              concat("--transport nccl: ", why,
                     "; without GPUs, --transport threads and --transport mpi run the same plan "
                     "with --backend cpu"));
}

/// CUDA counts 13.0 as 13000.
int major_version(int version) {
  return version / 1000;
}

int usable_devices() {
  int driver = 0, runtime = 0, count = 0;
  check(cudaDriverGetVersion(&driver), "ask for the driver's version");
  if (driver == 0) refuse("this machine has no NVIDIA driver");
  check(cudaRuntimeGetVersion(&runtime), "ask for CUDA's version");
  if (major_version(driver) < major_version(runtime)) {
    refuse(concat("the NVIDIA driver serves CUDA ", major_version(driver), ", and this needs CUDA ",
                  major_version(runtime)));
  }
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    refuse(concat("there is no GPU that can be used (", cudaGetErrorString(status), ")"));
  }
  return count;
}

int library_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) refuse("NCCL does not say which version it is");
  return version;
}

/// Of communicators that do not block. A library reads as much of it as it knows (version.hpp).
ncclConfig_t configuration() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclDataType_t type_of(Precision precision) {
  switch (precision) {
    case Precision::float64: return ncclFloat64;
    case Precision::float32: return ncclFloat32;
    case Precision::bfloat16: return ncclBfloat16;
    case Precision::float16: return ncclFloat16;
    case Precision::float8:
    case Precision::float8_with_attention: return ncclBfloat16;  // as it is kept
  }
  return ncclFloat32;
}

Result result_of(ncclResult_t result) {
  return static_cast<Result>(result);
}
ncclComm_t handle(Communicator communicator) {
  return static_cast<ncclComm_t>(communicator);
}
cudaStream_t stream_of(Stream stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t event_of(Event event) {
  return static_cast<cudaEvent_t>(event);
}

/// Of allocations: unlike cudaMalloc and cudaFree, those in a stream's order never wait for the
/// whole GPU, on which a receive may be waiting for its sender.
class AllocationStream {
 public:
  explicit AllocationStream(int device) : device_(device) {
    check(cudaSetDevice(device), "use the GPU");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  ~AllocationStream() {
    (void)cudaSetDevice(device_);
    (void)cudaStreamDestroy(stream_);
  }
  AllocationStream(const AllocationStream&) = delete;
  AllocationStream& operator=(const AllocationStream&) = delete;

  void* take(std::size_t bytes) const {
    void* block = nullptr;
    check(cudaSetDevice(device_), "use the GPU");
    check(cudaMallocAsync(&block, bytes, stream_), "allocate memory for messages");
    check(cudaStreamSynchronize(stream_), "allocate memory for messages");
    return block;
  }
  /// On any thread, whose GPU may be another one.
  void give_back(void* block) const noexcept {
    (void)cudaSetDevice(device_);
    (void)cudaFreeAsync(block, stream_);
  }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

class LibraryCalls final : public Calls {
 public:
  explicit LibraryCalls(int device)
      : device_(device), allocations_(std::make_shared<AllocationStream>(device)) {}

  Result get_unique_id(UniqueId& id) override {
    ncclUniqueId made{};
    const ncclResult_t result = ncclGetUniqueId(&made);
    std::memcpy(id.data(), &made, sizeof made);
    return result_of(result);
  }
  Result init_rank(Communicator& communicator, int members, const UniqueId& id,
                   int place) override {
    use_device();
    ncclUniqueId name{};
    std::memcpy(&name, id.data(), sizeof name);
    ncclConfig_t config = configuration();
    ncclComm_t made = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&made, members, name, place, &config);
    communicator = made;
    return result_of(result);
  }
  Result async_error(Communicator communicator, Result& state) override {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(handle(communicator), &found);
    state = result_of(found);
    return result_of(result);
  }
  std::string describe(Result result, Communicator communicator) override {
    const std::string meaning =
        meaning_of(static_cast<int>(result), ncclGetErrorString(static_cast<ncclResult_t>(result)),
                   library_version());
    // The process's last, which may be of something else: NCCL never forgets it.
    const char* last = ncclGetLastError(handle(communicator));
    if (last == nullptr || *last == '\0') return meaning;
    return concat(meaning, "; its last warning: ", last);
  }
  Result finalize(Communicator communicator) override {
    return result_of(ncclCommFinalize(handle(communicator)));
  }
  Result destroy(Communicator communicator) override {
    return result_of(ncclCommDestroy(handle(communicator)));
  }
  Result abort(Communicator communicator) override {
    return result_of(ncclCommAbort(handle(communicator)));
  }

  Result group_start() override { return result_of(ncclGroupStart()); }
  Result group_end() override { return result_of(ncclGroupEnd()); }
  Result send(const void* data, std::size_t bytes, int peer, Communicator communicator,
              Stream stream) override {
    return result_of(
        ncclSend(data, bytes, ncclUint8, peer, handle(communicator), stream_of(stream)));
  }
  Result receive(void* data, std::size_t bytes, int peer, Communicator communicator,
                 Stream stream) override {
    return result_of(
        ncclRecv(data, bytes, ncclUint8, peer, handle(communicator), stream_of(stream)));
  }

  Result all_reduce(void* data, std::size_t elements, Precision precision,
                    Communicator communicator, Stream stream) override {
    return result_of(ncclAllReduce(data, data, elements, type_of(precision), ncclSum,
                                   handle(communicator), stream_of(stream)));
  }
  Result reduce_scatter(void* data, std::size_t elements_of_part, Precision precision, int place,
                        Communicator communicator, Stream stream) override {
    const std::size_t bytes = elements_of_part * static_cast<std::size_t>(element_bytes(precision));
    char* own = static_cast<char*>(data) + static_cast<std::size_t>(place) * bytes;
    return result_of(ncclReduceScatter(data, own, elements_of_part, type_of(precision), ncclSum,
                                       handle(communicator), stream_of(stream)));
  }

  std::string device() override {
    std::array<char, 32> bus{};
    check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device_),
          "ask where the GPU is");
    return concat(nccl_host(), "/", bus.data());
  }
  Stream make_stream() override {
    use_device();
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
    return stream;
  }
  void destroy_stream(Stream stream) override { (void)cudaStreamDestroy(stream_of(stream)); }
  Event record(Stream stream) override {
    use_device();
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "make an event");
    check(cudaEventRecord(event, stream_of(stream)), "record an event");
    return event;
  }
  bool is_done(Event event) override {
    const cudaError_t status = cudaEventQuery(event_of(event));
    if (status == cudaErrorNotReady) return false;
    check(status, "carry messages");
    return true;
  }
  void destroy_event(Event event) override { (void)cudaEventDestroy(event_of(event)); }
  std::shared_ptr<void> allocate(Bytes bytes) override {
    return {allocations_->take(static_cast<std::size_t>(bytes)),
            [stream = allocations_](void* freed) { stream->give_back(freed); }};
  }

 private:
  /// Every thread has a current GPU of its own.
  void use_device() { check(cudaSetDevice(device_), "use the GPU"); }

  int device_;
  std::shared_ptr<AllocationStream> allocations_;
};

/// Unless the user has said otherwise. Kernels are loaded when they are first asked for, and not
/// all of every library, which takes seconds and gigabytes: NCCL asks for each of its own as it
/// connects. And kernels of several communicators start in the order in which they are issued,
/// which is the same everywhere.
void prepare_environment() {
  constexpr int keep = 0;
  setenv("CUDA_MODULE_LOADING", "LAZY", keep);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", keep);
}

}  // namespace

void require_gpu() {
  prepare_environment();
  usable_devices();
  const std::string fault = fault_of_versions(NCCL_VERSION_CODE, library_version());
  if (!fault.empty()) refuse(fault);
}

std::unique_ptr<Calls> library_calls(int rank) {
  return std::make_unique<LibraryCalls>(rank % usable_devices());
}

}  // namespace stagecraft::nccl
