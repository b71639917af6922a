// Kernels carried out on the CPU as a GPU may do it at its worst: one block after the other in an
// order that is drawn, each thread of a block on a fiber of its own.
//
//   ready lanes ──drawn──▶ runs … until it waits for others, or returns ──▶ the next is drawn
//        ▲                                  │
//        └── all lanes of the warp are at the shuffle; all of the block are at the barrier
//
// A favourite warp runs ahead as far as it can, so that a barrier too few shows in the numbers.
// What cannot go on, or is no launch, is an Error that says which kernel, which block and why.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/cuda/simt/symbols.hpp"

namespace stagecraft::simt {

inline constexpr int warp_size = 32;
inline constexpr unsigned full_mask = 0xffffffffu;

struct Launch {
  const Kernel* kernel = nullptr;
  dim3 grid;
  int threads = 0;             ///< of a block
  std::function<void()> work;  ///< of each thread
};

/// Returns when every thread has returned. Throws Error if the launch, or what it does, is wrong;
/// some of it has been carried out then. May be called by several threads of the process: they wait
/// for each other.
void carry_out(const Launch& launch);

/// Orders follow from the seed, from now on.
void draw_from(unsigned seed);

// --- For the thread of a kernel that is being carried out (lanes.hpp) ----------------------------

enum class Shuffle { exchange, down, up, from };

void meet_block();
void meet_warp(unsigned mask);
std::uint64_t shuffle_bits(unsigned mask, Shuffle how, std::uint64_t bits, int argument);
const void* require_alignment(const void* address, std::size_t bytes);
void* require_alignment(void* address, std::size_t bytes);

}  // namespace stagecraft::simt
