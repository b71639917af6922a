// What the CUDA backend's kernels compute, on the CPU: the same functions, called for every element
// and by teams of threads for every row, beside the CPU backend in fp64.

#include <algorithm>
#include <array>
#include <barrier>
#include <thread>
#include <vector>

#include "executor/backends/cuda/column_sums.hpp"
#include "executor/backends/cuda/optimizers.hpp"
#include "executor/backends/cuda/rows.hpp"
#include "executor/backends/cuda/token_lists.hpp"
#include "tests/catch.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace stagecraft::cuda;

namespace {

constexpr Precision fp64 = Precision::float64;

/// Lanes that are threads, in step only where a team has to be.
struct Threads {
  struct Shared {
    explicit Shared(int size) : numbers(static_cast<std::size_t>(size)), meeting(size) {}
    std::vector<float> numbers;
    std::barrier<> meeting;
  };
  Shared* shared;
  int number;

  int lane() const { return number; }
  int size() const { return static_cast<int>(shared->numbers.size()); }
  template <class Join>
  float join(float x, Join join) const {
    shared->numbers[static_cast<std::size_t>(number)] = x;
    shared->meeting.arrive_and_wait();
    float result = shared->numbers[0];
    for (std::size_t i = 1; i < shared->numbers.size(); ++i)
      result = join(result, shared->numbers[i]);
    shared->meeting.arrive_and_wait();
    return result;
  }
  float sum(float x) const {
    return join(x, [](float a, float b) { return a + b; });
  }
  float largest(float x) const {
    return join(x, [](float a, float b) { return std::max(a, b); });
  }
};

template <class Row>
void by_team(int lanes, std::int64_t rows, const Row& row) {
  Threads::Shared shared(lanes);
  std::vector<std::jthread> threads;
  for (int lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      for (std::int64_t i = 0; i < rows; ++i) row(Threads{&shared, lane}, i);
    });
  }
}

/// Each lane holds up to so many packs of its row.
template <int most, class Row>
void by_team_that_holds(int lanes, std::int64_t rows, const Row& row) {
  Threads::Shared shared(lanes);
  std::vector<std::jthread> threads;
  for (int lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      for (std::int64_t i = 0; i < rows; ++i) row.template held<most>(Threads{&shared, lane}, i);
    });
  }
}

template <class Element>
void for_all(std::int64_t count, const Element& element) {
  // Backwards: elements must not depend on each other.
  for (std::int64_t i = count; i-- > 0;) element.template at<1>(i);
}

/// Other numbers in every run; what is tolerated leaves room for them.
unsigned fresh_seed() {
  static std::mt19937 seeds{std::random_device{}()};
  return static_cast<unsigned>(seeds());
}

/// Noise that T holds exactly, and the same for the CPU backend.
template <class T>
struct Noise {
  Noise(Backend& cpu, std::vector<std::int64_t> shape, double mean = 0, double deviation = 1)
      : tensor(noise(cpu, std::move(shape), fp64, fresh_seed(), mean, deviation)) {
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      numbers.push_back(T(static_cast<float>(tensor.data<double>()[i])));
      tensor.data<double>()[i] = static_cast<double>(static_cast<float>(numbers.back()));
    }
  }
  const T* data() const { return numbers.data(); }
  Tensor tensor;
  std::vector<T> numbers;
};

/// Room for results, full of what no result is.
template <class T>
std::vector<T> poisoned(const Tensor& like) {
  return std::vector<T>(static_cast<std::size_t>(like.elements()), T(NAN));
}

Tensor empty_like(Backend& cpu, const Tensor& like) {
  return cpu.allocate(like.shape, fp64);
}

template <class T>
double error_of(const std::vector<T>& actual, const Tensor& expected) {
  Values wide;
  for (const T value : actual) wide.push_back(static_cast<double>(static_cast<float>(value)));
  return relative_error(wide, values(expected));
}

template <class T>
constexpr double tolerated = std::is_same_v<T, float> ? 1e-6 : 4e-3;

}  // namespace

