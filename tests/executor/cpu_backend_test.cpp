// Each operation against the formula written out as loops over doubles, in both precisions.

#include <array>
#include <cstdint>
#include <thread>

#include "executor/backends/backend.hpp"
#include "executor/backends/cpu/vectorised.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

// A matrix of doubles, for the formulas.
struct Grid {
  std::size_t rows, columns;
  Values at_;
  Grid(std::size_t r, std::size_t c) : rows(r), columns(c), at_(r * c) {}
  Grid(std::size_t r, std::size_t c, const Tensor& tensor)
      : rows(r), columns(c), at_(values(tensor)) {}
  double& operator()(std::size_t r, std::size_t c) { return at_[r * columns + c]; }
  double operator()(std::size_t r, std::size_t c) const { return at_[r * columns + c]; }
};

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Statistics of one row for the norms' formulas: z = (x - mean) scale.
struct RowStatistics {
  double mean, scale;
};

RowStatistics statistics(const Grid& x, std::size_t row, double epsilon, bool centred) {
  double mean = 0;
  for (std::size_t c = 0; c < x.columns; ++c) mean += centred ? x(row, c) : 0;
  mean /= static_cast<double>(x.columns);
  double square = 0;
  for (std::size_t c = 0; c < x.columns; ++c) square += std::pow(x(row, c) - mean, 2);
  return {mean, 1 / std::sqrt(square / static_cast<double>(x.columns) + epsilon)};
}

// dx by the full Jacobian dz_i/dx_j = scale (δij - [centred] 1/n - z_i z_j / n).
Values norm_gradient(const Grid& x, const Grid& dy, const Values& weight, double epsilon,
                     bool centred) {
  Grid dx(x.rows, x.columns);
  const double n = static_cast<double>(x.columns);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const auto [mean, scale] = statistics(x, r, epsilon, centred);
    for (std::size_t i = 0; i < x.columns; ++i) {
      for (std::size_t j = 0; j < x.columns; ++j) {
        const double zz = (x(r, i) - mean) * (x(r, j) - mean) * scale * scale;
        const double slope = scale * ((i == j ? 1 : 0) - (centred ? 1 / n : 0) - zz / n);
        dx(r, j) += dy(r, i) * weight[i] * slope;
      }
    }
  }
  return dx.at_;
}

// Attention written out, for one (sample, head).
struct NaiveHead {
  std::size_t sequence, width;
  std::vector<Values> p;  // probabilities

  template <class Query, class Key>
  NaiveHead(std::size_t s, std::size_t w, bool causal, Query query, Key key)
      : sequence(s), width(w), p(s, Values(s)) {
    for (std::size_t i = 0; i < s; ++i) {
      const std::size_t visible = causal ? i + 1 : s;
      double sum = 0;
      for (std::size_t j = 0; j < visible; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < w; ++d) score += query(i, d) * key(j, d);
        sum += p[i][j] = std::exp(score / std::sqrt(static_cast<double>(w)));
      }
      for (std::size_t j = 0; j < visible; ++j) p[i][j] /= sum;
    }
  }
};

// Places of one sample's head in packed rows.
struct Packed {
  AttentionShape shape;
  std::size_t width() const {
    return static_cast<std::size_t>((shape.heads + 2 * shape.key_value_heads) * shape.head_width);
  }
  std::size_t row(std::size_t sample, std::size_t position) const {
    return (sample * static_cast<std::size_t>(shape.sequence) + position) * width();
  }
  std::size_t query(std::size_t head) const { return head * size(shape.head_width); }
  std::size_t key(std::size_t head) const {
    const std::size_t group = head / size(shape.heads / shape.key_value_heads);
    return size(shape.heads * shape.head_width) + group * size(shape.head_width);
  }
  std::size_t value(std::size_t head) const {
    return key(head) + size(shape.key_value_heads * shape.head_width);
  }
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
};

struct AttentionGradient {
  Values y, log_sum, dqkv;
};

