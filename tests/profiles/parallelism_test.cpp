// What sequence, context and expert parallelism do to a layer, in formulas of their papers.

#include "profiles/parallelism.hpp"

#include "profiles/devices.hpp"
#include "profiles/estimate.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/peer_messages.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;
using namespace std::chrono_literals;

namespace {

/// Nodes of eight.
Cluster two_levels(int nodes) {
  Link outside{.latency = 5us};
  outside.point_to_point.bytes_per_second = outside.collective.bytes_per_second = 50'000'000'000;
  Link inside{.latency = 2us};
  inside.point_to_point.bytes_per_second = inside.collective.bytes_per_second = 400'000'000'000;
  Cluster cluster{.name = "test", .levels = {{nodes, outside}, {8, inside}}};
  cluster.kinds.push_back(builtin_device_kind("h100"));
  cluster.devices.assign(static_cast<std::size_t>(nodes) * 8, 0);
  return cluster;
}

CostSetting setting_of(int tensor, const Parallelism& parallelism, std::int64_t sequence) {
  return {.device = "h100",
          .sequence = sequence,
          .tensor_parallel = tensor,
          .precision = Precision::bfloat16,
          .parallelism = parallelism};
}

LayerCost layer_of(const std::string& name, std::size_t layer, const CostSetting& setting) {
  return estimate_costs(builtin_model(name), builtin_device_kind("h100"), setting)[layer];
}

/// With messages over nodes of eight.
LayerCost with_messages(const std::string& name, std::size_t layer, const CostSetting& setting) {
  const Model model = builtin_model(name);
  const DeviceKind device = builtin_device_kind("h100");
  return with_peer_messages(estimate_costs(model, device, setting), model, two_levels(4), device,
                            setting)[layer];
}

}  // namespace

TEST_CASE("sequence parallelism divides every activation of a block by the degree") {
  // Korthikanti et al. 2022, table 2, bytes of s b h: 10 + 24/t, and 34/t with sequence
  // parallelism; here without the two masks of dropout, 8 + 24/t and 32/t, and with the statistics
  // of norms (two numbers each) and of the softmax.
  constexpr Bytes tokens = 2048, hidden = 12288, heads = 96;
  for (const Bytes t : {2, 4, 8}) {
    const int degree = static_cast<int>(t);
    const LayerCost plain = layer_of("gpt3-175b", 1, setting_of(degree, {}, tokens));
    const LayerCost spread =
        layer_of("gpt3-175b", 1, setting_of(degree, {.sequence = true}, tokens));
    const Bytes softmax = tokens * heads / t * 4;
    CHECK(plain.saved + plain.output ==
          tokens * (8 * hidden + 24 * hidden / t) + tokens * 4 * 4 + softmax);
    CHECK(spread.saved + spread.output == tokens * 32 * hidden / t + tokens / t * 4 * 4 + softmax);
    CHECK(spread.output == plain.output / t);
    CHECK(spread.parameters == plain.parameters);
  }
}

TEST_CASE("sequence parallelism sends what all-reduces do, in two halves") {
  const auto plain = with_messages("gpt3-175b", 1, setting_of(8, {}, 2048));
  const auto spread = with_messages("gpt3-175b", 1, setting_of(8, {.sequence = true}, 2048));
  const auto alone = layer_of("gpt3-175b", 1, setting_of(8, {}, 2048));
  const auto spread_alone = layer_of("gpt3-175b", 1, setting_of(8, {.sequence = true}, 2048));
  constexpr Bytes bytes = 2048LL * 12288 * 2;
  const DeviceGroup node = span_group(two_levels(4), {.members = 8});
  const auto takes = [&](OperationKind kind) {
    return from_seconds(collective_seconds(kind, bytes, node, usual_constants("h100")));
  };
  CHECK(plain.forward - alone.forward == 2 * takes(OperationKind::all_reduce));
  CHECK(spread.forward - spread_alone.forward ==
        2 * takes(OperationKind::all_gather) + 2 * takes(OperationKind::reduce_scatter));
  // What norms and sums move is divided, so no pass takes longer.
  CHECK(spread.forward < plain.forward);
  CHECK(spread.backward() < plain.backward());
}