TEMPLATE_TEST_CASE("kernels' activations follow the CPU's", "", float, Bfloat16) {
  using T = TestType;
  const auto cpu = make_cpu_backend();
  const Noise<T> x(*cpu, {3, 10}, 0, 3);
  const Noise<T> wide(*cpu, {3, 20}, 0, 3);
  const Noise<T> dy(*cpu, {3, 10});
  Tensor expected = empty_like(*cpu, x.tensor);
  auto actual = poisoned<T>(expected);
  cpu->gelu(x.tensor, expected);
  for_all(30, Gelu<T>{x.data(), actual.data()});
  CHECK(error_of(actual, expected) < tolerated<T>);
  cpu->gelu_input(dy.tensor, x.tensor, expected);
  for_all(30, GeluInput<T>{dy.data(), x.data(), actual.data()});
  CHECK(error_of(actual, expected) < tolerated<T>);
  cpu->swiglu(wide.tensor, expected);
  for_all(30, Swiglu<T>{wide.data(), actual.data(), 10});
  CHECK(error_of(actual, expected) < tolerated<T>);
  Tensor expected_wide = empty_like(*cpu, wide.tensor);
  auto actual_wide = poisoned<T>(expected_wide);
  cpu->swiglu_input(dy.tensor, wide.tensor, expected_wide);
  for_all(30, SwigluInput<T>{dy.data(), wide.data(), actual_wide.data(), 10});
  CHECK(error_of(actual_wide, expected_wide) < tolerated<T>);
}

TEMPLATE_TEST_CASE("kernels turn heads, and turn them back, as the CPU does", "", float, Bfloat16) {
  using T = TestType;
  const auto cpu = make_cpu_backend();
  const AttentionShape shape{
      .samples = 2, .sequence = 5, .heads = 4, .key_value_heads = 2, .head_width = 6};
  const std::vector<double> frequencies{1.0, 0.3, 0.01};
  std::vector<Turn> turns;
  for (int position = 0; position < 5; ++position) {
    for (const double f : frequencies) {
      turns.push_back(
          {static_cast<float>(std::cos(position * f)), static_cast<float>(std::sin(position * f))});
    }
  }
  const bool inverse = GENERATE(false, true);
  Noise<T> qkv(*cpu, {2, 5, 48});
  cpu->rotary(qkv.tensor, shape, frequencies, inverse);
  for_all(2 * 5 * 6 * 3,
          Rotary<T>{qkv.numbers.data(), turns.data(), 5, 6, 3, 48, inverse ? -1.0f : 1.0f});
  CHECK(error_of(qkv.numbers, qkv.tensor) < tolerated<T>);
}

TEST_CASE("heads come apart and together again") {
  const auto cpu = make_cpu_backend();
  const Noise<float> rows(*cpu, {4, 30});  // 4 positions, 3 heads of 6, and 12 numbers of others
  std::vector<float> apart(4 * 18, NAN);
  const HeadsApart<float> element{rows.data(), apart.data(), 4, 6, 30};
  for_all(4 * 18, element);
  for (std::size_t head = 0; head < 3; ++head) {
    for (std::size_t position = 0; position < 4; ++position) {
      for (std::size_t i = 0; i < 6; ++i) {
        CHECK(apart[(head * 4 + position) * 6 + i] == rows.numbers[position * 30 + head * 6 + i]);
      }
    }
  }
  std::vector<float> together(4 * 30, -1.0f);
  for_all(4 * 18, HeadsTogether<float>{element, apart.data(), together.data()});
  for (std::size_t i = 0; i < together.size(); ++i) {
    CHECK(together[i] == (i % 30 < 18 ? rows.numbers[i] : -1.0f));
  }
}

