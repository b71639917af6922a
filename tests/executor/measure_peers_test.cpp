// Layers measured as one of several tensor-parallel peers has them.

#include <mutex>
#include <set>

#include "executor/backends/dry.hpp"
#include "executor/measurement/measure.hpp"
#include "executor/measurement/measured_layer.hpp"
#include "executor/transports/peers.hpp"
#include "planner/costs/cost_book.hpp"
#include "profiles/error.hpp"
#include "profiles/estimate.hpp"
#include "profiles/trained_form.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Of four heads, so that 1, 2 and 4 peers have some each.
Model model_of(Style style) {
  Model model = tiny_model(style, true, 4);
  if (style == Style::llama) {
    Transformer shape = *model.transformer;
    shape.key_value_heads = 4;
    model = make_transformer("tiny", shape, 6, 8);
  }
  if (!family_of(style).empty()) {
    model = stepped_model({.family = family_of(style),
                           .hidden = 24,
                           .blocks = 2,
                           .key_value_heads = 4,
                           .vocabulary = 64,
                           .bias = style == Style::opt || style == Style::neox});
  }
  return model;
}

MeasureOptions options_for(std::vector<int> degrees, int ranks) {
  MeasureOptions options{.microbatches = {2}, .tensor_parallel = std::move(degrees), .repeats = 1};
  options.warm_up = 1;
  options.busy_ranks = ranks;
  return options;
}

/// Counts the multiplications of matrices that layers ask for.
class Counter final : public DryBackend {
 public:
  explicit Counter(double& flops) : flops_(flops) {}
  void matmul(const Tensor& a, bool transpose_a, const Tensor&, bool, Tensor& c, bool) override {
    const auto rows = a.elements() / a.shape.back();
    const auto inner = transpose_a ? rows : a.shape.back();
    flops_ += 2.0 * static_cast<double>(inner) * static_cast<double>(c.elements());
  }

 private:
  double& flops_;
};

struct Flops {
  double forward = 0, backward_input = 0, backward_weight = 0;
  bool operator==(const Flops&) const = default;
};

Flops asked_for(const Model& model, int layer, int peers) {
  double flops = 0;
  MeasuredLayer measured(model, layer, {.samples = 2}, std::make_unique<Counter>(flops),
                         peers == 1 ? nullptr : make_absent_peers(peers - 1, peers));
  Flops asked;
  measured.forward(0, 0);
  asked.forward = std::exchange(flops, 0);
  measured.backward_input(0, 0);
  asked.backward_input = std::exchange(flops, 0);
  measured.backward_weight(0, 0);
  asked.backward_weight = flops;
  return asked;
}

Flops estimated(const Model& model, int layer, int peers) {
  const CostSetting setting{
      .device = "cpu", .microbatch = 2, .sequence = 8, .tensor_parallel = peers};
  const LayerOperations operations =
      layer_operations(*model.transformer, model.layers[static_cast<std::size_t>(layer)].kind,
                       work_setting(setting));
  Flops flops;
  for (const Operation& operation : operations.operations) {
    if (operation.kind != OperationKind::product || operation.core_attention) continue;
    switch (operation.pass) {
      case Pass::forward: flops.forward += operation.flops; break;
      case Pass::backward_input: flops.backward_input += operation.flops; break;
      case Pass::backward_weight: flops.backward_weight += operation.flops; break;
    }
  }
  return flops;
}

/// One device per rank, of a kind without a CPU's busy ranks; rank 1 may be broken.
MeasuredDevice devices(int count, std::set<int>& ranks, std::mutex& mutex, bool broken = false) {
  return {.kind = "h200",
          .description = "stand-ins",
          .devices = count,
          .make_backend = [&ranks, &mutex, broken](int rank) {
            const std::lock_guard lock(mutex);
            ranks.insert(rank);
            if (broken && rank == 1) fail("device 1 is broken");
            return make_cpu_backend();
          }};
}

}  // namespace

TEST_CASE("a peer's part of a layer multiplies what estimates say it does") {
  const Style style = GENERATE(Style::gpt2, Style::llama);
  const int peers = GENERATE(1, 2, 4);
  const Model model = model_of(style);
  for (const int layer : {1, static_cast<int>(model.layers.size()) - 1}) {
    INFO(model.layers[static_cast<std::size_t>(layer)].name << " of " << peers);
    const Flops asked = asked_for(model, layer, peers);
    CHECK(asked.forward > 0);
    CHECK(asked == estimated(model, layer, peers));
  }
}

TEST_CASE("a peer's part of a layer keeps and holds the bytes that estimates say", "[seconds]") {
  const Style style = GENERATE(Style::gpt2, Style::llama, Style::qwen3, Style::olmo2, Style::opt,
                               Style::neox, Style::mixtral, Style::qwen3_moe, Style::gemma);
  const Model model = model_of(style);
  const bool splits =
      reason_against_dividing(*model.transformer, model.layers[1], 2).empty();  // else whole
  const std::vector<int> degrees = splits ? std::vector{1, 2, 4} : std::vector{1};
  const Profile profile = measure_profile(model, options_for(degrees, 1));
  REQUIRE(profile.entries.size() == degrees.size());
  for (const ProfileEntry& entry : profile.entries) {
    const std::vector<LayerCost> estimates =
        estimate_costs(model, builtin_device_kind("cpu"), entry.setting);
    for (std::size_t i = 0; i < estimates.size(); ++i) {
      INFO(model.layers[i].name << " of " << entry.setting.tensor_parallel);
      const LayerCost &measured = entry.layers[i], &estimate = estimates[i];
      CHECK(measured.parameters == estimate.parameters);
      CHECK(measured.gradients == estimate.gradients);
      CHECK(measured.optimizer == estimate.optimizer);
      CHECK(measured.saved == estimate.saved);
      // A loss is a number, not a tensor.
      if (i + 1 < estimates.size()) CHECK(measured.output == estimate.output);
      CHECK(measured.selective.has_value() == estimate.selective.has_value());
      if (measured.selective) CHECK(measured.selective->saved == estimate.selective->saved);
    }
  }
}

