// Sequences that go through the pipeline piece by piece: the same bits as the reference's, the same
// numbers as whole ones.

#include <algorithm>

#include "executor/driver/execute.hpp"
#include "planner/calibration/timeline_costs.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Setting pieces_of(int pieces, Setting setting) {
  setting.schedule = "seq1f1b";
  setting.sequence_chunks = pieces;
  return setting;
}

/// A run of this setting against the reference, which cuts sequences alike.
void check_bits(const Setting& setting) {
  INFO(describe(setting) << (setting.style == Style::llama ? ", llama" : ""));
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 2};
  CHECK(first_difference(run(prepared, options), reference(prepared, options)) == "");
}

}  // namespace

TEST_CASE("pieces of sequences end with the reference's bits, whatever the pipeline", "[seconds]") {
  const Style style = GENERATE(Style::gpt2, Style::llama);
  const int pieces = GENERATE(2, 4);
  int number = 0;
  for (const int devices : {1, 2, 3, 4}) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      const std::vector<int> replicas =
          ++number % 3 == 0 ? std::vector<int>{}
                            : std::vector<int>(static_cast<std::size_t>(devices), number % 3);
      check_bits(pieces_of(pieces, {.devices = devices,
                                    .microbatches = 3,
                                    .rows = 2,
                                    .replicas = replicas,
                                    .recompute = recompute,
                                    .style = style}));
    }
  }
}

TEST_CASE("so do unequal replicas, replicas in turn, sharded optimizers and SGD in pieces") {
  for (const Setting& setting :
       {Setting{.devices = 2, .rows = 6, .replicas = {2, 3}},
        Setting{.devices = 2, .replicas = {2, 1}, .policy = ReplicaPolicy::round_robin},
        Setting{.devices = 2, .rows = 4, .replicas = {2, 2}, .sharding = Sharding::zero1},
        Setting{.devices = 2, .optimizer = OptimizerKind::sgd, .style = Style::llama},
        Setting{.devices = 3, .microbatches = 1, .tied = false},
        Setting{.devices = 2, .again = every_choice()},
        Setting{.devices = 2, .style = Style::llama, .again = every_choice()},
        Setting{.devices = 2, .again = in_runs()}}) {
    check_bits(pieces_of(2, setting));
  }
}

TEST_CASE("pieces are the whole sequence to rounding, whoever holds which heads", "[seconds]") {
  const Style style = GENERATE(Style::gpt2, Style::llama);
  const Setting whole{.schedule = "seq1f1b",
                      .devices = 2,
                      .precision = Precision::float64,
                      .style = style,
                      .heads = 4};
  const RunOptions options{.steps = 2};
  const RunResult expected = run(prepare(whole), options);
  for (const int pieces : {2, 8}) {
    Setting setting = pieces_of(pieces, whole);
    for (const std::vector<int>& degrees : {std::vector<int>{}, {2, 2}}) {
      setting.degrees = degrees;
      INFO(describe(setting));
      const Distance apart = distance(run(prepare(setting), options), expected);
      CHECK(apart.losses < 1e-12);
      CHECK(apart.weights < 1e-12);
    }
  }
}

TEST_CASE("attention of the last rows of a sequence is that of the whole one") {
  const auto backend = make_cpu_backend();
  const auto random = [&](std::vector<std::int64_t> shape, unsigned seed) {
    return noise(*backend, std::move(shape), Precision::float64, seed);
  };
  const AttentionShape whole{
      .samples = 2, .sequence = 150, .heads = 4, .key_value_heads = 2, .head_width = 8};
  AttentionShape last = whole;
  last.past = 90;
  last.sequence = 60;
  const auto last_rows = [](const Tensor& tensor) {  // of both samples
    Values numbers;
    for (const std::int64_t sample : {0, 1}) {
      const Values rows =
          values(rows_of(reshaped(tensor, {2 * 150, 32}), 150 * sample + 90, 150 * sample + 150));
      numbers.insert(numbers.end(), rows.begin(), rows.end());
    }
    return numbers;
  };
  const Tensor qkv = random({2, 150, 64}, 1);
  Tensor y = random({2, 150, 32}, 2), log_sum = random({2, 4, 150}, 3);
  backend->attention(qkv, whole, y, log_sum);
  Tensor part = random({2, 60, 32}, 4), part_sum = random({2, 4, 60}, 5);
  backend->attention(qkv, last, part, part_sum);
  CHECK(relative_error(values(part), last_rows(y)) < 1e-14);
  // From a gradient that only the last rows have.
  Tensor dy = random({2, 150, 32}, 6);
  for (const std::int64_t sample : {0, 1}) {
    std::fill_n(dy.data<double>() + sample * 150 * 32, 90 * 32, 0.0);
  }
  const Tensor dpart = tensor_of(*backend, {2, 60, 32}, Precision::float64, last_rows(dy));
  Tensor dqkv = random({2, 150, 64}, 7), dqkv_of_part = random({2, 150, 64}, 8);
  backend->attention_input(dy, qkv, y, log_sum, whole, dqkv);
  backend->attention_input(dpart, qkv, part, part_sum, last, dqkv_of_part);
  CHECK(relative_error(values(dqkv_of_part), values(dqkv)) < 1e-14);
}