TEMPLATE_TEST_CASE("kernels' norms follow the CPU's, with any number of lanes", "", float,
                   Bfloat16) {
  using T = TestType;
  const auto cpu = make_cpu_backend();
  const int lanes = GENERATE(1, 7, 32);
  const bool centred = GENERATE(true, false);  // LayerNorm, or RMSNorm
  constexpr std::int64_t rows = 3, columns = 37;
  const Noise<T> x(*cpu, {rows, columns}, 0.5, 2);
  const Noise<T> weight(*cpu, {columns}, 1, 0.2);
  const Noise<T> bias(*cpu, {columns});
  const Noise<T> dy(*cpu, {rows, columns}), past(*cpu, {rows, columns});
  Tensor mean = cpu->allocate({rows}, fp64), scale = cpu->allocate({rows}, fp64);
  Tensor y = empty_like(*cpu, x.tensor), dx = empty_like(*cpu, x.tensor);
  const bool goes_past = GENERATE(true, false);
  if (centred) {
    cpu->layer_norm(x.tensor, weight.tensor, bias.tensor, 1e-5, y, mean, scale);
    cpu->layer_norm_input(dy.tensor, x.tensor, weight.tensor, mean, scale, dx);
  } else {
    cpu->rms_norm(x.tensor, weight.tensor, 1e-5, y, scale);
    cpu->rms_norm_input(dy.tensor, x.tensor, weight.tensor, scale, dx);
  }
  if (goes_past) {
    cpu->norm_input_and_residual(dy.tensor, x.tensor, weight.tensor, centred ? mean : Tensor{},
                                 scale, past.tensor, dx);
  }
  auto out = poisoned<T>(y);
  auto gradient = poisoned<T>(dx);
  std::vector<float> means(rows, NAN), scales(rows, NAN);
  float* const kept = centred ? means.data() : nullptr;
  by_team(lanes, rows,
          NormRows<T>{x.data(), weight.data(), centred ? bias.data() : nullptr, out.data(), kept,
                      scales.data(), columns, 1e-5f});
  by_team(lanes, rows,
          NormInputRows<T>{dy.data(), x.data(), weight.data(), kept, scales.data(),
                           goes_past ? past.data() : nullptr, gradient.data(), columns});
  CHECK(error_of(out, y) < tolerated<T>);
  CHECK(error_of(scales, scale) < 1e-6);
  if (centred) CHECK(error_of(means, mean) < 1e-6);
  CHECK(error_of(gradient, dx) < tolerated<T>);
}

TEMPLATE_TEST_CASE("sums of columns over chunks of rows are the CPU's sums", "", float, Bfloat16) {
  using T = TestType;
  const auto cpu = make_cpu_backend();
  const std::int64_t rows = GENERATE(1, 31, 32, 33, 5000);
  constexpr std::int64_t columns = 5;
  const Noise<T> x(*cpu, {rows, columns}), dy(*cpu, {rows, columns});
  const Noise<float> mean(*cpu, {rows}), scale(*cpu, {rows}, 1, 0.1);
  Tensor dweight = cpu->allocate({columns}, fp64), dbias = cpu->allocate({columns}, fp64);
  cpu->zero(dweight);
  cpu->zero(dbias);
  cpu->layer_norm_weight(dy.tensor, x.tensor, mean.tensor, scale.tensor, dweight, dbias);
  const RowChunks chunks{rows};
  const auto sums_of = [&]<class Term>(const Term& term) {
    std::array<std::vector<float>, Term::sums> sums;
    sums.fill(std::vector<float>(columns, 0.0f));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        float own[Term::sums] = {};
        term.add(row, column, own);
        for (std::size_t i = 0; i < sums.size(); ++i) {
          sums[i][static_cast<std::size_t>(column)] += own[i];
        }
      }
    }
    return sums;
  };
  CHECK(chunks.count() <= 128);
  CHECK(chunks.end_of(chunks.count() - 1) == rows);
  CHECK(error_of(sums_of(BiasTerm<T>{dy.data(), columns})[0], dbias) < 1e-5);
  const auto of_norm =
      sums_of(NormWeightTerm<T>{dy.data(), x.data(), mean.data(), scale.data(), columns});
  CHECK(error_of(of_norm[0], dweight) < 1e-5);
  CHECK(error_of(of_norm[1], dbias) < 1e-5);
}