AttentionGradient naive_attention(const AttentionShape& shape, const Values& qkv,
                                  const Values& dy) {
  const Packed at{shape};
  const std::size_t sequence = Packed::size(shape.sequence), width = Packed::size(shape.head_width);
  const std::size_t heads = Packed::size(shape.heads);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  AttentionGradient result{Values(dy.size()), {}, Values(qkv.size())};
  for (std::size_t sample = 0; sample < Packed::size(shape.samples); ++sample) {
    for (std::size_t head = 0; head < heads; ++head) {
      const auto index = [&](std::size_t i, std::size_t part, std::size_t d) {
        return at.row(sample, i) + part + d;
      };
      const auto out = [&](std::size_t i, std::size_t d) {
        return ((sample * sequence + i) * heads + head) * width + d;
      };
      const auto query = [&](std::size_t i, std::size_t d) {
        return qkv[index(i, at.query(head), d)];
      };
      const auto key = [&](std::size_t i, std::size_t d) { return qkv[index(i, at.key(head), d)]; };
      const auto value = [&](std::size_t i, std::size_t d) {
        return qkv[index(i, at.value(head), d)];
      };
      const NaiveHead naive(sequence, width, shape.causal, query, key);
      for (std::size_t i = 0; i < sequence; ++i) {
        const std::size_t visible = shape.causal ? i + 1 : sequence;
        double sum = 0;
        Values dp(sequence);
        double mean = 0;
        for (std::size_t j = 0; j < visible; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < width; ++d) {
            score += query(i, d) * key(j, d) * scale;
            result.y[out(i, d)] += naive.p[i][j] * value(j, d);
            dp[j] += dy[out(i, d)] * value(j, d);
            result.dqkv[index(j, at.value(head), d)] += naive.p[i][j] * dy[out(i, d)];
          }
          sum += std::exp(score);
          mean += naive.p[i][j] * dp[j];
        }
        result.log_sum.push_back(std::log(sum));
        for (std::size_t j = 0; j < visible; ++j) {
          const double ds = naive.p[i][j] * (dp[j] - mean) * scale;
          for (std::size_t d = 0; d < width; ++d) {
            result.dqkv[index(i, at.query(head), d)] += ds * key(j, d);
            result.dqkv[index(j, at.key(head), d)] += ds * query(i, d);
          }
        }
      }
    }
  }
  return result;
}

std::int64_t packed_width(const AttentionShape& shape) {
  return (shape.heads + 2 * shape.key_value_heads) * shape.head_width;
}

}  // namespace

TEST_CASE("allocated and peak bytes are exact") {
  const auto backend = make_cpu_backend();
  Tensor a = backend->allocate({3}, Precision::float32);
  CHECK(backend->allocated_bytes() == 12);
  Tensor b = backend->allocate({7}, Precision::float64);
  CHECK(backend->allocated_bytes() == 12 + 56);
  const Tensor shared = b;
  b = {};
  CHECK(backend->allocated_bytes() == 12 + 56);
  a = {};
  CHECK(backend->allocated_bytes() == 56);
  CHECK(backend->peak_bytes() == 12 + 56);
  backend->reset_peak();
  CHECK(backend->peak_bytes() == 56);
}

TEST_CASE("memory is aligned to cache lines, and a block's size does not depend on its past") {
  const auto backend = make_cpu_backend();
  for (std::int64_t size : {0, 1, 15, 16, 17, 1000, 1000, 100000}) {
    const Tensor tensor = backend->allocate({size}, Precision::float32);
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.storage.get()) % 64 == 0);
    CHECK(backend->allocated_bytes() == size * 4);
  }
  CHECK(backend->allocated_bytes() == 0);
}

TEST_CASE("threads may free each other's tensors, and after the backend is gone") {
  auto backend = make_cpu_backend();
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 100; ++i) tensors.push_back(backend->allocate({i + 1}, Precision::float32));
    threads.emplace_back([moved = std::move(tensors)]() mutable { moved.clear(); });
  }
  threads.clear();
  CHECK(backend->allocated_bytes() == 0);
  const Tensor survivor = noise(*backend, {1000}, Precision::float64, 1);
  backend.reset();
  CHECK(values(survivor).size() == 1000);
}

TEST_CASE("too large a tensor is an error that says how large") {
  const auto backend = make_cpu_backend();
  try {
    backend->allocate({std::int64_t{1} << 55}, Precision::float32);
    FAIL("allocated more than any machine has");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::execution);
    CHECK_THAT(error.what(), ContainsSubstring("cannot allocate"));
  }
  CHECK(backend->allocated_bytes() == 0);
}

TEST_CASE("the CPU backend refuses precisions it cannot compute in") {
  const auto backend = make_cpu_backend();
  CHECK_THROWS_AS(backend->allocate({1}, Precision::bfloat16), Error);
}

