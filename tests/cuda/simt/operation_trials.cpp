// The loss, and steps of optimizers.

#include "tests/cuda/simt/operations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Rows may be apart, and what is between them is nobody's.
template <class T>
void cross_entropy(std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  INFO("loss of " << rows << " x " << columns << ", rows " << stride << " apart");
  const auto logits = noise<T>(rows * stride, 0, 3);
  const auto targets = indices(rows, columns);
  const Results left = on_backend([&](Backend& backend) {
    Tensor whole = uploaded(backend, {rows, stride}, logits);
    Tensor gradient = whole;
    gradient.shape = {rows, columns};
    gradient.stride = stride;
    const double loss = backend.cross_entropy(gradient, targets, 0.25);
    return Results{downloaded<T>(backend, whole), {loss}};
  });
  const Values in = widened(logits);
  Values slopes, actual;
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* of_row = in.data() + row * stride;
    const double* left_of_row = left[0].data() + row * stride;
    const auto target = targets[static_cast<std::size_t>(row)];
    double sum = 0;
    for (std::int64_t i = 0; i < columns; ++i) sum += std::exp(of_row[i]);
    for (std::int64_t i = 0; i < columns; ++i) {
      slopes.push_back(0.25 * (std::exp(of_row[i]) / sum - (i == target ? 1 : 0)));
      actual.push_back(left_of_row[i]);
    }
    loss += std::log(sum) - of_row[target];
  }
  CHECK(largest_error(actual, slopes) < tolerated<T>);
  CHECK(left[1][0] == Approx(loss).epsilon(1e-6));
}

/// Rows that packs do not divide, few and many columns of them; and as of norms, with packs that
/// end behind the row.
template <class T>
void losses() {
  cross_entropy<T>(1, 2, 2);
  cross_entropy<T>(9, 101, 101);
  cross_entropy<T>(3, 2047, 2047);
  cross_entropy<T>(3, 2049, 2049);
  constexpr std::int64_t in_pack = cuda::in_pack<T>;
  for (const std::int64_t packs : {32, 64, 96, 128, 256, 512, 1024, 1536, 3072, 6912}) {
    cross_entropy<T>(3, packs * in_pack - 1, packs * in_pack);
    cross_entropy<T>(2, packs * in_pack, (packs + 1) * in_pack);
    cross_entropy<T>(2, (packs + 1) * in_pack, (packs + 1) * in_pack);
  }
  cross_entropy<T>(2, 50257, 50264);
}

/// A weight before a step.
struct Weight {
  std::int64_t size;
  std::vector<float> gradient = noise<float>(size);
  std::vector<float> first = noise<float>(size);
  std::vector<float> second = noise<float>(size, 2, 0.1);
  std::vector<float> weight = noise<float>(size);
};

/// Weights, of which some end within a part and one with it, and some are short.
std::vector<Weight> weights() {
  return {{.size = 5000}, {.size = 40000}, {.size = 7}, {.size = 16384}, {.size = 1}};
}

/// Of each weight: itself, its moments and, if it `is_rounded`, what it is in bf16.
template <class Step>
std::vector<Results> behind(const Step& step, const std::vector<Weight>& weights, bool is_rounded) {
  std::vector<Results> of_weights(weights.size());
  on_backend([&](Backend& backend) {
    std::vector<WeightUpdate> updates;
    for (const Weight& each : weights) {
      const Tensor weight = uploaded(backend, {each.size}, each.weight);
      const std::vector<std::int64_t> shape{each.size};
      updates.push_back(
          {.gradient = uploaded(backend, shape, each.gradient),
           .first_moment = uploaded(backend, shape, each.first),
           .second_moment = uploaded(backend, shape, each.second),
           .weight = weight,
           .updated = weight,
           .rounded = is_rounded ? backend.allocate(shape, Precision::bfloat16) : Tensor{}});
    }
    step(backend, updates);
    Results all;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const WeightUpdate& each = updates[i];
      of_weights[i] = {downloaded<float>(backend, each.updated),
                       downloaded<float>(backend, each.first_moment),
                       downloaded<float>(backend, each.second_moment)};
      if (is_rounded) of_weights[i].push_back(downloaded<Bfloat16>(backend, each.rounded));
      all.insert(all.end(), of_weights[i].begin(), of_weights[i].end());
    }
    return all;
  });
  return of_weights;
}

void check_rounded(const Results& left) {
  if (left.size() < 4) return;
  Values rounded;
  for (const double each : left[0]) rounded.push_back(wide(Bfloat16(static_cast<float>(each))));
  CHECK(left[3] == rounded);
}

void adamw(bool is_rounded) {
  const auto given = weights();
  const auto left = behind(
      [](Backend& backend, std::vector<WeightUpdate>& updates) {
        backend.adamw_step({.learning_rate = 0.01, .weight_decay = 0.1}, 2, 0.5, updates);
      },
      given, is_rounded);
  for (std::size_t i = 0; i < given.size(); ++i) {
    Values updated, first, second;
    for (std::size_t k = 0; k < static_cast<std::size_t>(given[i].size); ++k) {
      const double gradient = 0.5 * wide(given[i].gradient[k]), weight = wide(given[i].weight[k]);
      first.push_back(0.9 * wide(given[i].first[k]) + 0.1 * gradient);
      second.push_back(0.95 * wide(given[i].second[k]) + 0.05 * gradient * gradient);
      const double root = std::sqrt(second.back() / (1 - 0.95 * 0.95)) + 1e-8;
      updated.push_back(weight - 0.01 * (first.back() / (1 - 0.9 * 0.9) / root + 0.1 * weight));
    }
    CHECK(largest_error(left[i][0], updated) < tolerated<float>);
    CHECK(largest_error(left[i][1], first) < tolerated<float>);
    CHECK(largest_error(left[i][2], second) < tolerated<float>);
    check_rounded(left[i]);
  }
}

void sgd(bool is_rounded) {
  const auto given = weights();
  const auto left = behind(
      [](Backend& backend, std::vector<WeightUpdate>& updates) {
        backend.sgd_step({.learning_rate = 0.1}, 0.5, updates);
      },
      given, is_rounded);
  for (std::size_t i = 0; i < given.size(); ++i) {
    Values updated;
    for (std::size_t k = 0; k < static_cast<std::size_t>(given[i].size); ++k) {
      updated.push_back(wide(given[i].weight[k]) - 0.1 * 0.5 * wide(given[i].gradient[k]));
    }
    CHECK(largest_error(left[i][0], updated) < tolerated<float>);
    CHECK(left[i][1] == widened(given[i].first));
    CHECK(left[i][2] == widened(given[i].second));
    check_rounded(left[i]);
  }
}

void squares() {
  const auto given = weights();
  const Results left = on_backend([&](Backend& backend) {
    std::vector<Tensor> tensors;
    for (const Weight& each : given) {
      tensors.push_back(uploaded(backend, {each.size}, each.gradient));
    }
    return Results{backend.sums_of_squares(tensors)};
  });
  Values sums;
  for (const Weight& each : given) {
    double sum = 0;
    for (const double number : widened(each.gradient)) sum += number * number;
    sums.push_back(sum);
  }
  CHECK(largest_error(left[0], sums) < tolerated<float>);
}

}  // namespace

std::vector<Trial> tests::operation_trials() {
  return {{"losses in fp32", losses<float>},
          {"losses in bf16", losses<Bfloat16>},
          {"AdamW", [] { adamw(false); }},
          {"AdamW, rounded", [] { adamw(true); }},
          {"SGD", [] { sgd(false); }},
          {"SGD, rounded", [] { sgd(true); }},
          {"squares", squares}};
}
