// Kernels, as host code calls them: something is done for every element, every row or every column,
// after what the stream was asked for before. To add one, write what it computes into elements.hpp
// or rows.hpp and list it in the .cu file of its kind.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "executor/backends/cuda/column_sums.hpp"
#include "executor/backends/cuda/rows.hpp"

namespace stagecraft::cuda {

/// element(i) for every i in [0, count).
template <class Element>
void for_each_element(cudaStream_t stream, std::int64_t count, const Element& element);

/// row(team, i) for every i in [0, rows), each by a warp if the row is short, else by a block.
template <class Row>
void for_each_row(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Row& row);

/// Sums of columns, of what the term adds for all rows, in two stages, so that the same rows always
/// give the same bits: here of chunks of rows, as `chunks_of` has them, into `sums` [Term::sums,
/// chunks, columns], and then of those in their order, by `add_chunks`.
template <class Term>
void sum_chunks(cudaStream_t stream, const RowChunks& chunks, std::int64_t columns,
                const Term& term, float* sums);
void add_chunks(cudaStream_t stream, const ChunkSumsList& list);

/// A norm's backward pass that reads every number once: dx, and sums of chunks of rows into `sums`
/// [NormSums::count, chunks, columns], with the bits that `sum_chunks` gives them.
template <class T>
void norm_backward(cudaStream_t stream, const RowChunks& chunks, const NormInputRows<T>& rows,
                   float* sums);
/// Whether teams can hold its rows.
template <class T>
bool can_go_back_in_chunks(const NormInputRows<T>& rows);

}  // namespace stagecraft::cuda