TEST_CASE("zero, copy and add") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const Tensor x = tensor_of(*backend, {3}, precision, {1, 2, 3});
  Tensor y = tensor_of(*backend, {3}, precision, {10, 20, 30});
  backend->add(x, y);
  CHECK(values(y) == Values{11, 22, 33});
  backend->copy(x, y);
  CHECK(values(y) == Values{1, 2, 3});
  backend->zero(y);
  CHECK(values(y) == Values{0, 0, 0});
}

TEST_CASE("matmul is the sum of products, transposed and accumulated as asked") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const bool transpose_a = GENERATE(false, true);
  const bool transpose_b = GENERATE(false, true);
  const bool accumulate = GENERATE(false, true);
  const auto backend = make_cpu_backend();
  const std::size_t rows = 6, inner = 35, columns = 17;
  const Grid a(transpose_a ? inner : rows, transpose_a ? rows : inner,
               noise(*backend, {rows * inner}, precision, 1));
  const Grid b(transpose_b ? columns : inner, transpose_b ? inner : columns,
               noise(*backend, {inner * columns}, precision, 2));
  Grid c(rows, columns, noise(*backend, {rows * columns}, precision, 3));
  Tensor result = tensor_of(*backend, {2, 3, columns}, precision, c.at_);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < columns; ++k) {
      if (!accumulate) c(r, k) = 0;
      for (std::size_t i = 0; i < inner; ++i) {
        c(r, k) += (transpose_a ? a(i, r) : a(r, i)) * (transpose_b ? b(k, i) : b(i, k));
      }
    }
  }
  // Leading dimensions are folded into rows: of a (where it is not transposed) and of c.
  std::vector<std::int64_t> shape_a{2, 3, inner};
  if (transpose_a) shape_a = {5, 7, rows};
  backend->matmul(
      tensor_of(*backend, shape_a, precision, a.at_), transpose_a,
      tensor_of(*backend, {std::int64_t(b.rows), std::int64_t(b.columns)}, precision, b.at_),
      transpose_b, result, accumulate);
  CHECK(relative_error(result, c.at_) < tolerance(precision));
}

TEST_CASE("biases are added to every row, and their gradient is the sum of the rows") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  Tensor x = tensor_of(*backend, {2, 3}, precision, {1, 2, 3, 4, 5, 6});
  Tensor bias = tensor_of(*backend, {3}, precision, {10, 20, 30});
  backend->add_bias(bias, x);
  CHECK(values(x) == Values{11, 22, 33, 14, 25, 36});
  backend->bias_gradient(x, bias);
  CHECK(values(bias) == Values{10 + 25, 20 + 47, 30 + 69});
}

TEST_CASE("LayerNorm and its gradients follow the formula") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const std::int64_t width = GENERATE(1, 5, 32, 100);
  const auto backend = make_cpu_backend();
  const std::size_t rows = 4, n = static_cast<std::size_t>(width);
  const double epsilon = 1e-5;
  const Tensor x = noise(*backend, {4, width}, precision, 1, 0.5, 2);
  const Tensor weight = noise(*backend, {width}, precision, 2, 1, 0.3);
  const Tensor bias = noise(*backend, {width}, precision, 3);
  const Tensor dy = noise(*backend, {4, width}, precision, 4);
  Tensor y = backend->allocate({4, width}, precision),
         dx = backend->allocate({4, width}, precision);
  Tensor mean = backend->allocate({4}, precision), scale = backend->allocate({4}, precision);
  Tensor dweight = noise(*backend, {width}, precision, 5),
         dbias = noise(*backend, {width}, precision, 6);

  const Grid grid(rows, n, x), gradient(rows, n, dy);
  Grid expected(rows, n);
  Values expected_dweight = values(dweight), expected_dbias = values(dbias);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto [m, s] = statistics(grid, r, epsilon, true);
    for (std::size_t c = 0; c < n; ++c) {
      const double z = (grid(r, c) - m) * s;
      expected(r, c) = z * values(weight)[c] + values(bias)[c];
      expected_dweight[c] += gradient(r, c) * z;
      expected_dbias[c] += gradient(r, c);
    }
  }
  backend->layer_norm(x, weight, bias, epsilon, y, mean, scale);
  CHECK(relative_error(y, expected.at_) < tolerance(precision));
  backend->layer_norm_input(dy, x, weight, mean, scale, dx);
  if (width > 1) {
    CHECK(relative_error(dx, norm_gradient(grid, gradient, values(weight), epsilon, true)) <
          tolerance(precision));
  }
  backend->layer_norm_weight(dy, x, mean, scale, dweight, dbias);
  CHECK(relative_error(dweight, expected_dweight) < tolerance(precision));
  CHECK(relative_error(dbias, expected_dbias) < tolerance(precision));
}

