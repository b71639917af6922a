// CUDA's, cuBLAS's and cuDNN's status codes, none of which goes unread.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <source_location>
#include <string_view>

namespace stagecraft::cuda {

/// Throws Error (execution) unless all is well: "matmul.cpp:41: cannot multiply: …". `what`:
/// "multiply".
void check(cudaError_t status, std::string_view what,
           std::source_location place = std::source_location::current());
void check(cublasStatus_t status, std::string_view what,
           std::source_location place = std::source_location::current());
void check(cudnnStatus_t status, std::string_view what,
           std::source_location place = std::source_location::current());

}  // namespace stagecraft::cuda