TEMPLATE_TEST_CASE("kernels' losses are the CPU's, of a whole vocabulary and of parts", "", float,
                   Bfloat16) {
  using T = TestType;
  const auto cpu = make_cpu_backend();
  const int lanes = GENERATE(1, 9);
  constexpr std::int64_t rows = 4, columns = 21;
  const std::vector<std::int32_t> targets{3, 0, 20, 11};
  Noise<T> logits(*cpu, {rows, columns}, 0, 4);
  const std::vector<T> drawn = logits.numbers;
  const double expected = cpu->cross_entropy(logits.tensor, targets, 0.25);
  std::vector<double> losses(rows, NAN);
  by_team(lanes, rows,
          CrossEntropyRows<T>{logits.numbers.data(), targets.data(), losses.data(), columns,
                              columns, 0.25f});
  CHECK(losses[0] + losses[1] + losses[2] + losses[3] == Approx(expected).epsilon(1e-6));
  CHECK(error_of(logits.numbers, logits.tensor) < tolerated<T>);

  // The same in two parts, 8 and 13 tokens of the vocabulary.
  std::vector<float> tops(rows, -INFINITY), sums(2 * rows, 0.0f);
  std::vector<std::vector<T>> parts(2);
  const std::vector<std::int64_t> first{0, 8}, end{8, columns};
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto start = drawn.begin() + row * columns;
      parts[i].insert(parts[i].end(), start + first[i], start + end[i]);
    }
    std::vector<float> own(rows, NAN);
    by_team(lanes, rows,
            LargestRows<T>{parts[i].data(), own.data(), end[i] - first[i], end[i] - first[i]});
    for_all(rows, Largest<float>{own.data(), tops.data()});
  }
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<float> own(2 * rows, NAN);
    by_team(lanes, rows,
            ExponentialRows<T>{parts[i].data(), tops.data(), targets.data(), own.data(), first[i],
                               end[i] - first[i], end[i] - first[i]});
    for_all(2 * rows, Add<float>{own.data(), sums.data()});
  }
  std::vector<T> whole(drawn.size());
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t width = end[i] - first[i];
    for_all(rows * width, GradientOfPart<T>{parts[i].data(), sums.data(), targets.data(), first[i],
                                            width, 0.25f});
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(parts[i].begin() + row * width, width, whole.begin() + row * columns + first[i]);
    }
  }
  CHECK(error_of(whole, logits.tensor) < 2 * tolerated<T>);
  double loss = 0;
  for (std::size_t row = 0; row < rows; ++row) loss += std::log(sums[2 * row]) - sums[2 * row + 1];
  CHECK(loss == Approx(expected).epsilon(1e-5));
}

TEST_CASE("kernels' attention rows give the CPU's attention") {
  const auto cpu = make_cpu_backend();
  const int lanes = GENERATE(1, 7);
  const bool causal = GENERATE(true, false);
  const AttentionShape shape{.samples = 1,
                             .sequence = 6,
                             .heads = 1,
                             .key_value_heads = 1,
                             .head_width = 4,
                             .causal = causal};
  const Noise<float> qkv(*cpu, {1, 6, 12}), dy(*cpu, {1, 6, 4});
  Tensor y = cpu->allocate({1, 6, 4}, fp64), log_sum = cpu->allocate({1, 1, 6}, fp64);
  Tensor dqkv = empty_like(*cpu, qkv.tensor);
  cpu->attention(qkv.tensor, shape, y, log_sum);
  cpu->attention_input(dy.tensor, qkv.tensor, y, log_sum, shape, dqkv);
  // The products in between, by hand.
  const auto at = [&](std::size_t row, std::size_t column) {
    return qkv.numbers[row * 12 + column];
  };
  std::vector<float> scores(36, 0.0f), dp(36, 0.0f);
  for (std::size_t q = 0; q < 6; ++q) {
    for (std::size_t k = 0; k < 6; ++k) {
      for (std::size_t i = 0; i < 4; ++i) {
        scores[q * 6 + k] += at(q, i) * at(k, 4 + i);
        dp[q * 6 + k] += dy.numbers[q * 4 + i] * at(k, 8 + i);
      }
    }
  }
  std::vector<float> p(36, NAN), ds(36, NAN), logs(6, NAN), mixed(24, 0.0f), dq(24, 0.0f);
  by_team(lanes, 6, AttentionRows<float>{scores.data(), p.data(), logs.data(), 6, causal, 0.5f});
  const std::vector<float> first = p;
  by_team(lanes, 6,
          AttentionInputRows<float>{scores.data(), dp.data(), logs.data(), p.data(), ds.data(), 6,
                                    causal, 0.5f});
  Values expected_dq;
  for (std::size_t q = 0; q < 6; ++q) {
    for (std::size_t i = 0; i < 4; ++i) {
      expected_dq.push_back(value(dqkv, q * 12 + i));
      for (std::size_t k = 0; k < 6; ++k) {
        mixed[q * 4 + i] += first[q * 6 + k] * at(k, 8 + i);
        dq[q * 4 + i] += ds[q * 6 + k] * at(k, 4 + i);
      }
    }
  }
  CHECK(error_of(logs, log_sum) < 1e-6);
  CHECK(error_of(mixed, y) < 1e-6);
  CHECK(relative_error(Values(dq.begin(), dq.end()), expected_dq) < 1e-5);
  CHECK(relative_error(Values(p.begin(), p.end()), Values(first.begin(), first.end())) < 1e-6);
}

