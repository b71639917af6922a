// The head that makes logits of some rows at a time beside the one that keeps them all.

#include "executor/layers/layers.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr std::int64_t vocabulary = 512, hidden_size = 16, sequence = 6;

Model model_with_head() {
  return make_transformer("small",
                          {.hidden = hidden_size,
                           .heads = 2,
                           .key_value_heads = 2,
                           .head_width = 8,
                           .feed_forward = 8,
                           .vocabulary = vocabulary,
                           .positions = sequence,
                           .tied_head = false},
                          1, sequence);
}

/// A head with noise for weights, and what it has found of so many samples.
struct Head {
  explicit Head(std::int64_t rows, Precision precision = Precision::float32)
      : layer(make_layer(model_with_head(), 2)), kind(precision) {
    layer->limit_logits(rows);
    for (const ParameterSpec& spec : layer->parameters()) {
      parameters.push_back({spec, noise(*backend, spec.shape, precision, 7, 0, 0.4),
                            noise(*backend, spec.shape, precision, 8)});
    }
  }

  /// Of samples [first, end); the input's gradient.
  Tensor pass(std::int64_t first, std::int64_t end) {
    const std::int64_t count = end - first;
    const Tensor all = noise(*backend, {4, sequence, hidden_size}, kind, 9);
    std::vector<std::int32_t> targets;
    for (std::int64_t i = first * sequence; i < end * sequence; ++i) {
      targets.push_back(static_cast<std::int32_t>(37 * i % vocabulary));
    }
    const Samples samples{
        .count = count, .sequence = sequence, .targets = targets, .loss_scale = 0.1};
    const Tensor input = rows_of(all, first, end);
    const Bytes before = backend->allocated_bytes();
    backend->reset_peak();
    layer->forward(*backend, parameters, samples, input, saved);
    kept = backend->allocated_bytes() - before;
    most = backend->peak_bytes() - before;
    loss += saved.loss;
    Tensor gradient = layer->backward_input(*backend, parameters, samples, input, {}, saved);
    layer->backward_weight(*backend, parameters, samples, input, saved);
    return gradient;
  }

  std::unique_ptr<Backend> backend = make_cpu_backend();
  std::unique_ptr<TrainableLayer> layer;
  Precision kind;
  std::vector<Parameter> parameters;
  Saved saved;
  double loss = 0;
  Bytes kept = 0;  ///< by forward
  Bytes most = 0;  ///< during it
};

void check_same_gradients(const Head& a, const Head& b) {
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    INFO(a.parameters[i].spec.name);
    CHECK(bitwise_equal(a.parameters[i].gradient, b.parameters[i].gradient));
  }
}

}  // namespace

TEST_CASE(
    "a head with room for the logits of all rows at a time has the bits of one that keeps them") {
  Head whole(0), limited(4 * sequence);
  const Tensor expected = whole.pass(0, 4);
  CHECK(bitwise_equal(limited.pass(0, 4), expected));
  CHECK(limited.loss == whole.loss);
  check_same_gradients(limited, whole);
}

TEST_CASE(
    "a head that makes a sample's logits at a time has the bits of microbatches of one sample") {
  Head together(sequence), apart(0);
  const Tensor gradient = together.pass(0, 4);
  for (std::int64_t sample = 0; sample < 4; ++sample) {
    CHECK(bitwise_equal(rows_of(gradient, sample, sample + 1), apart.pass(sample, sample + 1)));
  }
  CHECK(together.loss == apart.loss);
  check_same_gradients(together, apart);
}

TEST_CASE("pieces of rows that do not divide a microbatch add up to the same gradients") {
  const std::int64_t rows = GENERATE(1, 5, 23, 100);
  Head whole(0, Precision::float64), limited(rows, Precision::float64);
  const Tensor expected = whole.pass(0, 4);
  CHECK(relative_error(limited.pass(0, 4), values(expected)) < 1e-13);
  CHECK(limited.loss == Approx(whole.loss).epsilon(1e-13));
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    CHECK(relative_error(limited.parameters[i].gradient, values(whole.parameters[i].gradient)) <
          1e-13);
  }
}

TEST_CASE("limited logits never exist all at once, and none wait for backward") {
  Head whole(0), limited(3);
  whole.pass(0, 4);
  limited.pass(0, 4);
  const Bytes row = vocabulary * 4, rows = 4 * sequence, hidden = hidden_size * 4;
  CHECK(whole.kept == rows * (row + hidden + 2 * 4));
  CHECK(limited.kept == rows * (2 * hidden + 2 * 4));  // the norm's output, and its gradient
  CHECK(limited.most == limited.kept + 3 * row);
}

TEST_CASE("runs with limited logits end with one bits on one device and on many, in less memory",
          "[seconds]") {
  const Setting setting = GENERATE(from_range(std::vector<Setting>{
      {.devices = 3},
      {.schedule = "zb-h1", .devices = 2},
      {.schedule = "interleaved", .devices = 2, .virtual_stages = 2, .recompute = Recompute::full},
      {.devices = 2, .rows = 4, .replicas = {1, 2}, .tied = false},
      {.schedule = "bpipe", .devices = 4, .microbatches = 6},
      {.schedule = "pipedream", .devices = 2, .tied = false}}));
  INFO(describe(setting));
  const Prepared prepared = prepare(setting);
  const RunOptions limited{.steps = 2, .loss_rows = 5};
  const RunResult run_in_pieces = run(prepared, limited);
  CHECK(first_difference(run_in_pieces, reference(prepared, limited)) == "");
  const RunResult whole = run(prepared, {.steps = 2});
  CHECK(run_in_pieces.simulated_memory.back() < whole.simulated_memory.back());
  CHECK(run_in_pieces.peak_memory.back() < whole.peak_memory.back());
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    CHECK(run_in_pieces.losses[i] == Approx(whole.losses[i]).epsilon(1e-5));
  }
}

TEST_CASE("tensor-parallel peers may limit their logits, too") {
  const Setting setting{.devices = 1, .degrees = {2}};
  const Prepared prepared = prepare(setting);
  const Distance apart =
      distance(run(prepared, {.steps = 3, .loss_rows = 5}), reference(prepared, {.steps = 3}));
  CHECK(apart.losses < 1e-5);
  CHECK(apart.weights < 1e-5);
}