TEST_CASE("peers that have a rank each are measured with their sums, others without") {
  const Model model = model_of(Style::gpt2);
  const Profile profile = measure_profile(model, options_for({1, 2, 4}, 2));
  CHECK_NOTHROW(validate(profile));
  REQUIRE(profile.entries.size() == 3);
  CHECK(profile.entries[0].has_peer_messages);
  CHECK(profile.entries[1].has_peer_messages);
  CHECK_FALSE(profile.entries[2].has_peer_messages);
  CHECK_THAT(profile.source, ContainsSubstring("of tensor-parallel 4 one peer by itself"));
  for (const ProfileEntry& entry : profile.entries) {
    REQUIRE(entry.ranges.size() == entry.layers.size());
    for (std::size_t i = 0; i < entry.layers.size(); ++i) {
      const LayerCost& cost = entry.layers[i];
      const MeasuredRanges& ranges = entry.ranges[i];
      CHECK(ranges.forward.p10 <= cost.forward);
      CHECK(cost.forward <= ranges.forward.p90);
      CHECK(ranges.backward_weight.p10 <= cost.backward_weight);
      CHECK(cost.backward_weight <= ranges.backward_weight.p90);
      CHECK(ranges.update.p10 <= cost.update);
      CHECK(cost.update <= ranges.update.p90);
    }
  }
}

TEST_CASE("peers on devices of their own have as many as there are", "[seconds]") {
  std::mutex mutex;
  std::set<int> ranks;
  MeasureOptions options = options_for({1, 2, 4}, 0);
  options.device = devices(2, ranks, mutex);
  const Profile profile = measure_profile(model_of(Style::gpt2), options);
  CHECK(ranks == std::set{0, 1});
  CHECK(profile.entries[1].has_peer_messages);
  CHECK_FALSE(profile.entries[2].has_peer_messages);
  CHECK(profile.source ==
        "measured on stand-ins; of tensor-parallel 4 one peer by itself, without their messages");
}

TEST_CASE("a peer that fails while it is measured says why, and keeps nobody waiting") {
  std::mutex mutex;
  std::set<int> ranks;
  MeasureOptions options = options_for({2}, 0);
  options.device = devices(2, ranks, mutex, true);
  CHECK(message_of([&] { measure_profile(model_of(Style::gpt2), options); }) ==
        "device 1 is broken");
}

TEST_CASE("what cannot be cut into so many parts is refused before anything is measured") {
  std::mutex mutex;
  std::set<int> ranks;
  MeasureOptions options = options_for({1, 3}, 0);
  options.device = devices(3, ranks, mutex);
  CHECK_THAT(message_of([&] { measure_profile(model_of(Style::gpt2), options); }),
             ContainsSubstring("3 tensor-parallel devices"));
  options.tensor_parallel = {1, 2};
  CHECK_THAT(message_of([&] { measure_profile(small_networks().front(), options); }),
             ContainsSubstring("not split over tensor-parallel devices"));
  CHECK(ranks.empty());
}

TEST_CASE("plans add the links' messages to peers measured by themselves, and to no others",
          "[seconds]") {
  const Model model = model_of(Style::gpt2);
  Profile profile = measure_profile(model, options_for({2}, 1));
  REQUIRE_FALSE(profile.entries.front().has_peer_messages);
  Link link{.latency = Duration(3000)};
  link.point_to_point.bytes_per_second = link.collective.bytes_per_second = 1'000'000'000;
  Cluster cluster{.name = "test", .levels = {{2, link}}};
  cluster.kinds.push_back(builtin_device_kind(GENERATE("cpu", "generic")));
  cluster.devices.assign(2, 0);
  // Of each token 32 numbers of 4 bytes go around.
  const auto sum_of = [&](std::int64_t rows) {
    return collective_time(Collective::all_reduce, device_group(cluster, {0, 1}),
                           rows * 8 * 32 * 4);
  };
  const LayerCost block = profile.entries.front().layers[1];
  CostBook apart(profile, cluster, {.precision = Precision::float32, .sequence = 8});
  CHECK(apart.table(0, 2, 2, 2).layer(1).forward == block.forward + 2 * sum_of(2));
  CHECK(apart.table(0, 2, 2, 2).layer(1).backward() == block.backward() + 2 * sum_of(2));
  // Half of the rows were not measured: half of the time, and messages of their own.
  CHECK(apart.table(0, 2, 1, 2).layer(1).forward ==
        (block.forward + Duration(1)) / 2 + 2 * sum_of(1));
  profile.entries.front().has_peer_messages = true;
  CostBook together(profile, cluster, {.precision = Precision::float32, .sequence = 8});
  CHECK(together.table(0, 2, 2, 2).layer(1) == block);
}
