// Operations of the backend: kernels as it launches them, whatever it takes for an operation.

#include <span>

#include "executor/backends/cuda/cuda_backend.hpp"
#include "tests/cuda/simt/trials.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace stagecraft::cuda;

namespace {

template <class T>
constexpr Precision precision_of =
    std::is_same_v<T, float> ? Precision::float32 : Precision::bfloat16;

/// A tensor of these numbers.
template <class T>
Tensor uploaded(Backend& backend, std::vector<std::int64_t> shape, const std::vector<T>& numbers) {
  Tensor tensor = backend.allocate(std::move(shape), precision_of<T>);
  backend.upload(std::as_bytes(std::span<const T>(numbers)), tensor);
  return tensor;
}

template <class T>
Values downloaded(Backend& backend, const Tensor& tensor) {
  std::vector<T> numbers(static_cast<std::size_t>(tensor.elements()));
  backend.download(tensor, std::as_writable_bytes(std::span<T>(numbers)));
  Values all;
  for (const T number : numbers) all.push_back(wide(number));
  return all;
}

/// What `work` leaves on a backend: the same by two orders.
Results on_backend(const std::function<Results(Backend&)>& work) {
  return by_two_orders([&](cudaStream_t) {
    CudaBackend backend({.device = 0});
    return work(backend);
  });
}

template <class T>
Values widened(const std::vector<T>& numbers) {
  Values all;
  for (const T number : numbers) all.push_back(wide(number));
  return all;
}

/// A matrix in double, and what norms are made of.
struct Rows {
  std::int64_t rows, columns;
  double operator()(const Values& matrix, std::int64_t row, std::int64_t column) const {
    return matrix[static_cast<std::size_t>(row * columns + column)];
  }
  template <class Term>
  double sum_of_row(const Term& term) const {
    double sum = 0;
    for (std::int64_t column = 0; column < columns; ++column) sum += term(column);
    return sum;
  }
  template <class Number>
  Values all(const Number& number) const {
    return expected(rows * columns, [&](auto i) { return number(i / columns, i % columns); });
  }
};

/// LayerNorm, or RMSNorm: forward, the input's gradient with and without what goes past, and those
/// of weight and bias, which are added to what was there.
template <class T>
void norm(std::int64_t row_count, std::int64_t column_count, bool has_mean) {
  INFO((has_mean ? "LayerNorm of " : "RMSNorm of ") << row_count << " x " << column_count);
  const Rows shape{row_count, column_count};
  const auto x = noise<T>(row_count * column_count, 0.5, 2),
             dy = noise<T>(row_count * column_count);
  const auto past = noise<T>(row_count * column_count);
  const auto weight = noise<T>(column_count, 1, 0.2), bias = noise<T>(column_count);
  const auto dweight = noise<float>(column_count), dbias = noise<float>(column_count);
  const Results left = on_backend([&](Backend& backend) {
    const std::vector<std::int64_t> matrix{row_count, column_count};
    const Tensor input = uploaded(backend, matrix, x), gradient = uploaded(backend, matrix, dy);
    const Tensor factor = uploaded(backend, {column_count}, weight);
    const Tensor shift = uploaded(backend, {column_count}, bias);
    const Tensor residual = uploaded(backend, matrix, past);
    Tensor of_weight = uploaded(backend, {column_count}, dweight);
    Tensor of_bias = uploaded(backend, {column_count}, dbias);
    Tensor y = backend.allocate(matrix, precision_of<T>);
    Tensor dx = backend.allocate(matrix, precision_of<T>);
    Tensor sum = backend.allocate(matrix, precision_of<T>);
    Tensor mean = backend.allocate({row_count}, Precision::float32);
    Tensor scale = backend.allocate({row_count}, Precision::float32);
    if (has_mean) {
      backend.layer_norm(input, factor, shift, 1e-5, y, mean, scale);
      backend.layer_norm_input(gradient, input, factor, mean, scale, dx);
      backend.layer_norm_weight(gradient, input, mean, scale, of_weight, of_bias);
    } else {
      backend.rms_norm(input, factor, 1e-5, y, scale);
      backend.rms_norm_input(gradient, input, factor, scale, dx);
      backend.rms_norm_weight(gradient, input, scale, of_weight);
      backend.bias_gradient(gradient, of_bias);
    }
    backend.norm_input_and_residual(gradient, input, factor, has_mean ? mean : Tensor{}, scale,
                                    residual, sum);
    return Results{downloaded<T>(backend, y),
                   downloaded<T>(backend, dx),
                   downloaded<T>(backend, sum),
                   downloaded<float>(backend, scale),
                   downloaded<float>(backend, of_weight),
                   downloaded<float>(backend, of_bias)};
  });
  const Values in = widened(x), out = widened(dy), w = widened(weight), b = widened(bias);
  const Values beside = widened(past);
  const auto width = static_cast<double>(column_count);
  Values means, scales, of_g, of_gz;
  for (std::int64_t row = 0; row < row_count; ++row) {
    const double mean =
        has_mean ? shape.sum_of_row([&](auto i) { return shape(in, row, i); }) / width : 0.0;
    const double squares =
        shape.sum_of_row([&](auto i) { return std::pow(shape(in, row, i) - mean, 2); });
    means.push_back(mean);
    scales.push_back(1 / std::sqrt(squares / width + 1e-5));
  }
  const auto z = [&](auto row, auto i) {
    const auto r = static_cast<std::size_t>(row);
    return (shape(in, row, i) - means[r]) * scales[r];
  };
  const auto g = [&](auto row, auto i) {
    return shape(out, row, i) * w[static_cast<std::size_t>(i)];
  };
  for (std::int64_t row = 0; row < row_count; ++row) {
    const double mean = shape.sum_of_row([&](auto i) { return g(row, i); }) / width;
    of_g.push_back(has_mean ? mean : 0.0);
    of_gz.push_back(shape.sum_of_row([&](auto i) { return g(row, i) * z(row, i); }) / width);
  }
  const auto slope = [&](auto row, auto i) {
    const auto r = static_cast<std::size_t>(row);
    return scales[r] * (g(row, i) - of_g[r] - z(row, i) * of_gz[r]);
  };
  CHECK(largest_error(left[0], shape.all([&](auto row, auto i) {
          const auto column = static_cast<std::size_t>(i);
          return z(row, i) * w[column] + (has_mean ? b[column] : 0.0);
        })) < tolerated<T>);
  CHECK(largest_error(left[1], shape.all(slope)) < tolerated<T>);
  CHECK(largest_error(left[2], shape.all([&](auto row, auto i) {
          return slope(row, i) + shape(beside, row, i);
        })) < tolerated<T>);
  CHECK(largest_error(left[3], scales) < tolerated<float>);
  Values sums_of_weight = widened(dweight), sums_of_bias = widened(dbias);
  for (std::int64_t i = 0; i < row_count * column_count; ++i) {
    const auto column = static_cast<std::size_t>(i % column_count);
    const double gradient = out[static_cast<std::size_t>(i)];
    sums_of_weight[column] += gradient * z(i / column_count, i % column_count);
    sums_of_bias[column] += gradient;
  }
  CHECK(largest_error(left[4], sums_of_weight) < tolerated<float>);
  CHECK(largest_error(left[5], sums_of_bias) < tolerated<float>);
}

template <class T>
void cross_entropy(std::int64_t rows, std::int64_t columns) {
  INFO("loss of " << rows << " x " << columns);
  const auto logits = noise<T>(rows * columns, 0, 3);
  const auto targets = indices(rows, columns);
  const Results left = on_backend([&](Backend& backend) {
    Tensor gradient = uploaded(backend, {rows, columns}, logits);
    const double loss = backend.cross_entropy(gradient, targets, 0.25);
    return Results{downloaded<T>(backend, gradient), {loss}};
  });
  const Values in = widened(logits);
  Values slopes;
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* of_row = in.data() + row * columns;
    const auto target = targets[static_cast<std::size_t>(row)];
    double sum = 0;
    for (std::int64_t i = 0; i < columns; ++i) sum += std::exp(of_row[i]);
    for (std::int64_t i = 0; i < columns; ++i) {
      slopes.push_back(0.25 * (std::exp(of_row[i]) / sum - (i == target ? 1 : 0)));
    }
    loss += std::log(sum) - of_row[target];
  }
  CHECK(largest_error(left[0], slopes) < tolerated<T>);
  CHECK(left[1][0] == Approx(loss).epsilon(1e-6));
}

