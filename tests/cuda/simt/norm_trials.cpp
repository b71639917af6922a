// Norms: forward, the gradient of their input with and without what goes past, and those of weight
// and bias.

#include "tests/cuda/simt/operations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr double epsilon = 1e-5;

/// LayerNorm, or RMSNorm. The gradients of weight and bias are added to what was there.
template <class T>
struct Norm {
  std::int64_t rows, columns;
  bool has_mean;
  bool is_work;  ///< an instruction, which the backend may carry out in fewer kernels
  std::vector<T> x = noise<T>(rows * columns, 0.5, 2);
  std::vector<T> dy = noise<T>(rows * columns);
  std::vector<T> past = noise<T>(rows * columns);
  std::vector<T> weight = noise<T>(columns, 1, 0.2);
  std::vector<T> bias = noise<T>(columns);
  std::vector<float> dweight = noise<float>(columns);
  std::vector<float> dbias = noise<float>(columns);
  std::vector<float> dbefore = noise<float>(columns);  ///< of the bias before the norm
  std::vector<T> narrow = noise<T>(rows);

  Results by_kernels() const {
    return on_backend([&](Backend& backend) { return on(backend); });
  }
  Results by_formulas() const;

 private:
  Results on(Backend& backend) const;
};

template <class T>
Results Norm<T>::on(Backend& backend) const {
  const std::vector<std::int64_t> matrix{rows, columns};
  const Tensor input = uploaded(backend, matrix, x), gradient = uploaded(backend, matrix, dy);
  const Tensor residual = uploaded(backend, matrix, past);
  const Tensor factor = uploaded(backend, {columns}, weight);
  const Tensor shift = uploaded(backend, {columns}, bias);
  Tensor of_weight = uploaded(backend, {columns}, dweight);
  Tensor of_bias = uploaded(backend, {columns}, dbias);
  const Tensor input_before = uploaded(backend, {rows, 1}, narrow);
  Tensor of_bias_before = uploaded(backend, {columns}, dbefore);
  Tensor of_weight_before = uploaded(backend, {1, columns}, std::vector<float>(dbefore.size()));
  Tensor y = backend.allocate(matrix, precision_of<T>);
  Tensor dx = backend.allocate(matrix, precision_of<T>);
  Tensor sum = backend.allocate(matrix, precision_of<T>);
  Tensor mean = backend.allocate({rows}, Precision::float32);
  Tensor scale = backend.allocate({rows}, Precision::float32);
  if (has_mean) {
    backend.layer_norm(input, factor, shift, epsilon, y, mean, scale);
  } else {
    backend.rms_norm(input, factor, epsilon, y, scale);
  }
  if (is_work) backend.begin_work({.op = Op::backward});
  if (has_mean) {
    backend.layer_norm_input(gradient, input, factor, mean, scale, dx);
    backend.layer_norm_weight(gradient, input, mean, scale, of_weight, of_bias);
  } else {
    backend.rms_norm_input(gradient, input, factor, scale, dx);
    backend.rms_norm_weight(gradient, input, scale, of_weight);
    backend.bias_gradient(gradient, of_bias);
  }
  backend.linear_weight(input_before, dx, of_weight_before, of_bias_before);
  backend.norm_input_and_residual(gradient, input, factor, has_mean ? mean : Tensor{}, scale,
                                  residual, sum);
  if (is_work) backend.end_work();
  return {downloaded<T>(backend, y),          downloaded<T>(backend, dx),
          downloaded<T>(backend, sum),        downloaded<float>(backend, of_bias_before),
          downloaded<float>(backend, scale),  downloaded<float>(backend, of_weight),
          downloaded<float>(backend, of_bias)};
}

template <class T>
Results Norm<T>::by_formulas() const {
  const Values w = widened(weight), b = widened(bias);
  Values y, dx, sum, scales, of_weight = widened(dweight), of_bias = widened(dbias);
  Values of_bias_before = widened(dbefore);
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const auto number = [&](const std::vector<T>& matrix, std::size_t i) {
      return wide(matrix[row * width + i]);
    };
    double mean = 0, squares = 0, mean_g = 0, mean_gz = 0;
    for (std::size_t i = 0; has_mean && i < width; ++i) mean += number(x, i) / double(columns);
    for (std::size_t i = 0; i < width; ++i) squares += std::pow(number(x, i) - mean, 2);
    const double scale = 1 / std::sqrt(squares / double(columns) + epsilon);
    const auto z = [&](std::size_t i) { return (number(x, i) - mean) * scale; };
    const auto g = [&](std::size_t i) { return number(dy, i) * w[i]; };
    for (std::size_t i = 0; i < width; ++i) {
      mean_g += has_mean ? g(i) / double(columns) : 0;
      mean_gz += g(i) * z(i) / double(columns);
    }
    scales.push_back(scale);
    for (std::size_t i = 0; i < width; ++i) {
      y.push_back(z(i) * w[i] + (has_mean ? b[i] : 0));
      dx.push_back(scale * (g(i) - mean_g - z(i) * mean_gz));
      sum.push_back(dx.back() + number(past, i));
      of_weight[i] += number(dy, i) * z(i);
      of_bias[i] += number(dy, i);
      of_bias_before[i] += wide(T(static_cast<float>(dx.back())));
    }
  }
  return {y, dx, sum, of_bias_before, scales, of_weight, of_bias};
}

template <class T>
void norm(std::int64_t rows, std::int64_t columns, bool has_mean, bool is_work) {
  INFO((has_mean ? "LayerNorm of " : "RMSNorm of ") << rows << " x " << columns);
  INFO((is_work ? "in a work" : "in none"));
  const Norm<T> given{rows, columns, has_mean, is_work};
  const Results left = given.by_kernels(), expected = given.by_formulas();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("result " << i);
    CHECK(largest_error(left[i], expected[i]) < (i < 4 ? tolerated<T> : tolerated<float>));
  }
}

/// Rows that are one chunk of a sum of columns, several, and more than a warp has each; columns
/// that packs do not divide, few and many; and those that fill the packs of the lanes of a warp or
/// of a block, whatever number of them each holds, and one pack more.
template <class T>
void norms() {
  const auto both = [](std::int64_t rows, std::int64_t columns) {
    for (const bool has_mean : {true, false}) {
      for (const bool is_work : {true, false}) norm<T>(rows, columns, has_mean, is_work);
    }
  };
  both(7, 24);
  both(300, 33);
  both(4500, 8);
  both(3, 2047);
  both(3, 2049);
  constexpr std::int64_t in_pack = cuda::in_pack<T>;
  for (const std::int64_t packs : {32, 64, 96, 128, 256, 512, 1024, 1536}) {
    both(3, packs * in_pack);
    both(2, (packs + 1) * in_pack);
  }
}

}  // namespace

std::vector<Trial> tests::norm_trials() {
  return {{"norms in fp32", norms<float>}, {"norms in bf16", norms<Bfloat16>}};
}
