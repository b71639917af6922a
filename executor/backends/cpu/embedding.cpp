#include <algorithm>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

template <class T>
void embedding(std::span<const std::int32_t> tokens, Matrix<const T> table, std::int64_t first,
               Matrix<const T> positions, std::int64_t sequence, T* y) {
  std::int64_t index = 0;
  for (const std::int32_t token : tokens) {
    T* out = y + index * table.columns;
    if (first <= token && token < first + table.rows) {
      std::copy_n(table.row(token - first), table.columns, out);
    } else {
      std::fill_n(out, table.columns, T(0));
    }
    if (positions.rows > 0) add(positions.row(index % sequence), out, table.columns);
    ++index;
  }
}

template <class T>
void embedding_weight(std::span<const std::int32_t> tokens, const T* dy, std::int64_t first,
                      std::int64_t sequence, Matrix<T> dtable, Matrix<T> dpositions) {
  std::int64_t index = 0;
  for (const std::int32_t token : tokens) {
    const T* gradient = dy + index * dtable.columns;
    if (first <= token && token < first + dtable.rows) {
      add(gradient, dtable.row(token - first), dtable.columns);
    }
    if (dpositions.rows > 0) add(gradient, dpositions.row(index % sequence), dtable.columns);
    ++index;
  }
}

#define STAGECRAFT_INSTANTIATE(T)                                                       \
  template void embedding(std::span<const std::int32_t>, Matrix<const T>, std::int64_t, \
                          Matrix<const T>, std::int64_t, T*);                           \
  template void embedding_weight(std::span<const std::int32_t>, const T*, std::int64_t, \
                                 std::int64_t, Matrix<T>, Matrix<T>);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