/// Steps over weights of which one ends within a part, one with it, and one is short.
template <class T>
void optimizers() {
  const std::vector<std::int64_t> sizes{5000, 40000, 7, 16384, 1};
  std::vector<std::vector<float>> numbers;
  for (const std::int64_t size : sizes) {
    numbers.push_back(noise<float>(size));          // gradient
    numbers.push_back(noise<float>(size));          // first moment
    numbers.push_back(noise<float>(size, 2, 0.1));  // second moment
    numbers.push_back(noise<float>(size));          // weight
  }
  constexpr bool rounds = std::is_same_v<T, Bfloat16>;
  const auto step = [&](bool adam) {
    return on_backend([&](Backend& backend) {
      std::vector<WeightUpdate> updates;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const auto tensor = [&](std::size_t which) {
          return uploaded(backend, {sizes[i]}, numbers[4 * i + which]);
        };
        const Tensor weight = tensor(3);
        updates.push_back(
            {.gradient = tensor(0),
             .first_moment = tensor(1),
             .second_moment = tensor(2),
             .weight = weight,
             .updated = weight,
             .rounded = rounds ? backend.allocate({sizes[i]}, Precision::bfloat16) : Tensor{}});
      }
      if (adam) {
        backend.adamw_step({.learning_rate = 0.01, .weight_decay = 0.1}, 2, 0.5, updates);
      } else {
        backend.sgd_step({.learning_rate = 0.1}, 0.5, updates);
      }
      Results left;
      for (const WeightUpdate& each : updates) {
        for (const Tensor& tensor : {each.updated, each.first_moment, each.second_moment}) {
          left.push_back(downloaded<float>(backend, tensor));
        }
        if (rounds) left.push_back(downloaded<Bfloat16>(backend, each.rounded));
      }
      return left;
    });
  };
  const Results by_adam = step(true), by_sgd = step(false);
  const std::size_t results = rounds ? 4 : 3;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::vector<float>* of = &numbers[4 * i];
    const auto gradient = [&](auto k) { return 0.5 * wide(of[0][static_cast<std::size_t>(k)]); };
    const auto first = [&](auto k) {
      return 0.9 * wide(of[1][static_cast<std::size_t>(k)]) + 0.1 * gradient(k);
    };
    const auto second = [&](auto k) {
      return 0.95 * wide(of[2][static_cast<std::size_t>(k)]) + 0.05 * gradient(k) * gradient(k);
    };
    const auto by_formula = [&](auto k) {
      const double weight = wide(of[3][static_cast<std::size_t>(k)]);
      const double root = std::sqrt(second(k) / (1 - 0.95 * 0.95)) + 1e-8;
      return weight - 0.01 * (first(k) / (1 - 0.9 * 0.9) / root + 0.1 * weight);
    };
    const auto plain = [&](auto k) {
      return wide(of[3][static_cast<std::size_t>(k)]) - 0.1 * gradient(k);
    };
    CHECK(largest_error(by_adam[results * i], expected(sizes[i], by_formula)) < tolerated<float>);
    CHECK(largest_error(by_adam[results * i + 1], expected(sizes[i], first)) < tolerated<float>);
    CHECK(largest_error(by_adam[results * i + 2], expected(sizes[i], second)) < tolerated<float>);
    CHECK(largest_error(by_sgd[results * i], expected(sizes[i], plain)) < tolerated<float>);
    if (!rounds) continue;
    for (const Results& left : {by_adam, by_sgd}) {
      CHECK(left[results * i + 3] == expected(sizes[i], [&](auto k) {
              const double exact = left[results * i][static_cast<std::size_t>(k)];
              return wide(Bfloat16(static_cast<float>(exact)));
            }));
    }
  }
}

