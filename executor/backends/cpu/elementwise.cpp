// Sums, biases and activation functions.
//
// GELU in its tanh form is x (1 + tanh u) / 2 = x sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715
// x^3): one exponential, and no cancellation for large negative x.

#include <algorithm>
#include <array>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

namespace {

template <class T>
constexpr T gelu_linear = T(1.5957691216057308);  // 2 sqrt(2/pi)
template <class T>
constexpr T gelu_cubic = T(0.044715) * gelu_linear<T>;

template <class T>
[[gnu::always_inline]] inline T twice_u(T x) {
  return x * (gelu_linear<T> + gelu_cubic<T> * x * x);
}

template <class T>
[[gnu::always_inline]] inline T slope_of_twice_u(T x) {
  return gelu_linear<T> + T(3) * gelu_cubic<T> * x * x;
}

// Sigmoid, and 1 - sigmoid without cancellation.
template <class T>
struct Sigmoid {
  T value;
  T complement;
};

// Calls use(i, sigmoid of argument(i)) for each i below `count`. Exponentials come first, a block
// of them: one loop for both is a chain of operations longer than a processor looks ahead, and
// takes nearly twice as long. `use` may write where `argument` reads, at i.
template <class T, class Argument, class Use>
[[gnu::always_inline]] inline void with_sigmoids(std::int64_t count, Argument argument, Use use) {
  constexpr std::int64_t block = 64;
  std::array<T, block> powers;
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t length = std::min(block, count - first);
    for (std::int64_t i = 0; i < length; ++i) powers[i] = exponential(-argument(first + i));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i) {
      const T value = T(1) / (T(1) + powers[i]);
      use(first + i, Sigmoid<T>{value, powers[i] * value});
    }
  }
}

// y = gate sigmoid(argument(gate)) up, row by row; x = [gate | up].
template <class T, class Argument>
[[gnu::always_inline]] inline void gated(Matrix<const T> x, T* y, Argument argument) {
  const std::int64_t width = x.columns / 2;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* gate = x.row(row);
    const T* up = gate + width;
    T* out = y + row * width;
    with_sigmoids<T>(
        width, [&](std::int64_t i) { return argument(gate[i]); },
        [&](std::int64_t i, Sigmoid<T> s) { out[i] = gate[i] * s.value * up[i]; });
  }
}

// Its gradient; `slope` is the argument's.
template <class T, class Argument, class Slope>
[[gnu::always_inline]] inline void gated_input(const T* dy, Matrix<const T> x, T* dx,
                                               Argument argument, Slope slope) {
  const std::int64_t width = x.columns / 2;
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* gate = x.row(row);
    const T* up = gate + width;
    const T* gradient = dy + row * width;
    T* dgate = dx + row * x.columns;
    T* dup = dgate + width;
    with_sigmoids<T>(
        width, [&](std::int64_t i) { return argument(gate[i]); },
        [&](std::int64_t i, Sigmoid<T> s) {
          dgate[i] =
              gradient[i] * up[i] * (s.value + gate[i] * slope(gate[i]) * (s.value * s.complement));
          dup[i] = gradient[i] * gate[i] * s.value;
        });
  }
}

template <class T>
T normal_distribution(T x) {
  return T(0.5) * std::erfc(x * T(-0.70710678118654752));
}

}  // namespace

template <class T>
STAGECRAFT_VECTORISED void add(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

template <class T>
STAGECRAFT_VECTORISED void add_bias(const T* bias, Matrix<T> x) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    T* values = x.row(row);
    for (std::int64_t i = 0; i < x.columns; ++i) values[i] += bias[i];
  }
}

template <class T>
STAGECRAFT_VECTORISED void add_rows(Matrix<const T> rows, T* sum) {
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const T* values = rows.row(row);
    for (std::int64_t i = 0; i < rows.columns; ++i) sum[i] += values[i];
  }
}

template <class T>
STAGECRAFT_VECTORISED void gelu(const T* x, T* y, std::int64_t count) {
  with_sigmoids<T>(
      count, [&](std::int64_t i) { return twice_u(x[i]); },
      [&](std::int64_t i, Sigmoid<T> s) { y[i] = x[i] * s.value; });
}

template <class T>
STAGECRAFT_VECTORISED void gelu_input(const T* dy, const T* x, T* dx, std::int64_t count) {
  with_sigmoids<T>(
      count, [&](std::int64_t i) { return twice_u(x[i]); },
      [&](std::int64_t i, Sigmoid<T> s) {
        const T slope = slope_of_twice_u(x[i]);
        dx[i] = dy[i] * (s.value + x[i] * slope * (s.value * s.complement));
      });
}

template <class T>
STAGECRAFT_VECTORISED void swiglu(Matrix<const T> x, T* y) {
  gated(x, y, [](T gate) { return gate; });
}

template <class T>
STAGECRAFT_VECTORISED void swiglu_input(const T* dy, Matrix<const T> x, T* dx) {
  gated_input(
      dy, x, dx, [](T gate) { return gate; }, [](T) { return T(1); });
}

template <class T>
void exact_gelu(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * normal_distribution(x[i]);
}

template <class T>
void exact_gelu_input(const T* dy, const T* x, T* dx, std::int64_t count) {
  constexpr T density = T(0.39894228040143268);  // of the normal distribution at 0: 1 / sqrt(2 pi)
  for (std::int64_t i = 0; i < count; ++i) {
    const T slope = density * std::exp(T(-0.5) * x[i] * x[i]);
    dx[i] = dy[i] * (normal_distribution(x[i]) + x[i] * slope);
  }
}

template <class T>
STAGECRAFT_VECTORISED void geglu(Matrix<const T> x, T* y) {
  gated(x, y, [](T gate) { return twice_u(gate); });
}

template <class T>
STAGECRAFT_VECTORISED void geglu_input(const T* dy, Matrix<const T> x, T* dx) {
  gated_input(
      dy, x, dx, [](T gate) { return twice_u(gate); },
      [](T gate) { return slope_of_twice_u(gate); });
}

template <class T>
STAGECRAFT_VECTORISED void one_more(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = T(1) + x[i];
}

template <class T>
STAGECRAFT_VECTORISED void relu(T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] > T(0) ? x[i] : T(0);
}

template <class T>
STAGECRAFT_VECTORISED void relu_input(const T* dy, const T* y, T* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = y[i] > T(0) ? dy[i] : T(0);
}

#define STAGECRAFT_INSTANTIATE(T)                                       \
  template void exact_gelu(const T*, T*, std::int64_t);                 \
  template void exact_gelu_input(const T*, const T*, T*, std::int64_t); \
  template void geglu(Matrix<const T>, T*);                             \
  template void geglu_input(const T*, Matrix<const T>, T*);             \
  template void one_more(const T*, T*, std::int64_t);                   \
  template void add(const T*, T*, std::int64_t);                        \
  template void add_bias(const T*, Matrix<T>);                          \
  template void add_rows(Matrix<const T>, T*);                          \
  template void gelu(const T*, T*, std::int64_t);                       \
  template void gelu_input(const T*, const T*, T*, std::int64_t);       \
  template void relu(T*, std::int64_t);                                 \
  template void relu_input(const T*, const T*, T*, std::int64_t);       \
  template void swiglu(Matrix<const T>, T*);                            \
  template void swiglu_input(const T*, Matrix<const T>, T*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
