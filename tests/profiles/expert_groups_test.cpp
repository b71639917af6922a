// Routers that choose groups of experts first, and what that spares exchanges that send a token
// once to each place.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "profiles/collectives.hpp"
#include "profiles/importers.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/model.hpp"
#include "profiles/operations.hpp"
#include "profiles/units.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

/// Bytes of DeepSeek-V3's file, with what it says of groups.
std::string deepseek(const std::string& type, const std::string& groups, int experts = 16) {
  return R"({"model_type": ")" + type + R"(", "vocab_size": 128, "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 96, "max_position_embeddings": 128, "q_lora_rank": 24,
    "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "n_routed_experts": )" +
         std::to_string(experts) + R"(, "n_shared_experts": 1, "num_experts_per_tok": 4,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1)" +
         groups + "}";
}

}  // namespace

TEST_CASE("a token's experts are in reach of as many places as hold its groups") {
  const RowCopies v3{.count = 8, .groups = {.count = 8, .active = 4}};
  // A group on each of 8 nodes, on 8 devices each, or several on a place.
  CHECK(places_in_reach(v3, 8) == 4);
  CHECK(places_in_reach(v3, 64) == 32);
  CHECK(places_in_reach(v3, 4) == 4);
  CHECK(places_in_reach(v3, 2) == 2);
  CHECK(places_in_reach(v3, 1) == 1);
  for (const double places : {1.0, 2.0, 8.0, 64.0})
    CHECK(places_in_reach({.count = 8, .groups = {}}, places) == places);
}

TEST_CASE("what is sent once is what a token of random experts in random groups needs") {
  // 64 devices with 4 experts each, 8 nodes of 8: one group on each.
  const RowCopies v3{.count = 8, .groups = {.count = 8, .active = 4}};
  std::mt19937_64 random(7);
  double devices = 0, nodes = 0;
  constexpr int tokens = 20'000;
  for (int token = 0; token < tokens; ++token) {
    std::vector<int> groups{0, 1, 2, 3, 4, 5, 6, 7};
    for (std::size_t i = 0; i < 4; ++i)
      std::swap(groups[i], groups[i + random() % (groups.size() - i)]);
    std::vector<bool> device(64), node(8);
    for (int copy = 0; copy < 8; ++copy) {
      const int group = groups[random() % 4];
      node[static_cast<std::size_t>(group)] = true;
      device[static_cast<std::size_t>(group) * 8 + random() % 8] = true;
    }
    devices += static_cast<double>(std::ranges::count(device, true));
    nodes += static_cast<double>(std::ranges::count(node, true));
  }
  const auto sent = [&](int members) {
    const Link link{.collective = parse_bandwidth("100GB/s")};
    const DeviceGroup group = boxes_group(1, members, link, {}, 1);
    return with_first_copies({.group = group, .bytes = 8}, v3).bytes;
  };
  CHECK(sent(64) == Approx(devices / tokens).epsilon(0.01));
  CHECK(sent(8) == Approx(nodes / tokens).epsilon(0.01));
}

TEST_CASE("groups of experts spare what is sent once, and nothing of what NCCL exchanges") {
  Transformer grouped = *builtin_model("deepseek-v3").transformer;
  CHECK(grouped.experts->groups == ExpertGroups{.count = 8, .active = 4});
  Transformer free = grouped;
  free.experts->groups = {};
  for (const Dispatcher dispatcher :
       {Dispatcher::alltoall, Dispatcher::deepep, Dispatcher::hybridep}) {
    const WorkSetting setting{.sequence = 4096, .expert_parallel = 64, .dispatcher = dispatcher};
    const auto copies = [&](const Transformer& transformer) {
      double groups = 0;
      for (const Operation& operation :
           layer_operations(transformer, LayerKind::expert_transformer, setting).operations) {
        if (operation.kind == OperationKind::all_to_all)
          groups += places_in_reach(operation.copies, 8);
      }
      return groups / 4;  // there and back, forward and backward
    };
    CHECK(copies(free) == 8);
    CHECK(copies(grouped) == (dispatcher == Dispatcher::alltoall ? 8 : 4));
  }
}

TEST_CASE("files say groups of experts as the library reads them") {
  const auto groups = [](const std::string& text) {
    const Profile profile = import_huggingface(text, "config.json");
    return profile.model.transformer->experts->groups;
  };
  constexpr ExpertGroups none{}, four{.count = 4, .active = 2}, usual{.count = 8, .active = 4};
  const std::string said = R"(, "n_group": 4, "topk_group": 2)";
  CHECK(groups(deepseek("deepseek_v3", said)) == four);
  CHECK(groups(deepseek("deepseek_v3", "")) == usual);
  CHECK(groups(deepseek("deepseek_v3", R"(, "n_group": null)")) == none);
  // DeepSeek-V2's class has groups only where it is told to choose by them.
  CHECK(groups(deepseek("deepseek_v2", said)) == none);
  CHECK(groups(deepseek("deepseek_v2", said + R"(, "topk_method": "greedy")")) == none);
  CHECK(groups(deepseek("deepseek_v2", said + R"(, "topk_method": "group_limited_greedy")")) ==
        four);
}

TEST_CASE("groups that no token can choose from are left out with a word") {
  const Profile profile =
      import_huggingface(deepseek("deepseek_v3", R"(, "n_group": 5, "topk_group": 1)"), "c.json");
  CHECK(profile.model.transformer->experts->groups == ExpertGroups{});
  REQUIRE(profile.warnings.size() == 1);
  CHECK_THAT(profile.warnings.front(),
             ContainsSubstring("cannot pass 4 experts in topk_group = 1 of n_group = 5"));
}