void squares() {
  const std::vector<std::int64_t> sizes{5000, 40000, 16384, 1};
  std::vector<std::vector<float>> numbers;
  for (const std::int64_t size : sizes) numbers.push_back(noise<float>(size));
  const Results left = on_backend([&](Backend& backend) {
    std::vector<Tensor> tensors;
    for (const auto& each : numbers) {
      tensors.push_back(uploaded(backend, {static_cast<std::int64_t>(each.size())}, each));
    }
    return Results{backend.sums_of_squares(tensors)};
  });
  Values sums;
  for (const auto& each : numbers) {
    double sum = 0;
    for (const double number : widened(each)) sum += number * number;
    sums.push_back(sum);
  }
  CHECK(largest_error(left[0], sums) < tolerated<float>);
}

/// Columns in tails of warps and of packs of 16 bytes, and on both sides of each limit of what a
/// warp or a block takes; rows that are none, one and several chunks of a sum of columns.
template <class T>
void of_rows() {
  using Size = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [rows, columns] : {Size{1, 1},
                                      {7, 24},
                                      {300, 33},
                                      {37, 100},
                                      {5, 256},
                                      {5, 264},
                                      {4, 768},
                                      {3, 1024},
                                      {3, 1032},
                                      {3, 2047},
                                      {3, 2048},
                                      {3, 2049},
                                      {2, 2056},
                                      {2, 4096},
                                      {2, 5000},
                                      {2, 8192},
                                      {1, 8200},
                                      {4500, 8}}) {
    for (const bool has_mean : {true, false}) norm<T>(rows, columns, has_mean);
  }
  for (const auto& [rows, columns] : {Size{1, 1},
                                      {19, 24},
                                      {9, 100},
                                      {5, 768},
                                      {3, 2048},
                                      {3, 2049},
                                      {2, 8192},
                                      {2, 50257},
                                      {2, 50304}}) {
    cross_entropy<T>(rows, columns);
  }
}

}  // namespace

std::vector<Trial> tests::operation_trials() {
  return {{"operations on rows in fp32", of_rows<float>},
          {"operations on rows in bf16", of_rows<Bfloat16>},
          {"optimizers in fp32", optimizers<float>},
          {"optimizers in bf16", optimizers<Bfloat16>},
          {"squares", squares}};
}