TEMPLATE_TEST_CASE("kernels look tokens up and add their gradients as the CPU does", "", float,
                   Bfloat16) {
  using T = TestType;
  const auto cpu = make_cpu_backend();
  const std::vector<std::int32_t> tokens{5, 2, 5, 9, 2, 5, 0, 7};  // 2 samples of 4
  const Noise<T> table(*cpu, {6, 3}), positions(*cpu, {4, 3}), dy(*cpu, {8, 3});
  constexpr std::int64_t first = 2;  // the part has the tokens 2 to 7
  Tensor y = cpu->allocate({8, 3}, fp64);
  cpu->embedding(tokens, table.tensor, first, positions.tensor, 4, y);
  auto out = poisoned<T>(y);
  for_all(24,
          Embedding<T>{tokens.data(), table.data(), positions.data(), out.data(), first, 6, 3, 4});
  CHECK(error_of(out, y) < tolerated<T>);

  const TokenLists lists = token_lists(tokens, first, 6);
  // As many lists as tokens, the last ones empty.
  CHECK(lists.places == std::vector<std::int32_t>{0, 3, 5, 0, 0, 0, 0, 0});
  CHECK(lists.starts == std::vector<std::int32_t>{0, 2, 5, 6, 6, 6, 6, 6, 6});
  CHECK(lists.rows == std::vector<std::int32_t>{1, 4, 0, 2, 5, 7, 0, 0});
  Noise<float> dtable(*cpu, {6, 3}), dpositions(*cpu, {4, 3});  // gradients are added to
  cpu->embedding_weight(tokens, dy.tensor, first, 4, dtable.tensor, dpositions.tensor);
  for_all(24, EmbeddingWeight<T>{dy.data(), lists.places.data(), lists.starts.data(),
                                 lists.rows.data(), dtable.numbers.data(), 3});
  for_all(12, PositionWeight<T>{dy.data(), dpositions.numbers.data(), 3, 4, 2});
  CHECK(error_of(dtable.numbers, dtable.tensor) < 1e-6);
  CHECK(error_of(dpositions.numbers, dpositions.tensor) < 1e-6);
}

namespace {

/// Weights of several sizes, one of none and one longer than a part, for the CPU in fp64 and for
/// kernels in fp32.
struct SeveralWeights {
  static constexpr std::array<std::int64_t, 4> sizes{40, part_elements + 3, 0, 7};

  explicit SeveralWeights(Backend& cpu) {
    for (const std::int64_t size : sizes) {
      weights.emplace_back(cpu, std::vector{size});
      gradients.emplace_back(cpu, std::vector{size});
      first.emplace_back(cpu, std::vector{size});
      second.emplace_back(cpu, std::vector{size}, 2, 0.1);
      rounded.emplace_back(static_cast<std::size_t>(size), Bfloat16(NAN));
    }
  }

  /// As the CPU is given them; with masters it rounds nothing, having no bf16.
  std::vector<WeightUpdate> updates() {
    std::vector<WeightUpdate> all;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      all.push_back({.gradient = gradients[i].tensor,
                     .first_moment = first[i].tensor,
                     .second_moment = second[i].tensor,
                     .weight = weights[i].tensor,
                     .updated = weights[i].tensor,
                     .rounded = {}});
    }
    return all;
  }

