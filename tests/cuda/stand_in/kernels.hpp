// Host versions of the launchers that kernels.hpp declares, from the same functors. Sources of the
// backend are compiled with this header in front of them, so it needs no list of kernels.

#pragma once

#include <algorithm>
#include <vector>

#include "executor/backends/cuda/kernels.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace stagecraft::stand_in {

/// A team of one.
struct Alone {
  int lane() const { return 0; }
  int size() const { return 1; }
  float sum(float x) const { return x; }
  float largest(float x) const { return x; }
};

/// A kernel over `count` elements that is given these arguments.
template <class Arguments, class Work>
void launch(cudaStream_t stream, std::string_view call, std::int64_t count,
            const Arguments& arguments, const Work& work) {
  enqueue(stream, call,
          [arguments, work] {
            Arguments bare = arguments;
            __builtin_clear_padding(&bare);  // what lies between arguments is no address
            require_addresses(&bare, sizeof bare);
            work(arguments);
          },
          {1000 + static_cast<double>(count) / 10});
}

}  // namespace stagecraft::stand_in

namespace stagecraft::cuda {

template <class Element>
void for_each_element(cudaStream_t stream, std::int64_t count, const Element& element) {
  if (count == 0) return;
  stand_in::launch(stream, "for_each_element", count, element, [count](const Element& each) {
    // Backwards: elements must not depend on each other.
    for (std::int64_t i = count; i-- > 0;) each(i);
  });
}

template <class Row>
void for_each_row(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Row& row) {
  if (rows == 0) return;
  stand_in::launch(stream, "for_each_row", rows * columns, row, [rows](const Row& each) {
    for (std::int64_t i = rows; i-- > 0;) each(stand_in::Alone{}, i);
  });
}

template <class Term>
void add_columns(cudaStream_t stream, std::int64_t rows, std::int64_t columns, const Term& term,
                 float* partial, float* sums) {
  if (rows == 0 || columns == 0) return;
  struct Arguments {
    Term term;
    float* partial;
    float* sums;
  };
  stand_in::launch(stream, "add_columns", rows * columns, Arguments{term, partial, sums},
                   [rows, columns](const Arguments& given) {
                     const RowChunks chunks{rows};
                     for (std::int64_t chunk = 0; chunk < chunks.count(); ++chunk) {
                       for (std::int64_t column = 0; column < columns; ++column) {
                         given.partial[chunk * columns + column] = column_sum(
                             given.term, column, chunk * chunks.size(), chunks.end_of(chunk), 1);
                       }
                     }
                     for (std::int64_t i = 0; i < chunks.count() * columns; ++i) {
                       given.sums[i % columns] += given.partial[i];
                     }
                   });
}

}  // namespace stagecraft::cuda
