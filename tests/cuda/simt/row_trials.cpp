// Kernels that go row by row, where an operation of the backend is more than one of them.

#include "executor/backends/cuda/kernels.hpp"
#include "tests/cuda/simt/trials.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace stagecraft::cuda;

namespace {

/// Rows and columns: of a warp, with fewer columns than lanes, a tail, and as many as it takes at
/// most; of a block.
const std::vector<std::pair<std::int64_t, std::int64_t>> sizes{{1, 1},    {9, 20},   {37, 100},
                                                               {3, 2048}, {3, 2049}, {2, 5000}};

/// With something between rows, which stays as it is.
template <class T>
void parts_of_softmax(std::int64_t rows, std::int64_t columns) {
  INFO(rows << " x " << columns);
  const std::int64_t stride = columns + 3, first = columns;
  const Fenced<T> logits(noise<T>(rows * stride, 0, 3));
  const Fenced<std::int32_t> targets(indices(rows, 3 * columns));
  const auto largest = by_two_orders([&](cudaStream_t stream) {
    Fenced<float> tops(rows);
    for_each_row(stream, rows, columns,
                 LargestRows<T>{logits.data(), tops.data(), columns, stride});
    return results(stream, tops);
  });
  const auto top = [&](auto row) {
    const T* of_row = logits.data() + row * stride;
    return wide(
        *std::max_element(of_row, of_row + columns, [](T a, T b) { return wide(a) < wide(b); }));
  };
  CHECK(largest[0] == expected(rows, top));
  const Fenced<float> tops(noise<float>(rows, 4));
  const auto exponentials = by_two_orders([&](cudaStream_t stream) {
    Fenced<T> left(std::vector<T>(logits.data(), logits.data() + rows * stride));
    Fenced<float> sums(2 * rows);
    for_each_row(stream, rows, columns,
                 ExponentialRows<T>{left.data(), tops.data(), targets.data(), sums.data(), first,
                                    columns, stride});
    return results(stream, left, sums);
  });
  const auto exponential = [&](auto i) {
    return i % stride < columns ? std::exp(logits[i] - tops[i / stride]) : logits[i];
  };
  CHECK(largest_error(exponentials[0], expected(rows * stride, exponential)) < tolerated<T>);
  const auto sum = [&](auto i) {
    const auto row = i / 2;
    const auto target = targets.data()[row] - first;
    if (i % 2 == 1) {
      const bool is_here = 0 <= target && target < columns;
      return is_here ? logits[row * stride + target] - tops[row] : 0.0;
    }
    double all = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      all += exponential(row * stride + column);
    }
    return all;
  };
  CHECK(largest_error(exponentials[1], expected(2 * rows, sum)) < tolerated<float>);
}

template <class T>
void attention(std::int64_t sequence, bool causal) {
  // Rows of two heads; of long ones, the first and last few of the second head.
  const std::int64_t rows = sequence < 100 ? 2 * sequence : 6;
  const float factor = 0.2f;
  const Fenced<float> scores(noise<float>(rows * sequence, 0, 4));
  const Fenced<float> dp(noise<float>(rows * sequence));
  const auto visible = [&](auto i) { return !causal || i % sequence <= i / sequence % sequence; };
  const auto exponential = [&](auto i) {
    return visible(i) ? std::exp(scores[i] * static_cast<double>(factor)) : 0.0;
  };
  Values sums(static_cast<std::size_t>(rows)), products(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows * sequence; ++i) {
    sums[static_cast<std::size_t>(i / sequence)] += exponential(i);
    products[static_cast<std::size_t>(i / sequence)] += exponential(i) * dp[i];
  }
  const auto sum_of = [&](auto i) { return sums[static_cast<std::size_t>(i / sequence)]; };
  const auto forward = by_two_orders([&](cudaStream_t stream) {
    Fenced<T> probabilities(rows * sequence);
    Fenced<float> log_sums(rows);
    for_each_row(stream, rows, sequence,
                 AttentionRows<T>{scores.data(), probabilities.data(), log_sums.data(), sequence,
                                  causal, factor});
    return results(stream, probabilities, log_sums);
  });
  const auto probability = [&](auto i) { return exponential(i) / sum_of(i); };
  const Values probabilities = expected(rows * sequence, probability);
  CHECK(largest_error(forward[0], probabilities) < tolerated<T>);
  const auto log_sum = [&](auto row) { return std::log(sum_of(row * sequence)); };
  CHECK(largest_error(forward[1], expected(rows, log_sum)) < tolerated<float>);
  std::vector<float> given;
  for (std::int64_t row = 0; row < rows; ++row) given.push_back(static_cast<float>(log_sum(row)));
  const Fenced<float> log_sums(given);
  const auto backward = by_two_orders([&](cudaStream_t stream) {
    Fenced<T> again(rows * sequence), dscores(rows * sequence);
    for_each_row(stream, rows, sequence,
                 AttentionInputRows<T>{scores.data(), dp.data(), log_sums.data(), again.data(),
                                       dscores.data(), sequence, causal, factor});
    return results(stream, again, dscores);
  });
  CHECK(largest_error(backward[0], probabilities) < tolerated<T>);
  const auto slope = [&](auto i) {
    const double mean = products[static_cast<std::size_t>(i / sequence)] / sum_of(i);
    return static_cast<double>(factor) * probability(i) * (dp[i] - mean);
  };
  CHECK(largest_error(backward[1], expected(rows * sequence, slope)) < tolerated<T>);
}