  /// The same numbers as kernels see them.
  std::vector<UpdatedTensor> table() {
    std::vector<WeightUpdate> near;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto tensor = [&](auto& numbers, Precision precision) {
        return Tensor{.storage = {std::shared_ptr<void>(), numbers.data()},
                      .shape = {sizes[i]},
                      .precision = precision};
      };
      near.push_back({.gradient = tensor(gradients[i].numbers, Precision::float32),
                      .first_moment = tensor(first[i].numbers, Precision::float32),
                      .second_moment = tensor(second[i].numbers, Precision::float32),
                      .weight = tensor(weights[i].numbers, Precision::float32),
                      .updated = tensor(weights[i].numbers, Precision::float32),
                      .rounded = i == 1 ? Tensor{} : tensor(rounded[i], Precision::bfloat16)});
    }
    return table_of(near);
  }

  std::vector<Noise<float>> weights, gradients, first, second;
  std::vector<std::vector<Bfloat16>> rounded;
};

}  // namespace

TEST_CASE("kernels' optimizers take the CPU's steps of all weights at once") {
  const auto cpu = make_cpu_backend();
  const int lanes = GENERATE(1, 5);
  const double factor = GENERATE(1.0, 0.25);
  const AdamW options{.learning_rate = 1e-2, .weight_decay = 0.1};
  SeveralWeights all(*cpu);
  auto updates = all.updates();
  const std::vector<UpdatedTensor> rows = all.table();
  const TensorTable table{rows.data(), static_cast<std::int32_t>(rows.size())};
  REQUIRE(rows.size() == 3);  // nothing is done to what has no elements
  REQUIRE(part_count(rows) == 4);
  for (int step = 1; step <= 3; ++step) {
    cpu->adamw_step(options, step, factor, updates);
    for (std::size_t i = 0; i < updates.size(); ++i) {  // scaled in their place
      if (factor != 1) cpu->scale(1 / factor, updates[i].gradient);
    }
    const AdamWStep numbers = step_numbers(options, step, factor);
    by_team(lanes, part_count(rows), StepOfParts<AdamWStep>{table, &numbers});
  }
  cpu->sgd_step({.learning_rate = 0.5}, factor, updates);
  const SgdStep numbers = step_numbers(Sgd{0.5}, factor);
  by_team(lanes, part_count(rows), StepOfParts<SgdStep>{table, &numbers});
  for (const std::size_t i : {0, 1, 3}) {
    CHECK(error_of(all.weights[i].numbers, all.weights[i].tensor) < 1e-6);
    CHECK(error_of(all.first[i].numbers, all.first[i].tensor) < 1e-6);
    CHECK(error_of(all.second[i].numbers, all.second[i].tensor) < 1e-6);
    for (std::size_t at = 0; i != 1 && at < all.rounded[i].size(); ++at) {
      CHECK(all.rounded[i][at].bits == Bfloat16(all.weights[i].numbers[at]).bits);
    }
  }
}

TEST_CASE("kernels add up the squares of every tensor's elements, and of no others") {
  const auto cpu = make_cpu_backend();
  SeveralWeights all(*cpu);
  std::vector<Tensor> tensors;
  for (const Noise<float>& gradient : all.gradients) tensors.push_back(gradient.tensor);
  const std::vector<double> expected = cpu->sums_of_squares(tensors);
  const std::vector<UpdatedTensor> rows = all.table();
  std::vector<float> sums(static_cast<std::size_t>(part_count(rows)), NAN);
  by_team(7, part_count(rows),
          SquaresOfParts{{rows.data(), static_cast<std::int32_t>(rows.size())}, sums.data()});
  const std::vector<double> actual = sums_of_tensors(tensors, sums);
  REQUIRE(actual.size() == 4);
  CHECK(actual[2] == 0);
  for (const std::size_t i : {0, 1, 3}) {
    CHECK(actual[i] == Approx(expected[i]).epsilon(1e-5));
    double plain = 0;
    for (const float x : all.gradients[i].numbers) plain += static_cast<double>(x) * x;
    CHECK(expected[i] == Approx(plain).epsilon(1e-12));
  }
}

TEMPLATE_TEST_CASE("what is infinite, or no number, is found wherever it stands", "", float,
                   Bfloat16) {
  using T = TestType;
  const float strange = GENERATE(INFINITY, -INFINITY, NAN, 3e38f);
  for (std::size_t place = 0; place < 4; ++place) {
    std::vector<T> x(4, T(1.5f));
    x[place] = T(strange);
    std::int32_t flag = 0;
    for_all(4, FindInfinite<T>{x.data(), &flag});
    CHECK((flag != 0) == !std::isfinite(static_cast<float>(T(strange))));
  }
}
