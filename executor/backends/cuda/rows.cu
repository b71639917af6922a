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

// Of wide rows each lane has some columns, and adds up all rows of the chunk.
constexpr int wide_threads = 128;

template <class Lane, class Term>
__global__ void __launch_bounds__(wide_threads)
    chunks_of_wide_rows(RowChunks chunks, std::int64_t columns, Term term, float* partial) {
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x) * wide_threads + threadIdx.x) * Lane::width;
  const std::int64_t chunk = blockIdx.y;
  if (column >= columns) return;
  Lane own;
#pragma unroll 8
  for (std::int64_t row = chunk * chunks.size(); row < chunks.end_of(chunk); ++row) {
    own.add(term, row, column);
  }
#pragma unroll
  for (int which = 0; which < Term::sums; ++which) {
    float* to = partial + (which * chunks.count() + chunk) * columns + column;
    for (int i = 0; i < Lane::width; ++i) to[i] = own.at(which, i);
  }
}

// A block has 32 columns of one of the sums; its warps share the chunks, each those one behind the
// other.
__global__ void __launch_bounds__(threads) chunks_together(ChunkSumsList list) {
  __shared__ float of_warps[warps][warp_size];
  const ChunkSums& sums = list.sums[blockIdx.y];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + lane;
  const std::int64_t share = (sums.count + warps - 1) / warps;
  const std::int64_t end = (warp + 1) * share < sums.count ? (warp + 1) * share : sums.count;
  float sum = 0;
  if (column < sums.columns) {
#pragma unroll 8
    for (std::int64_t chunk = warp * share; chunk < end; ++chunk) {
      sum += sums.chunks[chunk * sums.columns + column];
    }
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= sums.columns) return;
  float all = sums.adds ? sums.to[column] : 0.0f;
  for (int i = 0; i < warps; ++i) all += of_warps[i][lane];
  sums.to[column] = all;
}

// A norm's backward pass with its columns' sums over a chunk of rows for each block: each lane has
// those of its own packs in registers, and reads its next row while it works on one. sums:
// [NormSums::count, chunks, columns].
template <class T, int most>
struct SumsOfPacks {
  float of[NormSums::count][most][in_pack<T>] = {};

  template <class Team>
  __device__ void go_back(const NormInputRows<T>& rows, const Team& team, std::int64_t first,
                          std::int64_t end, int step) {
    if (first >= end) return;
    auto next = rows.template read<most>(team, first);
    for (std::int64_t row = first; row < end; row += step) {
      const auto here = next;
      if (row + step < end) next = rows.template read<most>(team, row + step);
      rows.template go_back<most>(team, row, here,
                                  [this](int k, int i, float weight, float bias, float out) {
                                    of[NormSums::weight][k][i] += weight;
                                    of[NormSums::bias][k][i] += bias;
                                    of[NormSums::output][k][i] += out;
                                  });
    }
  }
};

// Rows are the warps'.
template <int most, class T>
__global__ void __launch_bounds__(threads)
    norm_backward_by_warps(RowChunks chunks, NormInputRows<T> rows, float* sums) {
  constexpr int strip = warp_size * in_pack<T>;
  __shared__ float of_warps[warps][strip];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t chunk = blockIdx.x;
  SumsOfPacks<T, most> own;
  own.go_back(rows, Warp{}, chunk * chunks.size() + warp, chunks.end_of(chunk), warps);
#pragma unroll
  for (int which = 0; which < NormSums::count; ++which) {
#pragma unroll
    for (int k = 0; k < most; ++k) {
      for (int i = 0; i < in_pack<T>; ++i) {
        of_warps[warp][lane * in_pack<T> + i] = own.of[which][k][i];
      }
      __syncthreads();
      const int place = static_cast<int>(threadIdx.x);
      const std::int64_t column = static_cast<std::int64_t>(k) * strip + place;
      if (place < strip && column < rows.columns) {
        float sum = 0;
        for (int i = 0; i < warps; ++i) sum += of_warps[i][place];
        sums[(which * chunks.count() + chunk) * rows.columns + column] = sum;
      }
      __syncthreads();
    }
  }
}