TEST_CASE("context parallelism divides tokens and keeps weights") {
  constexpr Bytes tokens = 8192;
  const LayerCost whole = layer_of("llama3-8b", 1, setting_of(1, {}, tokens));
  for (const int degree : {2, 4, 8}) {
    const LayerCost part = layer_of("llama3-8b", 1, setting_of(1, {.context = degree}, tokens));
    CHECK(part.saved == whole.saved / degree);
    CHECK(part.output == whole.output / degree);
    CHECK(part.parameters == whole.parameters);
    CHECK(part.optimizer == whole.optimizer);
    CHECK(part.forward < whole.forward);
  }
}

TEST_CASE("a ring of keys and values adds what attention does not hide") {
  Link link{.latency = 0us};
  link.point_to_point.bytes_per_second = 1'000'000'000;
  // Four messages' worth of 1 ms each: three of them are sent.
  CHECK(ring_exchange_time(link, 4, 4'000'000, 0ms) == 3ms);
  CHECK(ring_exchange_time(link, 4, 4'000'000, 2ms) == 3 * 500us);
  CHECK(ring_exchange_time(link, 4, 4'000'000, 4ms) == 0ms);
  CHECK(ring_exchange_time(link, 1, 4'000'000, 0ms) == 0ms);
}

TEST_CASE("the slowest link of a group is that of the outermost level it spans") {
  const Cluster cluster = two_levels(4);
  CHECK(span_link(cluster, {.members = 8}) == cluster.levels[1].link);
  CHECK(span_link(cluster, {.members = 2, .stride = 4}) == cluster.levels[1].link);
  CHECK(span_link(cluster, {.members = 9}).latency == 5us);
  CHECK(span_link(cluster, {.members = 2, .stride = 8}) == cluster.levels[0].link);
  CHECK(span_link(cluster, {.members = 1}) == Link{});
}

TEST_CASE("expert parallelism divides the experts and nothing else") {
  // Mixtral (Jiang et al. 2024): 8 experts of 3 x 4096 x 14336 weights in each block.
  constexpr Bytes experts = 8LL * 3 * 4096 * 14336;
  const LayerCost whole = layer_of("mixtral-8x7b", 1, setting_of(1, {}, 4096));
  CHECK(whole.expert_parameters == 2 * experts);
  for (const int degree : {2, 4, 8}) {
    const LayerCost part = layer_of("mixtral-8x7b", 1, setting_of(1, {.expert = degree}, 4096));
    CHECK(part.expert_parameters == 2 * experts / degree);
    CHECK(part.parameters == whole.parameters - 2 * experts + 2 * experts / degree);
    CHECK(part.output == whole.output);
  }
}

TEST_CASE("the busiest device's experts take their load's share longer") {
  const auto even = with_messages("mixtral-8x7b", 1, setting_of(1, {.expert = 8}, 4096));
  const auto busy =
      with_messages("mixtral-8x7b", 1, setting_of(1, {.expert = 8, .expert_load = 1.5}, 4096));
  const auto alone = layer_of("mixtral-8x7b", 1, setting_of(1, {.expert = 8}, 4096));
  CHECK(busy.forward > even.forward);
  CHECK(busy.backward() > even.backward());
  CHECK(busy.saved > even.saved);
  CHECK(busy.parameters == even.parameters);
  // Dispatch and combine: two experts for each token, of 4096 numbers of two bytes.
  const DeviceGroup node = span_group(two_levels(4), {.members = 8});
  CHECK(even.forward - alone.forward ==
        2 * from_seconds(collective_seconds(OperationKind::all_to_all, 4096LL * 2 * 4096 * 2, node,
                                            usual_constants("h100"))));
}

TEST_CASE("costs of different degrees are different settings") {
  CHECK(to_string(setting_of(2, {.sequence = true, .context = 4, .expert = 8}, 128)) ==
        "h100, microbatch 1, sequence 128, tensor-parallel 2, sequence-parallel, context-parallel "
        "4, expert-parallel 8, bf16");
  Profile profile{.model = builtin_model("tiny-gpt"), .entries = {}};
  profile.entries.push_back({setting_of(2, {}, 64), {}});
  CHECK(find_entry(profile, setting_of(2, {}, 64)) != nullptr);
  CHECK(find_entry(profile, setting_of(2, {.sequence = true}, 64)) == nullptr);
}
