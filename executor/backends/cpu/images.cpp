// Pixels as numbers, and maximum pools.

#include <algorithm>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

namespace {

// Calls visit(place of the largest number among the input's, place among the output's) for each
// window.
template <class T, class Visit>
void for_each_window(const T* x, const PoolShape& shape, Visit visit) {
  const std::int64_t windows = shape.size / shape.window;
  std::int64_t out = 0;
  for (std::int64_t image = 0; image < shape.samples * shape.channels; ++image) {
    for (std::int64_t row = 0; row < windows; ++row) {
      for (std::int64_t column = 0; column < windows; ++column) {
        const std::int64_t corner = (image * shape.size + row * shape.window) * shape.size;
        std::int64_t largest = corner + column * shape.window;
        for (std::int64_t i = 0; i < shape.window; ++i) {
          const std::int64_t first = corner + i * shape.size + column * shape.window;
          for (std::int64_t at = first; at < first + shape.window; ++at) {
            if (x[at] > x[largest]) largest = at;
          }
        }
        visit(largest, out++);
      }
    }
  }
}

}  // namespace

template <class T>
void images(std::span<const std::int32_t> pixels, T* y) {
  for (const std::int32_t pixel : pixels) *y++ = static_cast<T>(pixel) / T(127.5) - T(1);
}

template <class T>
void max_pool(const T* x, const PoolShape& shape, T* y) {
  for_each_window(x, shape, [&](std::int64_t from, std::int64_t to) { y[to] = x[from]; });
}

template <class T>
void max_pool_input(const T* dy, const T* x, const PoolShape& shape, T* dx) {
  std::fill_n(dx, shape.samples * shape.channels * shape.size * shape.size, T(0));
  for_each_window(x, shape, [&](std::int64_t from, std::int64_t to) { dx[from] = dy[to]; });
}

#define STAGECRAFT_INSTANTIATE(T)                          \
  template void images(std::span<const std::int32_t>, T*); \
  template void max_pool(const T*, const PoolShape&, T*);  \
  template void max_pool_input(const T*, const T*, const PoolShape&, T*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