void largest(std::int64_t rows, std::int64_t columns) {
  const auto logits = noise<Bfloat16>(rows * columns);
  const auto largest = by_order(1, [&](cudaStream_t stream) {
    Fenced<float> tops(rows);
    for_each_row(stream, rows, columns,
                 LargestRows<Bfloat16>{logits.data(), tops.data(), columns, columns});
    return results(stream, tops);
  });
  CHECK((largest[0] == expected(rows, [&](auto row) {
           double top = -INFINITY;
           for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) {
             top = std::max(top, wide(logits[static_cast<std::size_t>(i)]));
           }
           return top;
         })));
}

/// The scales of RMSNorm, of rows that lanes hold.
void scales(std::int64_t rows, std::int64_t columns) {
  const Fenced<float> x(noise<float>(rows * columns)), weight(noise<float>(columns));
  const auto scales = by_order(1, [&](cudaStream_t stream) {
    Fenced<float> y(rows * columns), scale(rows);
    for_each_row(stream, rows, columns,
                 NormRows<float>{x.data(), weight.data(), nullptr, y.data(), nullptr, scale.data(),
                                 columns, 0.01f});
    return results(stream, scale);
  });
  CHECK(largest_error(scales[0], expected(rows, [&](auto row) {
                        double squares = 0;
                        for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i)
                          squares += x[i] * x[i];
                        return 1 / std::sqrt(squares / static_cast<double>(columns) + 0.01);
                      })) < tolerated<float>);
}

/// What a kernel, which is given the parts of a tensor and room for their sums, does by warps: as
/// by blocks. (The backend's rows of parts are always a block's.)
template <class RowOf>
void parts(const RowOf& row_of) {
  const std::int64_t size = part_elements + 100;
  const auto gradient = noise<float>(size), first = noise<float>(size);
  const auto second = noise<float>(size, 2, 0.1), weight = noise<float>(size);
  const auto left_by = [&](std::int64_t columns) {
    return by_two_orders([&](cudaStream_t stream) {
      Fenced<float> m(first), v(second), w(weight), sums(std::vector<float>(2));
      const UpdatedTensor tensor{gradient.data(), m.data(), v.data(), w.data(),
                                 w.data(),        nullptr,  size,     0};
      for_each_row(stream, 2, columns, row_of(TensorTable{&tensor, 1}, sums.data()));
      return results(stream, m, v, w, sums);
    });
  };
  const Results by_blocks = left_by(part_elements), by_warps = left_by(1);
  for (std::size_t i = 0; i < by_warps.size(); ++i) {
    CHECK(largest_error(by_warps[i], by_blocks[i]) < tolerated<float>);
  }
}

void parts_by_warps() {
  const AdamWStep adamw{0.9f, 0.1f, 0.95f, 0.05f, 1e-3f, 1.1f, 1e-8f, 1e-4f, 0.5f};
  parts([&](const TensorTable& table, float*) { return StepOfParts<AdamWStep>{table, &adamw}; });
  const SgdStep sgd{0.1f, 0.5f};
  parts([&](const TensorTable& table, float*) { return StepOfParts<SgdStep>{table, &sgd}; });
  parts([](const TensorTable& table, float* sums) { return SquaresOfParts{table, sums}; });
}

template <class T>
void all_row_trials() {
  for (const auto& [rows, columns] : sizes) parts_of_softmax<T>(rows, columns);
  for (const std::int64_t sequence : {2, 20, 75, 2050}) {
    for (const bool causal : {true, false}) attention<T>(sequence, causal);
  }
}

}  // namespace

std::vector<Trial> tests::row_trials() {
  return {{"rows in fp32", all_row_trials<float>},
          {"rows in bf16", all_row_trials<Bfloat16>},
          {"parts by warps", parts_by_warps},
          {"more rows than a grid has warps", [] { largest((1 << 17) + 11, 3); }},
          {"more rows than a grid has blocks", [] { largest((1 << 14) + 3, 2049); }},
          {"more held rows than a grid has warps", [] { scales((1 << 17) + 11, 4); }},
          {"more held rows than a grid has blocks", [] { scales((1 << 14) + 3, 516); }}};
}