TEST_CASE("RMSNorm and its gradients follow the formula") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const std::int64_t width = GENERATE(1, 5, 32, 100);
  const auto backend = make_cpu_backend();
  const std::size_t rows = 4, n = static_cast<std::size_t>(width);
  const double epsilon = 1e-5;
  const Tensor x = noise(*backend, {4, width}, precision, 1, 0.5, 2);
  const Tensor weight = noise(*backend, {width}, precision, 2, 1, 0.3);
  const Tensor dy = noise(*backend, {4, width}, precision, 4);
  Tensor y = backend->allocate({4, width}, precision),
         dx = backend->allocate({4, width}, precision);
  Tensor scale = backend->allocate({4}, precision);
  Tensor dweight = noise(*backend, {width}, precision, 5);

  const Grid grid(rows, n, x), gradient(rows, n, dy);
  Grid expected(rows, n);
  Values expected_dweight = values(dweight);
  for (std::size_t r = 0; r < rows; ++r) {
    const double s = statistics(grid, r, epsilon, false).scale;
    for (std::size_t c = 0; c < n; ++c) {
      expected(r, c) = grid(r, c) * s * values(weight)[c];
      expected_dweight[c] += gradient(r, c) * grid(r, c) * s;
    }
  }
  backend->rms_norm(x, weight, epsilon, y, scale);
  CHECK(relative_error(y, expected.at_) < tolerance(precision));
  backend->rms_norm_input(dy, x, weight, scale, dx);
  if (width > 1) {
    CHECK(relative_error(dx, norm_gradient(grid, gradient, values(weight), epsilon, false)) <
          tolerance(precision));
  }
  backend->rms_norm_weight(dy, x, scale, dweight);
  CHECK(relative_error(dweight, expected_dweight) < tolerance(precision));
}

TEST_CASE("the float exponential is good to two units in the last place") {
  double worst = 0;
  for (float x = -86.9f; x < 87.9f; x += 0.00173f) {
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(cpu::exponential(x) / expected - 1));
  }
  CHECK(worst < 1.2e-7);
  CHECK(cpu::exponential(0.0f) == 1.0f);
  CHECK(cpu::exponential(-1e30f) < 1e-37f);
  CHECK(std::isfinite(cpu::exponential(1e30f)));
  CHECK(std::isnan(cpu::exponential(std::nanf(""))));
}

TEST_CASE("GELU is the tanh form, from far left to far right") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const double close = precision == Precision::float64 ? 1e-13 : 2e-6;
  const auto backend = make_cpu_backend();
  for (double at = -3; at < 12; at += 0.11) {
    const Tensor x = tensor_of(*backend, {1}, precision, {static_cast<float>(at)});
    const Tensor dy = tensor_of(*backend, {1}, precision, {3});
    Tensor y = backend->allocate({1}, precision), dx = backend->allocate({1}, precision);
    backend->gelu(x, y);
    backend->gelu_input(dy, x, dx);
    CHECK(values(y)[0] == Approx(gelu_of(values(x)[0])).epsilon(close).margin(1e-18));
    CHECK(values(dx)[0] ==
          Approx(3 * gelu_slope(values(x)[0])).epsilon(close).margin(1e-7 * close / 1e-13));
  }
}

TEST_CASE("SwiGLU multiplies the silu of the gate with the other half") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const std::size_t rows = 3, width = 37;
  const Tensor x = noise(*backend, {3, 74}, precision, 1, 0, 3),
               dy = noise(*backend, {3, 37}, precision, 2);
  Tensor y = backend->allocate({3, 37}, precision), dx = backend->allocate({3, 74}, precision);
  const Grid in(rows, 2 * width, x), gradient(rows, width, dy);
  Grid out(rows, width), back(rows, 2 * width);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < width; ++c) {
      const double gate = in(r, c), up = in(r, width + c), s = sigmoid(gate);
      out(r, c) = gate * s * up;
      back(r, c) = gradient(r, c) * up * s * (1 + gate * (1 - s));
      back(r, width + c) = gradient(r, c) * gate * s;
    }
  }
  backend->swiglu(x, y);
  backend->swiglu_input(dy, x, dx);
  CHECK(relative_error(y, out.at_) < tolerance(precision));
  CHECK(relative_error(dx, back.at_) < tolerance(precision));
}