// Rows are the blocks'.
template <int most, class T>
__global__ void __launch_bounds__(threads)
    norm_backward_by_blocks(RowChunks chunks, NormInputRows<T> rows, float* sums) {
  __shared__ float of_warps[warps];
  const Block<threads> team{of_warps};
  const std::int64_t chunk = blockIdx.x;
  SumsOfPacks<T, most> own;
  own.go_back(rows, team, chunk * chunks.size(), chunks.end_of(chunk), 1);
#pragma unroll
  for (int which = 0; which < NormSums::count; ++which) {
    float* to = sums + (which * chunks.count() + chunk) * rows.columns;
    each_pack<T, most>(team, rows.columns, [&](int k, std::int64_t column) {
      store_pack(to + column, [&](int i) { return own.of[which][k][i]; });
      if constexpr (in_pack<T> > in_pack<float>) {
        store_pack(to + column + in_pack<float>,
                   [&](int i) { return own.of[which][k][i + in_pack<float>]; });
      }
    });
  }
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
  constexpr int large = 768;  // threads, of which one block fits with what each may hold
  if (fits(large, 2)) return hold_by_blocks<large, 2>(stream, rows, row), true;
  if constexpr (Row::most_packs >= 9) {
    if (fits(large, 4)) return hold_by_blocks<large, 4>(stream, rows, row), true;
    if (fits(large, 9)) return hold_by_blocks<large, 9>(stream, rows, row), true;
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

template <class Lane, class Term>
void sum_chunks_by(cudaStream_t stream, const RowChunks& chunks, std::int64_t columns,
                   const Term& term, float* sums) {
  const bool by_warps = chunks.in_turns > 1;
  const std::int64_t of_a_block = (by_warps ? warp_size : wide_threads) * Lane::width;
  const dim3 blocks(static_cast<unsigned>((columns + of_a_block - 1) / of_a_block),
                    static_cast<unsigned>(chunks.count()));
  if (by_warps) {
    launch(chunks_of_rows<Lane, Term>, blocks, threads, stream, chunks, columns, term, sums);
  } else {
    launch(chunks_of_wide_rows<Lane, Term>, blocks, wide_threads, stream, chunks, columns, term,
           sums);
  }
}

template <class Term>
void sum_chunks(cudaStream_t stream, const RowChunks& chunks, std::int64_t columns,
                const Term& term, float* sums) {
  if (chunks.rows == 0 || columns == 0) return;
  term.can_hold() ? sum_chunks_by<OfPack<Term>>(stream, chunks, columns, term, sums)
                  : sum_chunks_by<OfColumn<Term>>(stream, chunks, columns, term, sums);
}

void add_chunks(cudaStream_t stream, const ChunkSumsList& list) {
  std::int64_t columns = 0;
  for (int i = 0; i < list.count; ++i) columns = std::max(columns, list.sums[i].columns);
  if (columns == 0) return;
  const dim3 blocks(static_cast<unsigned>((columns + warp_size - 1) / warp_size),
                    static_cast<unsigned>(list.count));
  launch(chunks_together, blocks, threads, stream, list);
}

template <class T>
bool can_go_back_in_chunks(const NormInputRows<T>& rows) {
  return rows.can_hold() && rows.columns <= 2 * threads * in_pack<T>;
}

template <class T>
void norm_backward(cudaStream_t stream, const RowChunks& chunks, const NormInputRows<T>& rows,
                   float* sums) {
  if (chunks.rows == 0) return;
  const std::int64_t packs = rows.columns / in_pack<T>;
  const dim3 blocks(static_cast<unsigned>(chunks.count()));
  const auto run = [&](auto* kernel) { launch(kernel, blocks, threads, stream, chunks, rows, sums); };
  if (packs <= warp_size) return run(norm_backward_by_warps<1, T>);
  if (packs <= 2 * warp_size) return run(norm_backward_by_warps<2, T>);
  if (packs <= 3 * warp_size) return run(norm_backward_by_warps<3, T>);
  if (packs <= 4 * warp_size) return run(norm_backward_by_warps<4, T>);
  if (packs <= threads) return run(norm_backward_by_blocks<1, T>);
  run(norm_backward_by_blocks<2, T>);
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
  template void sum_chunks(cudaStream_t, const RowChunks&, std::int64_t, const BiasTerm<T>&,       \
                           float*);                                                                \
  template void sum_chunks(cudaStream_t, const RowChunks&, std::int64_t, const NormWeightTerm<T>&, \
                           float*);                                                                \
  template bool can_go_back_in_chunks(const NormInputRows<T>&);                                    \
  template void norm_backward(cudaStream_t, const RowChunks&, const NormInputRows<T>&, float*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(Bfloat16)
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const StepOfParts<AdamWStep>&);
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const StepOfParts<SgdStep>&);
template void for_each_row(cudaStream_t, std::int64_t, std::int64_t, const SquaresOfParts&);

}  // namespace stagecraft::cuda
