#include <algorithm>
#include <utility>

#include "executor/backends/cuda/kernels.hpp"
#include "executor/backends/cuda/launch.cuh"

namespace stagecraft::cuda {

namespace {

constexpr int warp_size = 32;
constexpr int threads = 256;
constexpr int warps = threads / warp_size;
constexpr std::int64_t most_blocks = 1 << 14;
/// Longer rows that nobody holds are shared by a block.
constexpr std::int64_t longest_of_a_warp = 2048;

/// Halves that are added the same way on both sides: every lane ends with the same bits.
struct Warp {
  __device__ int lane() const { return static_cast<int>(threadIdx.x) % warp_size; }
  __device__ int size() const { return warp_size; }
  __device__ float sum(float x) const {
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
      x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    __syncwarp();
    return x;
  }
  __device__ float largest(float x) const {
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
      x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    }
    __syncwarp();
    return x;
  }
};

template <int block>
struct Block {
  float* of_warps;  ///< shared, one for each warp

  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return block; }
  __device__ float sum(float x) const {
    const float* all = exchange(Warp{}.sum(x));
    float result = 0;
    for (int warp = 0; warp < block / warp_size; ++warp) result += all[warp];
    __syncthreads();
    return result;
  }
  __device__ float largest(float x) const {
    const float* all = exchange(Warp{}.largest(x));
    float result = all[0];
    for (int warp = 1; warp < block / warp_size; ++warp) result = fmaxf(result, all[warp]);
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
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) row(Block<threads>{of_warps}, i);
}

/// Each lane holds up to `most` packs of its row.
template <int most, class Row>
__global__ void __launch_bounds__(threads) rows_held_by_warps(std::int64_t rows, Row row) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * warps;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_size;
  for (std::int64_t i = first; i < rows; i += step) row.template held<most>(Warp{}, i);
}

template <int block, int most, class Row>
__global__ void __launch_bounds__(block) rows_held_by_blocks(std::int64_t rows, Row row) {
  __shared__ float of_warps[block / warp_size];
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    row.template held<most>(Block<block>{of_warps}, i);
  }
}

// --- Sums of columns -----------------------------------------------------------------------------

/// A lane's sums over rows of one column, or of the columns of a pack.
template <class Term>
struct OfColumn {
  static constexpr int width = 1;
  float sums[Term::sums] = {};
  __device__ void add(const Term& term, std::int64_t row, std::int64_t column) {
    term.add(row, column, sums);
  }
  __device__ float at(int sum, int) const { return sums[sum]; }
};
template <class Term>
struct OfPack {
  static constexpr int width = in_pack<typename Term::Element>;
  float sums[Term::sums][width] = {};
  __device__ void add(const Term& term, std::int64_t row, std::int64_t column) {
    term.add_pack(row, column, sums);
  }
  __device__ float at(int sum, int i) const { return sums[sum][i]; }
};

// A block sums up a chunk of rows in a strip of columns: each lane of a warp has some, and the warps
// share the rows. partial: [sums, chunks, columns].
template <class Lane, class Term>
__global__ void __launch_bounds__(threads)
    chunks_of_rows(RowChunks chunks, std::int64_t columns, Term term, float* partial) {
  constexpr int strip = warp_size * Lane::width;
  __shared__ float of_warps[warps][strip];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * strip;
  const std::int64_t column = first + lane * Lane::width;
  const std::int64_t chunk = blockIdx.y;
  Lane own;
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = chunk * chunks.size() + warp; row < chunks.end_of(chunk);
         row += warps) {
      own.add(term, row, column);
    }
  }
  for (int which = 0; which < Term::sums; ++which) {
    for (int i = 0; i < Lane::width; ++i) of_warps[warp][lane * Lane::width + i] = own.at(which, i);
    __syncthreads();
    const int place = static_cast<int>(threadIdx.x);
    if (place < strip && first + place < columns) {
      float sum = 0;
      for (int i = 0; i < warps; ++i) sum += of_warps[i][place];
      partial[(which * chunks.count() + chunk) * columns + first + place] = sum;
    }
    __syncthreads();
  }
}

// A block has 32 columns; its warps share the chunks, each those one behind the other.
__global__ void __launch_bounds__(threads)
    chunks_together(std::int64_t chunks, std::int64_t columns, const float* partial,
                    ColumnSums sums) {
  __shared__ float of_warps[warps][warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane;
  const std::int64_t share = (chunks + warps - 1) / warps;
  const std::int64_t end = (warp + 1) * share < chunks ? (warp + 1) * share : chunks;
  const float* of_chunks = partial + blockIdx.y * chunks * columns;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t chunk = warp * share; chunk < end; ++chunk) {
      sum += of_chunks[chunk * columns + column];
    }
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  float* to = blockIdx.y == 0 ? sums.of[0] : sums.of[1];
  const bool adds = blockIdx.y == 0 ? sums.adds[0] : sums.adds[1];
  float all = adds ? to[column] : 0.0f;
  for (int i = 0; i < warps; ++i) all += of_warps[i][lane];
  to[column] = all;
}

