// What a kernel sees of CUDA, where it is compiled for the CPU: in front of all else in the .cu
// files. Each thread of a block is a fiber (simt.hpp), and goes on to the next one here:
//
//   __syncthreads    waits for the threads of the block
//   __syncwarp       waits for those of the warp
//   __shfl_…_sync    the same, and takes another lane's number
//
// Only what kernels may do on a GPU as well is there: full masks, whole warps.

#pragma once

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/cuda/simt/simt.hpp"

// One block is carried out after the other, so all may share the same memory; it is full of what is
// no number when a block begins.
#undef __shared__
#define __shared__ static
#define __launch_bounds__(...)
// The compiler only believes what is promised so.
#define __builtin_assume_aligned(address, bytes) \
  (::stagecraft::simt::require_alignment(address, bytes))

// Of the thread that is being carried out.
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = stagecraft::simt::warp_size;

inline void __syncthreads() {
  stagecraft::simt::meet_block();
}

inline void __syncwarp(unsigned mask = stagecraft::simt::full_mask) {
  stagecraft::simt::meet_warp(mask);
}

namespace stagecraft::simt {

template <class T>
T shuffle(unsigned mask, Shuffle how, T value, int argument) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "registers are shuffled");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = shuffle_bits(mask, how, bits, argument);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace stagecraft::simt

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return stagecraft::simt::shuffle(mask, stagecraft::simt::Shuffle::exchange, value, lanes);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, int distance) {
  return stagecraft::simt::shuffle(mask, stagecraft::simt::Shuffle::down, value, distance);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance) {
  return stagecraft::simt::shuffle(mask, stagecraft::simt::Shuffle::up, value, distance);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return stagecraft::simt::shuffle(mask, stagecraft::simt::Shuffle::from, value, lane);
}

template <class T>
T __ldg(const T* address) {
  return *address;
}

/// No thread is interrupted between two of the calls above.
template <class T>
T atomicAdd(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}

inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
