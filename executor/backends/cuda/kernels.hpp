// Kernels, as host code calls them: something is done for every element, every row or every column,
// after what the stream was asked for before. To add one, write what it computes into elements.hpp
// or rows.hpp and list it in the .cu file of its kind.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "executor/backends/cuda/rows.hpp"

namespace stagecraft::cuda {

/// element(i) for every i in [0, count).
template <class Element>
void for_each_element(cudaStream_t stream, std::int64_t count, const Element& element);

/// row(team, i) for every i in [0, rows), each by a warp if the row is short, else by a block.
template <class Row>
void for_each_row(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Row& row);

/// Adds to each of the sums, column by column, what the term adds for all rows. In two stages, so
/// that the same rows always give the same bits: chunks of rows into `partial` (Term::sums x
/// RowChunks{rows}.count() x columns numbers), then those in their order.
template <class Term>
void add_columns(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Term& term,
                 float* partial, const ColumnSums& sums);

}  // namespace stagecraft::cuda