TEST_CASE("a later piece is turned on from where the one before it ended") {
  const auto backend = make_cpu_backend();
  const AttentionShape whole{
      .samples = 1, .sequence = 12, .heads = 2, .key_value_heads = 1, .head_width = 8};
  const std::vector<double> frequencies{1.0, 0.3, 0.1, 0.01};
  Tensor qkv = backend->allocate({1, 12, 32}, Precision::float32);
  for (std::int64_t i = 0; i < qkv.elements(); ++i) {
    qkv.data<float>()[i] = static_cast<float>(i % 17) - 8;
  }
  Tensor last = backend->allocate({1, 4, 32}, Precision::float32);
  std::copy_n(qkv.data<float>() + 8 * 32, 4 * 32, last.data<float>());
  AttentionShape piece = whole;
  piece.past = 8;
  piece.sequence = 4;
  backend->rotary(qkv, whole, frequencies, false);
  backend->rotary(last, piece, frequencies, false);
  CHECK(bitwise_equal(last, reshaped(rows_of(reshaped(qkv, {12, 32}), 8, 12), {1, 4, 32})));
}

TEST_CASE("a block of samples is its pieces, one after the other") {
  const Dataset dataset = synthetic_dataset(256, 500, 3);
  const TokenBlock whole = token_block(dataset, 8, 1, 0, 2);
  const TokenBlock first = piece_of(whole, 8, 0, 2), second = piece_of(whole, 8, 1, 2);
  CHECK(first.past == 0);
  CHECK(second.past == 4);
  std::vector<std::int32_t> joined;
  for (const int sample : {0, 1}) {
    for (const TokenBlock* piece : {&first, &second}) {
      joined.insert(joined.end(), piece->targets.begin() + 4 * sample,
                    piece->targets.begin() + 4 * sample + 4);
    }
  }
  CHECK(joined == whole.targets);
}

TEST_CASE("a timeline of pieces is no measurement of whole microbatches") {
  const Prepared prepared = prepare(pieces_of(2, {.devices = 2}));
  CHECK_THROWS_WITH(costs_from_timeline(prepared.plan, prepared.compiled, prepared.profile,
                                        parse_cluster(prepared.plan.cluster), {}),
                    ContainsSubstring("cuts each sequence into 2 pieces, which differ in time"));
}

TEST_CASE("what cannot be cut into equal pieces is refused with what can") {
  const auto fault = [](const Setting& setting) {
    const Plan plan = plan_of(setting);
    const auto found =
        find_fault(plan, tiny_model(setting.style, true), parse_cluster(plan.cluster));
    return found ? found->message : std::string();
  };
  CHECK(fault(pieces_of(4, {.devices = 2})) == "");
  CHECK(fault(pieces_of(3, {.devices = 2})) ==
        "the schedule seq1f1b cuts each sequence into 3 pieces, but 8 tokens cannot be cut so");
  CHECK_THAT(fault(pieces_of(2, {.devices = 2, .style = Style::network})),
             ContainsSubstring("is no transformer whose samples are sequences"));
  CHECK_THAT(fault({.devices = 2, .sequence_chunks = 2}), ContainsSubstring("seq1f1b takes more"));
}
