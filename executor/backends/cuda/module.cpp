// What the program calls by name in this module, and what the machine has.

#include <array>

#include "executor/backends/cuda.hpp"
#include "executor/backends/cuda/check.hpp"
#include "executor/backends/cuda/cuda_backend.hpp"
#include "executor/backends/cuda/neighbours.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

std::string version_words(int major, int minor) {
  return concat(major, ".", minor);
}

/// CUDA counts 13.0 as 13000.
std::string cuda_version_words(int version) {
  return version_words(version / 1000, version % 1000 / 10);
}

/// The newest CUDA version that the driver serves; 0 without a driver.
int driver_version() {
  int version = 0;
  cuda::check(cudaDriverGetVersion(&version), "ask for the driver's version");
  return version;
}

int runtime_version() {
  int version = 0;
  cuda::check(cudaRuntimeGetVersion(&version), "ask for CUDA's version");
  return version;
}

[[noreturn]] void refuse(const std::string& asked_for, const std::string& why) {
  throw Error(ErrorKind::execution, concat(asked_for, ": ", why, "; the CPU works everywhere"));
}

/// How many GPUs there are; refuses if there is none.
int usable_devices(const std::string& asked_for) {
  if (driver_version() == 0) refuse(asked_for, "this machine has no NVIDIA driver");
  if (driver_version() / 1000 < runtime_version() / 1000) {
    refuse(asked_for, concat("the NVIDIA driver serves CUDA ", cuda_version_words(driver_version()),
                             ", and this program needs ", cuda_version_words(runtime_version())));
  }
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    refuse(asked_for,
           concat("there is no GPU that can be used (", cudaGetErrorString(status), ")"));
  }
  return count;
}

int megahertz(int device, cudaDeviceAttr clock) {
  int kilohertz = 0;
  cuda::check(cudaDeviceGetAttribute(&kilohertz, clock, device), "ask for the GPU's clocks");
  return kilohertz / 1000;
}

CudaDevice describe_device(int device) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, device), "ask for the GPU's properties");
  return {.name = properties.name,
          .capability = version_words(properties.major, properties.minor),
          .memory = static_cast<Bytes>(properties.totalGlobalMem),
          .multiprocessors = properties.multiProcessorCount,
          .clock_megahertz = megahertz(device, cudaDevAttrClockRate),
          .memory_clock_megahertz = megahertz(device, cudaDevAttrMemoryClockRate),
          .peers = cuda::neighbours_of(device)};
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] Backend* stagecraft_make_cuda_backend(int rank,
                                                                     const CudaOptions& options) {
  const cuda::Place place = cuda::place_of(rank, options, usable_devices(options.asked_for));
  return std::make_unique<cuda::CudaBackend>(place, options).release();
}

[[gnu::visibility("default")]] void stagecraft_describe_cuda(CudaReport& report) {
  report.runtime = cuda_version_words(runtime_version());
  const auto cublas = static_cast<int>(cublasLtGetVersion());  // 13.1.0 is 130100
  report.cublas = version_words(cublas / 10000, cublas / 100 % 100);
  const auto cudnn = static_cast<int>(cudnnGetVersion());  // 9.19.0 is 91900
  report.cudnn = version_words(cudnn / 10000, cudnn / 100 % 100);
  if (driver_version() == 0) return;
  report.driver = cuda_version_words(driver_version());
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return;
  for (int device = 0; device < count; ++device) {
    report.devices.push_back(describe_device(device));
  }
}

}  // extern "C"

}  // namespace stagecraft
