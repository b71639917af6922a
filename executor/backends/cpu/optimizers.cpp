#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

// Loshchilov & Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.
template <class T>
STAGECRAFT_VECTORISED void adamw(const AdamW& options, int step, const T* gradient,
                                 Moments<T> moments, const T* weight, T* updated,
                                 std::int64_t count) {
  const T keep_first = static_cast<T>(options.beta1);
  const T take_first = static_cast<T>(1 - options.beta1);
  const T keep_second = static_cast<T>(options.beta2);
  const T take_second = static_cast<T>(1 - options.beta2);
  const T rate = static_cast<T>(options.learning_rate / (1 - std::pow(options.beta1, step)));
  const T correction = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
  const T epsilon = static_cast<T>(options.epsilon);
  const T decay = static_cast<T>(options.learning_rate * options.weight_decay);
  T* m = moments.first;
  T* v = moments.second;
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = gradient[i];
    m[i] = keep_first * m[i] + take_first * g;
    v[i] = keep_second * v[i] + take_second * g * g;
    const T change = rate * m[i] / (std::sqrt(v[i]) * correction + epsilon);
    updated[i] = weight[i] - (change + decay * weight[i]);
  }
}

template <class T>
STAGECRAFT_VECTORISED void sgd(const Sgd& options, const T* gradient, const T* weight, T* updated,
                               std::int64_t count) {
  const T rate = static_cast<T>(options.learning_rate);
  for (std::int64_t i = 0; i < count; ++i) updated[i] = weight[i] - rate * gradient[i];
}

template <class T>
STAGECRAFT_VECTORISED void scale(T factor, T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

// The square of a float is a double without rounding.
template <class T>
STAGECRAFT_VECTORISED double sum_of_squares(const T* x, std::int64_t count) {
  return ordered_sum<double>(
      count, [&](std::int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

#define STAGECRAFT_INSTANTIATE(T)                                                           \
  template void adamw(const AdamW&, int, const T*, Moments<T>, const T*, T*, std::int64_t); \
  template void sgd(const Sgd&, const T*, const T*, T*, std::int64_t);                      \
  template void scale(T, T*, std::int64_t);                                                 \
  template double sum_of_squares(const T*, std::int64_t);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