TEST_CASE("rotary turns pairs of query and key by position and frequency, and back") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const AttentionShape shape{
      .samples = 2, .sequence = 9, .heads = 4, .key_value_heads = 2, .head_width = 6};
  const std::vector<double> frequencies{1, 0.3, 0.02};
  Tensor qkv = noise(*backend, {2, 9, packed_width(shape)}, precision, 1);
  const Values before = values(qkv);
  Values expected = before;
  for (std::size_t row = 0; row < 18; ++row) {
    for (std::size_t head = 0; head < 6; ++head) {
      for (std::size_t pair = 0; pair < 3; ++pair) {
        const double angle = static_cast<double>(row % 9) * frequencies[pair];
        const std::size_t first = row * 48 + head * 6 + pair, second = first + 3;
        expected[first] = before[first] * std::cos(angle) - before[second] * std::sin(angle);
        expected[second] = before[second] * std::cos(angle) + before[first] * std::sin(angle);
      }
    }
  }
  backend->rotary(qkv, shape, frequencies, false);
  CHECK(relative_error(qkv, expected) < tolerance(precision));
  backend->rotary(qkv, shape, frequencies, true);
  CHECK(relative_error(qkv, before) < tolerance(precision));
}

TEST_CASE("attention and its gradients follow the formula", "[seconds]") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const std::int64_t sequence = GENERATE(1, 7, 64, 65, 150);
  const std::int64_t key_value_heads = GENERATE(1, 2, 4);
  const bool causal = GENERATE(true, false);
  const auto backend = make_cpu_backend();
  const AttentionShape shape{2, sequence, 4, key_value_heads, 6, causal};
  const Tensor qkv = noise(*backend, {2, sequence, packed_width(shape)}, precision, 1);
  const Tensor dy = noise(*backend, {2, sequence, 24}, precision, 2);
  Tensor y = backend->allocate({2, sequence, 24}, precision);
  Tensor log_sum = backend->allocate({2, 4, sequence}, precision);
  Tensor dqkv = backend->allocate(qkv.shape, precision);
  const AttentionGradient expected = naive_attention(shape, values(qkv), values(dy));
  backend->attention(qkv, shape, y, log_sum);
  CHECK(relative_error(y, expected.y) < tolerance(precision));
  CHECK(relative_error(log_sum, expected.log_sum) < tolerance(precision));
  backend->attention_input(dy, qkv, y, log_sum, shape, dqkv);
  CHECK(relative_error(dqkv, expected.dqkv) < tolerance(precision));
}

TEST_CASE("attention survives scores that a plain exponential would not") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const AttentionShape shape{1, 20, 1, 1, 4, true};
  const Tensor qkv = noise(*backend, {20, 12}, precision, 1, 0, 60);
  Tensor y = backend->allocate({20, 4}, precision),
         log_sum = backend->allocate({1, 1, 20}, precision);
  backend->attention(qkv, shape, y, log_sum);
  for (double value : values(y)) CHECK(std::isfinite(value));
}

TEST_CASE("an embedding picks rows and adds positions, and its gradient puts them back") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const bool learned = GENERATE(true, false);
  const auto backend = make_cpu_backend();
  const std::vector<std::int32_t> tokens{3, 1, 3, 0};
  const Tensor table = tensor_of(*backend, {4, 2}, precision, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor positions =
      learned ? tensor_of(*backend, {3, 2}, precision, {10, 20, 30, 40, 50, 60}) : Tensor{};
  Tensor y = backend->allocate({2, 2, 2}, precision);
  backend->embedding(tokens, table, 0, positions, 2, y);
  CHECK(values(y) ==
        (learned ? Values{17, 28, 33, 44, 17, 28, 31, 42} : Values{7, 8, 3, 4, 7, 8, 1, 2}));

  Tensor dtable = tensor_of(*backend, {4, 2}, precision, {1, 1, 1, 1, 1, 1, 1, 1});
  Tensor dpositions =
      learned ? tensor_of(*backend, {3, 2}, precision, {0, 0, 0, 0, 0, 0}) : Tensor{};
  const Tensor dy = tensor_of(*backend, {2, 2, 2}, precision, {1, 2, 3, 4, 5, 6, 7, 8});
  backend->embedding_weight(tokens, dy, 0, 2, dtable, dpositions);
  CHECK(values(dtable) == Values{8, 9, 4, 5, 1, 1, 7, 9});
  if (learned) CHECK(values(dpositions) == Values{6, 8, 10, 12, 0, 0});
}

