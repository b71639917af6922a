#include <algorithm>

#include "executor/backends/cuda/kernels.hpp"
#include "executor/backends/cuda/launch.cuh"

namespace stagecraft::cuda {

namespace {

constexpr int warp_size = 32;
constexpr int threads = 256;
constexpr int warps = threads / warp_size;
constexpr std::int64_t most_blocks = 1 << 14;
/// Longer rows are shared by a block.
constexpr std::int64_t longest_of_a_warp = 2048;

/// Halves that are added the same way on both sides: every lane ends with the same bits.
struct Warp {
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % warp_size; }
  __device__ int size() const { return warp_size; }
  __device__ float sum(float x) const {
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
      x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
  }
  __device__ float largest(float x) const {
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
      x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    }
    return x;
  }
};

struct Block {
  float* of_warps;  ///< shared

  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return threads; }
  __device__ float sum(float x) const {
    const float* all = exchange(Warp{}.sum(x));
    float result = 0;
    for (int warp = 0; warp < warps; ++warp) result += all[warp];
    __syncthreads();
    return result;
  }
  __device__ float largest(float x) const {
    const float* all = exchange(Warp{}.largest(x));
    float result = all[0];
    for (int warp = 1; warp < warps; ++warp) result = fmaxf(result, all[warp]);
    __syncthreads();
    return result;
  }

 private:
  __device__ const float* exchange(float x) const {
    if (Warp{}.lane() == 0) of_warps[threadIdx.x / warp_size] = x;
    __syncthreads();
    return of_warps;
  }
};

template <class Row>
__global__ void __launch_bounds__(threads) rows_by_warps(std::int64_t rows, Row row) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * warps;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size;
  for (std::int64_t i = first; i < rows; i += step) row(Warp{}, i);
}

template <class Row>
__global__ void __launch_bounds__(threads) rows_by_blocks(std::int64_t rows, Row row) {
  __shared__ float of_warps[warps];
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) row(Block{of_warps}, i);
}

// A block sums up a chunk of rows in a strip of columns: lane x of a warp has one column, and the
// warps share the rows.
template <class Term>
__global__ void __launch_bounds__(threads)
    chunks_of_rows(RowChunks chunks, std::int64_t columns, Term term, float* partial) {
  __shared__ float of_warps[warps][warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane;
  const std::int64_t chunk = blockIdx.y;
  of_warps[warp][lane] = column < columns ? column_sum(term, column, chunk * chunks.size() + warp,
                                                       chunks.end_of(chunk), warps)
                                          : 0.0f;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum += of_warps[i][lane];
  partial[chunk * columns + column] = sum;
}

__global__ void __launch_bounds__(threads)
    chunks_together(std::int64_t chunks, std::int64_t columns, const float* partial, float* sums) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (column >= columns) return;
  float sum = sums[column];
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * columns + column];
  sums[column] = sum;
}

unsigned grid(std::int64_t count, std::int64_t of_a_block) {
  return static_cast<unsigned>(std::min(most_blocks, (count + of_a_block - 1) / of_a_block));
}

}  // namespace

template <class Row>
void for_each_row(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Row& row) {
  if (rows == 0) return;
  if (columns <= longest_of_a_warp) {
    launch(rows_by_warps<Row>, dim3(grid(rows, warps)), threads, stream, rows, row);
  } else {
    launch(rows_by_blocks<Row>, dim3(grid(rows, 1)), threads, stream, rows, row);
  }
}

template <class Term>
void add_columns(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Term& term,
                 float* partial, float* sums) {
  if (rows == 0 || columns == 0) return;
  const RowChunks chunks{rows};
  const dim3 blocks(static_cast<unsigned>((columns + warp_size - 1) / warp_size),
                    static_cast<unsigned>(chunks.count()));
  launch(chunks_of_rows<Term>, blocks, threads, stream, chunks, columns, term, partial);
  launch(chunks_together, dim3(static_cast<unsigned>((columns + threads - 1) / threads)), threads,
         stream, chunks.count(), columns, partial, sums);
}

#define STAGECRAFT_INSTANTIATE(T)                                                                  \
  template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const NormRows<T>&);        \
  template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const NormInputRows<T>&);   \
  template void for_each_row(cudaStream_t, std::int64_t, std::int64_t,                             \
                             const CrossEntropyRows<T>&);                                          \
  template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const LargestRows<T>&);     \
  template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const ExponentialRows<T>&); \
  template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const AttentionRows<T>&);   \
  template void for_each_row(cudaStream_t, std::int64_t, std::int64_t,                             \
                             const AttentionInputRows<T>&);                                        \
  template void add_columns(cudaStream_t, std::int64_t, std::int64_t, const BiasTerm<T>&, float*,  \
                            float*);                                                               \
  template void add_columns(cudaStream_t, std::int64_t, std::int64_t, const NormWeightTerm<T>&,    \
                            float*, float*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(Bfloat16)
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const StepOfParts<AdamWStep>&);
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const StepOfParts<SgdStep>&);
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const SquaresOfParts&);

}  // namespace stagecraft::cuda
