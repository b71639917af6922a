// Convolutions and what surrounds them, against loops over doubles.

#include <array>

#include "tests/catch.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

// Calls visit(place in x, place in the weight, place in y) for every product of a convolution.
template <class Visit>
void for_each_product(const ConvolutionShape& shape, Visit visit) {
  const std::int64_t size = shape.size, kernel = shape.kernel, margin = kernel / 2;
  for (std::int64_t sample = 0; sample < shape.samples; ++sample)
    for (std::int64_t out = 0; out < shape.output_channels; ++out)
      for (std::int64_t in = 0; in < shape.input_channels; ++in)
        for (std::int64_t row = 0; row < size; ++row)
          for (std::int64_t column = 0; column < size; ++column)
            for (std::int64_t i = 0; i < kernel; ++i)
              for (std::int64_t j = 0; j < kernel; ++j) {
                const std::int64_t y = row + i - margin, x = column + j - margin;
                if (y < 0 || y >= size || x < 0 || x >= size) continue;
                visit(static_cast<std::size_t>(
                          ((sample * shape.input_channels + in) * size + y) * size + x),
                      static_cast<std::size_t>(
                          ((out * shape.input_channels + in) * kernel + i) * kernel + j),
                      static_cast<std::size_t>(
                          ((sample * shape.output_channels + out) * size + row) * size + column));
              }
}

Values zeros_like(const Tensor& tensor) {
  return Values(static_cast<std::size_t>(tensor.elements()), 0.0);
}

}  // namespace

TEST_CASE("a convolution and its gradients follow the formula") {
  const Precision precision = GENERATE(from_range(both_precisions));
  // 40 x 40 takes several bands, the last one shorter.
  const ConvolutionShape shape =
      GENERATE(ConvolutionShape{2, 3, 4, 5, 3}, ConvolutionShape{1, 1, 1, 1, 3},
               ConvolutionShape{3, 2, 3, 2, 5}, ConvolutionShape{1, 2, 3, 40, 3},
               ConvolutionShape{2, 3, 2, 6, 1});
  const auto backend = make_cpu_backend();
  const std::int64_t plane = shape.size * shape.size;
  const Tensor x = noise(*backend, {shape.samples, shape.input_channels * plane}, precision, 1);
  const Tensor dy = noise(*backend, {shape.samples, shape.output_channels * plane}, precision, 2);
  const Tensor weight =
      noise(*backend, {shape.output_channels, shape.input_channels, shape.kernel, shape.kernel},
            precision, 3);
  const Tensor bias = noise(*backend, {shape.output_channels}, precision, 4);
  Tensor y = backend->allocate(dy.shape, precision), dx = backend->allocate(x.shape, precision);
  Tensor dweight = noise(*backend, weight.shape, precision, 5);
  Tensor dbias = noise(*backend, bias.shape, precision, 6);
  Values expected_y = zeros_like(y), expected_dx = zeros_like(dx);
  Values expected_dweight = values(dweight), expected_dbias = values(dbias);
  for (std::size_t i = 0; i < expected_y.size(); ++i) {
    const auto channel =
        i / static_cast<std::size_t>(plane) % static_cast<std::size_t>(shape.output_channels);
    expected_y[i] = value(bias, channel);
    expected_dbias[channel] += value(dy, i);
  }
  for_each_product(shape, [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
    expected_y[at_y] += value(x, at_x) * value(weight, at_weight);
    expected_dx[at_x] += value(dy, at_y) * value(weight, at_weight);
    expected_dweight[at_weight] += value(dy, at_y) * value(x, at_x);
  });

  backend->convolution(x, weight, bias, shape, y);
  backend->convolution_input(dy, weight, shape, dx);
  backend->convolution_weight(dy, x, shape, dweight, dbias);
  CHECK(relative_error(y, expected_y) < tolerance(precision));
  CHECK(relative_error(dx, expected_dx) < tolerance(precision));
  CHECK(relative_error(dweight, expected_dweight) < tolerance(precision));
  CHECK(relative_error(dbias, expected_dbias) < tolerance(precision));
}

TEST_CASE("an image's convolution does not depend on the images beside it") {
  const auto backend = make_cpu_backend();
  const ConvolutionShape three{3, 4, 8, 9, 3}, one{1, 4, 8, 9, 3};
  const Tensor x = noise(*backend, {3, 4 * 81}, Precision::float32, 1);
  const Tensor weight = noise(*backend, {8, 4, 3, 3}, Precision::float32, 2);
  const Tensor bias = noise(*backend, {8}, Precision::float32, 3);
  Tensor all = backend->allocate({3, 8 * 81}, Precision::float32);
  Tensor alone = backend->allocate({1, 8 * 81}, Precision::float32);
  backend->convolution(x, weight, bias, three, all);
  for (std::int64_t i = 0; i < 3; ++i) {
    backend->convolution(rows_of(x, i, i + 1), weight, bias, one, alone);
    CHECK(std::memcmp(alone.data<float>(), rows_of(all, i, i + 1).data<float>(),
                      static_cast<std::size_t>(alone.bytes())) == 0);
  }
}

TEST_CASE("a pool takes the largest number, and gives its gradient to the first one that was") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const PoolShape shape{.samples = 1, .channels = 2, .size = 4, .window = 2};
  const Tensor x =
      tensor_of(*backend, {1, 32}, precision, {1, 5, 2, 2, 3, 4, 2, 2, -1, -2, 0, 7, -3, -4, 7, 0,
                                               9, 0, 0, 0, 0, 0, 0, 1, 8,  8,  0, 0, 8,  8,  0, 0});
  Tensor y = backend->allocate({1, 8}, precision), dx = backend->allocate({1, 32}, precision);
  backend->max_pool(x, shape, y);
  CHECK(values(y) == Values{5, 2, -1, 7, 9, 1, 8, 0});
  const Tensor dy = tensor_of(*backend, {1, 8}, precision, {1, 2, 3, 4, 5, 6, 7, 8});
  backend->max_pool_input(dy, x, shape, dx);
  CHECK(values(dx) == Values{0, 1, 2, 0, 0, 0, 0, 0, 3, 0, 0, 4, 0, 0, 0, 0,
                             5, 0, 0, 0, 0, 0, 0, 6, 7, 0, 8, 0, 0, 0, 0, 0});
}

TEST_CASE("ReLU lets through what is above zero, and its gradient") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  Tensor x = tensor_of(*backend, {5}, precision, {-2, -0.0, 0, 1e-30, 3});
  backend->relu(x);
  CHECK(values(x) == values(tensor_of(*backend, {5}, precision, {0, 0, 0, 1e-30, 3})));
  const Tensor dy = tensor_of(*backend, {5}, precision, {1, 2, 3, 4, 5});
  Tensor dx = backend->allocate({5}, precision);
  backend->relu_input(dy, x, dx);
  CHECK(values(dx) == Values{0, 0, 0, 4, 5});
}

TEST_CASE("pixels become numbers from -1 to 1") {
  const auto backend = make_cpu_backend();
  Tensor y = backend->allocate({3}, Precision::float64);
  backend->images(std::vector<std::int32_t>{0, 51, 255}, y);
  CHECK(relative_error(y, {-1, -0.6, 1}) < 1e-15);
}