unsigned grid(std::int64_t count, std::int64_t of_a_block) {
  return static_cast<unsigned>(std::min(most_blocks, (count + of_a_block - 1) / of_a_block));
}

// --- Which kernel a row takes --------------------------------------------------------------------

template <int block, int most, class Row>
void hold_by_blocks(cudaStream_t stream, std::int64_t rows, const Row& row) {
  launch(rows_held_by_blocks<block, most, Row>, dim3(grid(rows, 1)), block, stream, rows, row);
}
template <int most, class Row>
void hold_by_warps(cudaStream_t stream, std::int64_t rows, const Row& row) {
  launch(rows_held_by_warps<most, Row>, dim3(grid(rows, warps)), threads, stream, rows, row);
}

/// False, and nothing done, if no team can hold the row. Few packs a lane let many rows be under way
/// at once.
template <class Row>
bool hold(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Row& row) {
  constexpr std::int64_t in_a_pack = in_pack<typename Row::Element>;
  if (!row.can_hold()) return false;
  const std::int64_t packs = columns / in_a_pack;
  const auto fits = [packs](std::int64_t lanes, std::int64_t most) { return packs <= lanes * most; };
  if (fits(warp_size, 1)) return hold_by_warps<1>(stream, rows, row), true;
  if (fits(warp_size, 2)) return hold_by_warps<2>(stream, rows, row), true;
  if (fits(warp_size, 3)) return hold_by_warps<3>(stream, rows, row), true;
  if (fits(warp_size, 4)) return hold_by_warps<4>(stream, rows, row), true;
  if (fits(threads, 1)) return hold_by_blocks<threads, 1>(stream, rows, row), true;
  if (fits(threads, 2)) return hold_by_blocks<threads, 2>(stream, rows, row), true;
  if (fits(threads, 4)) return hold_by_blocks<threads, 4>(stream, rows, row), true;
  constexpr int large = 1024;
  if (fits(large, 2)) return hold_by_blocks<large, 2>(stream, rows, row), true;
  if constexpr (Row::most_packs >= 7) {
    if (fits(large, 4)) return hold_by_blocks<large, 4>(stream, rows, row), true;
    if (fits(large, 7)) return hold_by_blocks<large, 7>(stream, rows, row), true;
  }
  return false;
}

}  // namespace

template <class Row>
void for_each_row(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Row& row) {
  if (rows == 0) return;
  if constexpr (requires { row.can_hold(); }) {
    if (hold(stream, rows, columns, row)) return;
  }
  if (columns <= longest_of_a_warp) {
    launch(rows_by_warps<Row>, dim3(grid(rows, warps)), threads, stream, rows, row);
  } else {
    launch(rows_by_blocks<Row>, dim3(grid(rows, 1)), threads, stream, rows, row);
  }
}

template <class Term>
void add_columns(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Term& term,
                 float* partial, const ColumnSums& sums) {
  if (rows == 0 || columns == 0) return;
  const RowChunks chunks{rows};
  const auto strips = [&](std::int64_t width) {
    return dim3(static_cast<unsigned>((columns + warp_size * width - 1) / (warp_size * width)),
                static_cast<unsigned>(chunks.count()));
  };
  if (term.can_hold()) {
    launch(chunks_of_rows<OfPack<Term>, Term>, strips(OfPack<Term>::width), threads, stream, chunks,
           columns, term, partial);
  } else {
    launch(chunks_of_rows<OfColumn<Term>, Term>, strips(1), threads, stream, chunks, columns, term,
           partial);
  }
  const dim3 blocks(static_cast<unsigned>((columns + warp_size - 1) / warp_size),
                    static_cast<unsigned>(sums.count));
  launch(chunks_together, blocks, threads, stream, chunks.count(), columns, partial, sums);
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
                            const ColumnSums&);                                                    \
  template void add_columns(cudaStream_t, std::int64_t, std::int64_t, const NormWeightTerm<T>&,    \
                            float*, const ColumnSums&);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(Bfloat16)
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const StepOfParts<AdamWStep>&);
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const StepOfParts<SgdStep>&);
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const SquaresOfParts&);

}  // namespace stagecraft::cuda