TEST_CASE("cross-entropy is the negative log of the target's share, and leaves its gradient") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const std::size_t rows = 3, vocabulary = 5000;
  Tensor logits = noise(*backend, {3, 5000}, precision, 1, 100, 5);
  const std::vector<std::int32_t> targets{17, 0, 4999};
  const Grid in(rows, vocabulary, logits);
  Grid gradient(rows, vocabulary);
  double loss = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t target = static_cast<std::size_t>(targets[r]);
    double sum = 0;
    for (std::size_t c = 0; c < vocabulary; ++c) sum += std::exp(in(r, c) - 100);
    for (std::size_t c = 0; c < vocabulary; ++c) {
      gradient(r, c) = 0.25 * (std::exp(in(r, c) - 100) / sum - (c == target ? 1 : 0));
    }
    loss += std::log(sum) + 100 - in(r, target);
  }
  CHECK(backend->cross_entropy(logits, targets, 0.25) ==
        Approx(loss).epsilon(tolerance(precision)));
  CHECK(relative_error(logits, gradient.at_) < tolerance(precision));
}

TEST_CASE("AdamW moves weights by corrected moments and decays them apart") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const AdamW options{
      .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1};
  Tensor weight = noise(*backend, {50}, precision, 1);
  Tensor m = tensor_of(*backend, {50}, precision, Values(50)),
         v = tensor_of(*backend, {50}, precision, Values(50));
  Values w = values(weight), first(50), second(50);
  for (int step = 1; step <= 5; ++step) {
    const Tensor gradient = noise(*backend, {50}, precision, static_cast<unsigned>(10 + step));
    const Values g = values(gradient);
    for (std::size_t i = 0; i < 50; ++i) {
      first[i] = 0.9 * first[i] + 0.1 * g[i];
      second[i] = 0.99 * second[i] + 0.01 * g[i] * g[i];
      const double m_hat = first[i] / (1 - std::pow(0.9, step)),
                   v_hat = second[i] / (1 - std::pow(0.99, step));
      w[i] -= 0.01 * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.1 * w[i]);
    }
    Tensor updated = noise(*backend, {50}, precision, 2);
    Tensor m2 = tensor_of(*backend, {50}, precision, values(m)),
           v2 = tensor_of(*backend, {50}, precision, values(v));
    backend->adamw(options, step, gradient, m2, v2, weight, updated);
    backend->adamw(options, step, gradient, m, v, weight, weight);
    CHECK(values(updated) == values(weight));
  }
  CHECK(relative_error(weight, w) < tolerance(precision));
}

TEST_CASE("SGD subtracts the gradient times the learning rate") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  Tensor weight = tensor_of(*backend, {2}, precision, {1, 2});
  const Tensor gradient = tensor_of(*backend, {2}, precision, {4, 8});
  Tensor updated = tensor_of(*backend, {2}, precision, {0, 0});
  backend->sgd({.learning_rate = 0.5}, gradient, weight, updated);
  CHECK(values(weight) == Values{1, 2});
  CHECK(values(updated) == Values{-1, -2});
  backend->sgd({.learning_rate = 0.5}, gradient, weight, weight);
  CHECK(values(weight) == Values{-1, -2});
}

TEST_CASE("a row's result does not depend on the other rows of the call") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const std::int64_t rows = 7, width = 70;
  const Tensor x = noise(*backend, {rows, width}, precision, 1),
               dy = noise(*backend, {rows, width}, precision, 2);
  const Tensor weight = noise(*backend, {width}, precision, 3),
               bias = noise(*backend, {width}, precision, 4);
  // Runs an operation on some rows, and gives back its outputs.
  const auto norms = [&](const Tensor& in, const Tensor& gradient) {
    std::vector<Tensor> out(5);
    for (Tensor& tensor : out) tensor = backend->allocate(in.shape, precision);
    Tensor mean = backend->allocate({in.shape[0]}, precision),
           scale = backend->allocate({in.shape[0]}, precision);
    backend->layer_norm(in, weight, bias, 1e-5, out[0], mean, scale);
    backend->layer_norm_input(gradient, in, weight, mean, scale, out[1]);
    backend->rms_norm(in, weight, 1e-5, out[2], scale);
    backend->rms_norm_input(gradient, in, weight, scale, out[3]);
    backend->copy(in, out[4]);
    const std::vector<std::int32_t> targets(static_cast<std::size_t>(in.shape[0]), 3);
    backend->cross_entropy(out[4], targets, 0.1);
    return out;
  };
  const auto all = norms(x, dy);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto one = norms(rows_of(x, row, row + 1), rows_of(dy, row, row + 1));
    for (std::size_t i = 0; i < one.size(); ++i)
      CHECK(bitwise_equal(one[i], rows_of(all[i], row, row + 1)));
  }
}

