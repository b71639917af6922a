// LayerNorm and RMSNorm. With z = (x - mean) scale, or x scale, and g = dy weight:
//
//   dx = scale (g - mean(g) - z mean(g z))     LayerNorm
//   dx = scale (g - z mean(g z))               RMSNorm

#include <algorithm>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

template <class T>
STAGECRAFT_VECTORISED void layer_norm(Matrix<const T> x, const T* weight, const T* bias, T epsilon,
                                      T* y, T* mean, T* scale) {
  const T width = static_cast<T>(x.columns);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = x.row(row);
    T* out = y + row * x.columns;
    const T m = ordered_sum<T>(x.columns, [&](std::int64_t i) { return in[i]; }) / width;
    const T squares =
        ordered_sum<T>(x.columns, [&](std::int64_t i) { return (in[i] - m) * (in[i] - m); });
    const T s = T(1) / std::sqrt(squares / width + epsilon);
    for (std::int64_t i = 0; i < x.columns; ++i) out[i] = (in[i] - m) * s * weight[i] + bias[i];
    mean[row] = m;
    scale[row] = s;
  }
}

template <class T>
STAGECRAFT_VECTORISED void layer_norm_input(const T* dy, Matrix<const T> x, const T* weight,
                                            const T* mean, const T* scale, T* dx) {
  const T width = static_cast<T>(x.columns);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = x.row(row);
    const T* gradient = dy + row * x.columns;
    T* out = dx + row * x.columns;
    const T m = mean[row];
    const T s = scale[row];
    const auto g = [&](std::int64_t i) { return gradient[i] * weight[i]; };
    const T mean_g = ordered_sum<T>(x.columns, g) / width;
    const T mean_gz =
        ordered_sum<T>(x.columns, [&](std::int64_t i) { return g(i) * ((in[i] - m) * s); }) / width;
    for (std::int64_t i = 0; i < x.columns; ++i) {
      out[i] = s * (gradient[i] * weight[i] - mean_g - (in[i] - m) * s * mean_gz);
    }
  }
}

template <class T>
STAGECRAFT_VECTORISED void layer_norm_weight(const T* dy, Matrix<const T> x, const T* mean,
                                             const T* scale, T* dweight, T* dbias) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = x.row(row);
    const T* gradient = dy + row * x.columns;
    const T m = mean[row];
    const T s = scale[row];
    for (std::int64_t i = 0; i < x.columns; ++i) dweight[i] += gradient[i] * ((in[i] - m) * s);
    for (std::int64_t i = 0; i < x.columns; ++i) dbias[i] += gradient[i];
  }
}

template <class T>
STAGECRAFT_VECTORISED void rms_norm(Matrix<const T> x, const T* weight, T epsilon, T* y, T* scale) {
  const T width = static_cast<T>(x.columns);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = x.row(row);
    T* out = y + row * x.columns;
    const T squares = ordered_sum<T>(x.columns, [&](std::int64_t i) { return in[i] * in[i]; });
    const T s = T(1) / std::sqrt(squares / width + epsilon);
    for (std::int64_t i = 0; i < x.columns; ++i) out[i] = in[i] * s * weight[i];
    scale[row] = s;
  }
}

template <class T>
STAGECRAFT_VECTORISED void rms_norm_input(const T* dy, Matrix<const T> x, const T* weight,
                                          const T* scale, T* dx) {
  const T width = static_cast<T>(x.columns);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = x.row(row);
    const T* gradient = dy + row * x.columns;
    T* out = dx + row * x.columns;
    const T s = scale[row];
    const auto product = [&](std::int64_t i) { return gradient[i] * weight[i] * (in[i] * s); };
    const T mean_gz = ordered_sum<T>(x.columns, product) / width;
    for (std::int64_t i = 0; i < x.columns; ++i) {
      out[i] = s * (gradient[i] * weight[i] - in[i] * s * mean_gz);
    }
  }
}

template <class T>
STAGECRAFT_VECTORISED void rms_norm_weight(const T* dy, Matrix<const T> x, const T* scale,
                                           T* dweight) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const T* in = x.row(row);
    const T* gradient = dy + row * x.columns;
    const T s = scale[row];
    for (std::int64_t i = 0; i < x.columns; ++i) dweight[i] += gradient[i] * (in[i] * s);
  }
}

namespace {

/// Calls visit(place in the wider rows, in the raw ones, in the scales) for every norm.
template <class Visit>
void for_each_norm(const NormsOfRows& shape, Visit visit) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t norm = 0; norm < shape.norms; ++norm) {
      const std::int64_t column = norm * shape.width;
      visit(row * shape.stride + column, row * shape.raw_stride + column,
            row * shape.scale_stride + norm);
    }
  }
}

}  // namespace

template <class T>
void norms_of_rows(T* x, const NormsOfRows& shape, const T* weight, T epsilon, T* raw, T* scale) {
  for_each_norm(shape, [&](std::int64_t place, std::int64_t in_raw, std::int64_t in_scale) {
    std::copy_n(x + place, shape.width, raw + in_raw);
    rms_norm<T>({raw + in_raw, 1, shape.width}, weight, epsilon, x + place, scale + in_scale);
  });
}

template <class T>
void norms_of_rows_input(T* dx, const NormsOfRows& shape, const T* raw, const T* scale,
                         const T* weight, T* dnormed) {
  for_each_norm(shape, [&](std::int64_t place, std::int64_t in_raw, std::int64_t in_scale) {
    std::copy_n(dx + place, shape.width, dnormed + in_raw);
    rms_norm_input<T>(dnormed + in_raw, {raw + in_raw, 1, shape.width}, weight, scale + in_scale,
                      dx + place);
  });
}

template <class T>
void norms_of_rows_weight(const T* dnormed, const NormsOfRows& shape, const T* raw, const T* scale,
                          T* dweight) {
  for_each_norm(shape, [&](std::int64_t, std::int64_t in_raw, std::int64_t in_scale) {
    rms_norm_weight<T>(dnormed + in_raw, {raw + in_raw, 1, shape.width}, scale + in_scale, dweight);
  });
}

#define STAGECRAFT_INSTANTIATE(T)                                                              \
  template void layer_norm(Matrix<const T>, const T*, const T*, T, T*, T*, T*);                \
  template void layer_norm_input(const T*, Matrix<const T>, const T*, const T*, const T*, T*); \
  template void layer_norm_weight(const T*, Matrix<const T>, const T*, const T*, T*, T*);      \
  template void rms_norm(Matrix<const T>, const T*, T, T*, T*);                                \
  template void rms_norm_input(const T*, Matrix<const T>, const T*, const T*, T*);             \
  template void rms_norm_weight(const T*, Matrix<const T>, const T*, T*);                      \
  template void norms_of_rows(T*, const NormsOfRows&, const T*, T, T*, T*);                    \
  template void norms_of_rows_input(T*, const NormsOfRows&, const T*, const T*, const T*, T*); \
  template void norms_of_rows_weight(const T*, const NormsOfRows&, const T*, const T*, T*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
