// The lanes themselves: what kernels on the CPU find, and what they are not allowed.

#include <cmath>
#include <thread>

#include "executor/backends/cuda/kernels.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/simt/lanes.hpp"
#include "tests/cuda/stand_in/streams.hpp"

using namespace stagecraft;

namespace {

constexpr unsigned full = 0xffffffffu;

template <class... Parameters>
void carry_out(void (*kernel)(Parameters...), dim3 grid, int threads, Parameters... arguments) {
  simt::carry_out({.kernel = &simt::kernel_at(reinterpret_cast<const void*>(kernel)),
                   .grid = grid,
                   .threads = threads,
                   .work = [=] { kernel(arguments...); }});
}

// --- Kernels -------------------------------------------------------------------------------------

/// Each thread leaves its own number for the next one, with a barrier in between or without.
template <bool with_barrier>
__global__ void next_of_block(int* results) {
  __shared__ float numbers[64];
  numbers[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (with_barrier) __syncthreads();
  const float next = numbers[(threadIdx.x + 1) % blockDim.x];
  results[blockIdx.x * blockDim.x + threadIdx.x] = std::isnan(next) ? -1 : static_cast<int>(next);
}

template <bool with_barrier>
__global__ void next_of_warp(int* results) {
  __shared__ int numbers[warpSize];
  numbers[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncwarp();
  results[threadIdx.x] = numbers[(threadIdx.x + 1) % warpSize];
}

__global__ void shuffles(double* results) {
  const double own = threadIdx.x;
  results[threadIdx.x] = __shfl_xor_sync(full, own, 5) + 100 * __shfl_down_sync(full, own, 3) +
                         10000 * __shfl_up_sync(full, own, 2) +
                         1000000 * __shfl_sync(full, own, static_cast<int>(threadIdx.x % 7));
}

__global__ void barrier_behind_return(int first) {
  if (static_cast<int>(threadIdx.x) < first) return;
  __syncthreads();
}

__global__ void shuffle_of_some(int lanes) {
  if (static_cast<int>(threadIdx.x) < lanes) __shfl_xor_sync(full, 1.0f, 1);
}

__global__ void shuffle_beside_a_barrier() {
  if (threadIdx.x % 2 == 0) __syncthreads();
  __shfl_xor_sync(full, 1.0f, 1);
  if (threadIdx.x % 2 == 1) __syncthreads();
}

__global__ void shuffle_over(int first, int others) {
  __shfl_xor_sync(full, 1, threadIdx.x == 0 ? first : others);
}

__global__ void shuffle_with(unsigned mask) {
  __shfl_xor_sync(mask, 1, 1);
}

__global__ void packs(const char* from) {
  static_cast<void>(__builtin_assume_aligned(from, 16));
}

__global__ void count(int* total) {
  atomicAdd(total, 1);
}

/// Notes the number of each thread in the order in which they come.
__global__ void note(std::vector<unsigned>* order) {
  order->push_back(blockIdx.x * blockDim.x + threadIdx.x);
}

std::vector<unsigned> order_of(unsigned seed, unsigned blocks, int threads) {
  std::vector<unsigned> order;
  simt::draw_from(seed);
  carry_out(note, dim3(blocks), threads, &order);
  return order;
}

}  // namespace

TEST_CASE("lanes: threads find what others wrote before a barrier, and not what nobody wrote") {
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
    simt::draw_from(seed);
    std::vector<int> with(128, -2), without(128, -2);
    carry_out(next_of_block<true>, dim3(2), 64, with.data());
    for (int i = 0; i < 128; ++i) CHECK(with[static_cast<std::size_t>(i)] == (i % 64 + 1) % 64);
    carry_out(next_of_block<false>, dim3(2), 64, without.data());
    CHECK(without != with);
    // In each block, for the second does not find what the first has left.
    CHECK(std::count(without.begin(), without.begin() + 64, -1) > 0);
    CHECK(std::count(without.begin() + 64, without.end(), -1) > 0);
  }
}

TEST_CASE("lanes: those of a warp are in step only where they ask for it") {
  std::vector<int> with(32, -2), without(32, -2);
  carry_out(next_of_warp<true>, dim3(1), 32, with.data());
  for (int i = 0; i < 32; ++i) CHECK(with[static_cast<std::size_t>(i)] == (i + 1) % 32);
  carry_out(next_of_warp<false>, dim3(1), 32, without.data());
  CHECK(without != with);
}

TEST_CASE("lanes: shuffles take the number of the lane that is asked for") {
  std::vector<double> results(32);
  carry_out(shuffles, dim3(1), 32, results.data());
  for (int i = 0; i < 32; ++i) {
    const int down = i + 3 < 32 ? i + 3 : i, up = i >= 2 ? i - 2 : i;
    CHECK(results[static_cast<std::size_t>(i)] ==
          (i ^ 5) + 100 * down + 10000 * up + 1e6 * (i % 7));
  }
}

TEST_CASE("lanes: every thread of every block comes once, in an order that the seed draws") {
  std::vector<unsigned> all(700);
  for (unsigned i = 0; i < 700; ++i) all[i] = i;
  const auto once = order_of(1, 7, 100);
  CHECK(std::is_permutation(once.begin(), once.end(), all.begin(), all.end()));
  CHECK(once == order_of(1, 7, 100));
  CHECK(once != order_of(2, 7, 100));
  CHECK(order_of(1, 1, 32) != order_of(2, 1, 32));
  // Blocks come one after the other, and not in turn.
  const unsigned first = once[0] / 100, second = once[100] / 100, third = once[200] / 100;
  CHECK((second != first + 1 || third != second + 1));
}

TEST_CASE("lanes: what would hang on a GPU, or do anything, is said") {
  int none = 0;
  const auto says = [](const std::string& words) { return ContainsSubstring(words); };
  CHECK_THROWS_WITH(carry_out(barrier_behind_return, dim3(3), 256, 1),
                    says("barrier_behind_return, block") &&
                        says("threads wait at a barrier that others, which have returned"));
  CHECK_THROWS_WITH(carry_out(barrier_behind_return, dim3(1), 256, 64), says("wait at a barrier"));
  carry_out(barrier_behind_return, dim3(1), 256, 256);
  carry_out(barrier_behind_return, dim3(1), 256, 0);
  CHECK_THROWS_WITH(carry_out(shuffle_of_some, dim3(1), 64, 31),
                    says("not all lanes of a warp reach a shuffle"));
  carry_out(shuffle_of_some, dim3(1), 64, 32);
  CHECK_THROWS_WITH(carry_out(shuffle_beside_a_barrier, dim3(1), 32),
                    says("not all lanes of a warp reach a shuffle"));
  CHECK_THROWS_WITH(carry_out(shuffle_over, dim3(1), 32, 2, 4), says("over different distances"));
  CHECK_THROWS_WITH(carry_out(shuffle_over, dim3(1), 32, 32, 32), says("more lanes than a warp"));
  CHECK_THROWS_WITH(carry_out(shuffle_with, dim3(1), 32, 0xffffu), says("a part of its warp"));
  CHECK_THROWS_WITH(carry_out(shuffle_with, dim3(1), 40, full), says("a warp of fewer lanes"));
  CHECK_THROWS_WITH(carry_out(count, dim3(0), 32, &none), says("a grid of 0 x 1 x 1"));
  CHECK_THROWS_WITH(carry_out(count, dim3(1, 65536), 32, &none), says("a grid of 1 x 65536"));
  CHECK_THROWS_WITH(carry_out(count, dim3(1), 1025, &none), says("a block of 1025 threads"));
  CHECK_THROWS_WITH(carry_out(count, dim3(1), 0, &none), says("a block of 0 threads"));
  CHECK(none == 0);
  // And then all goes on.
  carry_out(count, dim3(5), 33, &none);
  CHECK(none == 5 * 33);
}

TEST_CASE("lanes: addresses have to suit what is read there at once") {
  alignas(16) const char memory[32] = {};
  carry_out(packs, dim3(1), 1, static_cast<const char*>(memory + 16));
  CHECK_THROWS_WITH(carry_out(packs, dim3(1), 1, static_cast<const char*>(memory + 8)),
                    ContainsSubstring("packs, block 0 0 0: 16 bytes at once"));
  // The module's own kernels are watched at every read and write.
  stand_in::set_up({});
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  alignas(4) char numbers[16] = {};
  auto* x = reinterpret_cast<float*>(numbers + 2);
  cuda::for_each_element(stream, 2, cuda::Scale<float>{x, 2.0f});
  cudaStreamSynchronize(stream);
  const auto complaints = stand_in::complaints();
  REQUIRE(complaints.size() == 1);
  CHECK_THAT(complaints[0], ContainsSubstring("Scale<float>") && ContainsSubstring(".hpp:") &&
                                ContainsSubstring("4 bytes at once"));
}

TEST_CASE("lanes: several threads of the process may carry kernels out") {
  std::vector<std::vector<int>> results(4, std::vector<int>(640));
  {
    std::vector<std::jthread> threads;
    for (auto& of_thread : results) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) carry_out(next_of_block<true>, dim3(10), 64, of_thread.data());
      });
    }
  }
  for (const auto& of_thread : results) {
    for (int i = 0; i < 640; ++i) {
      CHECK(of_thread[static_cast<std::size_t>(i)] == (i % 64 + 1) % 64);
    }
  }
}