TEST_CASE("what is added part by part has the bits of one call after another") {
  const Precision precision = GENERATE(from_range(both_precisions));
  // One row in a part, several with some left, all of them.
  const std::int64_t width = GENERATE(5000, 1000, 7);
  const auto backend = make_cpu_backend();
  const std::int64_t rows = 11, inputs = 3;
  const auto rows_wide = [&](unsigned seed) {
    return noise(*backend, {rows, width}, precision, seed);
  };
  const auto row = [&](unsigned seed) { return noise(*backend, {width}, precision, seed); };
  Tensor part = backend->allocate({rows, width}, precision),
         whole = backend->allocate({rows, width}, precision);

  const Tensor x = noise(*backend, {rows, inputs}, precision, 1),
               weight = noise(*backend, {inputs, width}, precision, 2);
  for (const Tensor& bias : {row(3), Tensor{}}) {
    for (const Tensor& residual : {rows_wide(4), Tensor{}}) {
      backend->linear(x, weight, bias, residual, part);
      backend->Backend::linear(x, weight, bias, residual, whole);
      CHECK(bitwise_equal(part, whole));
    }
  }

  const Tensor dy = rows_wide(5), in = rows_wide(6), residual = rows_wide(7), norm_weight = row(8),
               scale = noise(*backend, {rows}, precision, 9);
  for (const Tensor& mean : {noise(*backend, {rows}, precision, 10), Tensor{}}) {
    backend->norm_input_and_residual(dy, in, norm_weight, mean, scale, residual, part);
    backend->Backend::norm_input_and_residual(dy, in, norm_weight, mean, scale, residual, whole);
    CHECK(bitwise_equal(part, whole));
  }
}

TEST_CASE("a sample's attention does not depend on the other samples of the call") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const AttentionShape shape{3, 70, 4, 2, 8, true};
  const Tensor qkv = noise(*backend, {3, 70, packed_width(shape)}, precision, 1);
  const Tensor dy = noise(*backend, {3, 70, 32}, precision, 2);
  const auto run = [&](const Tensor& in, const Tensor& gradient) {
    AttentionShape part = shape;
    part.samples = in.shape[0];
    Tensor y = backend->allocate(gradient.shape, precision),
           dqkv = backend->allocate(in.shape, precision);
    Tensor log_sum = backend->allocate({part.samples, 4, 70}, precision);
    backend->attention(in, part, y, log_sum);
    backend->attention_input(gradient, in, y, log_sum, part, dqkv);
    return std::vector{y, log_sum, dqkv};
  };
  const auto all = run(qkv, dy);
  for (std::int64_t sample = 0; sample < 3; ++sample) {
    const auto one = run(rows_of(qkv, sample, sample + 1), rows_of(dy, sample, sample + 1));
    for (std::size_t i = 0; i < one.size(); ++i)
      CHECK(bitwise_equal(one[i], rows_of(all[i], sample, sample + 1)));
  }
}

TEST_CASE("products are the same bits on every thread, also when all compute at once") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto product = [&] {
    const auto backend = make_cpu_backend();
    const Tensor a = noise(*backend, {100, 70}, precision, 1),
                 b = noise(*backend, {70, 90}, precision, 2);
    Tensor c = backend->allocate({100, 90}, precision);
    for (int i = 0; i < 20; ++i) backend->matmul(a, false, b, false, c, i > 0);
    return values(c);
  };
  const Values expected = product();
  std::vector<Values> results(4);
  {
    std::vector<std::jthread> threads;
    for (Values& result : results) threads.emplace_back([&] { result = product(); });
  }
  for (const Values& result : results) CHECK(result == expected);
}
