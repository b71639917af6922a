#include <algorithm>
#include <cassert>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

template <class T>
void embedding(std::span<const std::int32_t> tokens, Matrix<const T> table,
               Matrix<const T> positions, std::int64_t sequence, T* y) {
  std::int64_t index = 0;
  for (const std::int32_t token : tokens) {
    assert(0 <= token && token < table.rows);
    T* out = y + index * table.columns;
    std::copy_n(table.row(token), table.columns, out);
    if (positions.rows > 0) add(positions.row(index % sequence), out, table.columns);
    ++index;
  }
}

template <class T>
void embedding_weight(std::span<const std::int32_t> tokens, const T* dy, std::int64_t sequence,
                      Matrix<T> dtable, Matrix<T> dpositions) {
  std::int64_t index = 0;
  for (const std::int32_t token : tokens) {
    assert(0 <= token && token < dtable.rows);
    const T* gradient = dy + index * dtable.columns;
    add(gradient, dtable.row(token), dtable.columns);
    if (dpositions.rows > 0) add(gradient, dpositions.row(index % sequence), dtable.columns);
    ++index;
  }
}

#define STAGECRAFT_INSTANTIATE(T)                                                                  \
  template void embedding(std::span<const std::int32_t>, Matrix<const T>, Matrix<const T>,         \
                          std::int64_t, T*);                                                       \
  template void embedding_weight(std::span<const std::int32_t>, const T*, std::int64_t, Matrix<T>, \
                                 Matrix<T>);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

}  // namespace stagecraft::cpu