TEST_CASE("stand-in: launches are listed as they are carried out, those of a graph each time") {
  stand_in::set_up({});
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  std::vector<float> x(600, 1), tops(20);
  cuda::for_each_element(stream, 600, cuda::Scale<float>{x.data(), 2.0f});
  CHECK(stand_in::launches().empty());
  cudaStreamSynchronize(stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  cuda::for_each_row(stream, 20, 30, cuda::LargestRows<float>{x.data(), tops.data(), 30, 30});
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  cudaGraphExec_t executable = nullptr;
  cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphLaunch(executable, stream);
  cudaGraphLaunch(executable, stream);
  cudaStreamSynchronize(stream);
  const auto launches = stand_in::launches();
  REQUIRE(launches.size() == 3);
  CHECK(launches[0].kernel.find("Scale<float>") != std::string_view::npos);
  CHECK(launches[0].threads == 256);
  CHECK(launches[1].kernel == "rows_by_warps<LargestRows<float> >");
  CHECK(launches[1].grid.x == 3);
  CHECK(launches[2].kernel == launches[1].kernel);
}

TEST_CASE("stand-in: what is written behind the end of its memory is found") {
  stand_in::set_up({});
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  void* memory = nullptr;
  cudaMalloc(&memory, 10 * sizeof(float));
  auto* x = static_cast<float*>(memory);
  for (int i = 0; i < 10; ++i) x[i] = 1;
  cuda::for_each_element(stream, 10, cuda::Scale<float>{x, 2.0f});
  cudaStreamSynchronize(stream);
  CHECK(stand_in::complaints().empty());
  x[10] = 1;
  const auto complaints = stand_in::complaints();
  REQUIRE(complaints.size() == 1);
  CHECK_THAT(complaints[0], ContainsSubstring("behind the end of 40 bytes"));
  CHECK(stand_in::complaints() == complaints);
}
