#include "executor/backends/cuda/check.hpp"

#include <array>
#include <filesystem>
#include <string>

#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

[[noreturn]] void fail_at(const std::source_location& place, std::string_view what,
                          std::string_view why) {
  const std::string file = std::filesystem::path(place.file_name()).filename().string();
  throw Error(ErrorKind::execution, concat(file, ":", place.line(), ": cannot ", what, ": ", why));
}

}  // namespace

void check(cudaError_t status, std::string_view what, std::source_location place) {
  if (status != cudaSuccess) fail_at(place, what, cudaGetErrorString(status));
}

void check(cublasStatus_t status, std::string_view what, std::source_location place) {
  if (status != CUBLAS_STATUS_SUCCESS) fail_at(place, what, cublasLtGetStatusString(status));
}

void check(cudnnStatus_t status, std::string_view what, std::source_location place) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> details{};
  cudnnGetLastErrorString(details.data(), details.size());
  fail_at(place, what, concat(cudnnGetErrorString(status), " (", details.data(), ")"));
}

}  // namespace stagecraft::cuda
