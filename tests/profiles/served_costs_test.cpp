// Prompts in chunks, and logits of last tokens alone: memory and time by hand.

#include "profiles/served_costs.hpp"

#include "profiles/cluster_importers.hpp"
#include "profiles/importers.hpp"
#include "profiles/peer_messages.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

constexpr Bytes mib = Bytes{1} << 20;

/// Llama 3 8B in bf16: width 4096, 128,256 words.
struct Llama {
  Profile profile;
  Cluster cluster = parse_cluster("1xh100");
  Llama() { profile.model = builtin_model("llama3-8b"); }

  std::vector<LayerCost> costs(std::int64_t samples, std::int64_t tokens, std::int64_t chunk,
                               int peers = 1) const {
    return served_costs(profile, cluster, cluster.kinds.front(),
                        {.device = "h100",
                         .microbatch = samples,
                         .sequence = tokens,
                         .tensor_parallel = peers,
                         .precision = Precision::bfloat16,
                         .chunk = chunk});
  }
};

Bytes working(const LayerCost& cost) {
  return cost.saved + cost.workspace;
}

}  // namespace

TEST_CASE("logits are of each sample's last token, not of all") {
  const Llama llama;
  const LayerCost all = llama.costs(4, 2048, 0).back(), last = llama.costs(4, 2048, 8192).back();
  constexpr Bytes tokens = 4 * 2048, words = 128256, width = 4096;
  // Of the last ones: the norm's output and statistics of all tokens; of four the product's input,
  // logits and those in fp32.
  CHECK(working(last) == tokens * (2 * width + 4) + 4 * (2 * width + (2 + 4) * words));
  CHECK(working(all) == tokens * (2 * width + 4 + (2 + 4) * words));
  // The head's weights are read once; logits of all tokens take 2 x 8192 x 4096 x 128,256 FLOPs.
  CHECK(seconds(all.forward) > 8.6e12 / 989e12);
  CHECK(seconds(last.forward) < 0.001);
  CHECK(seconds(last.forward) > 2.0 * width * words / 3.35e12);
}

TEST_CASE("peers divide the product of last tokens, and each gets all logits") {
  Llama llama;
  llama.cluster = parse_cluster("8xh100");
  const LayerCost one = llama.costs(64, 16, 8192).back();
  const LayerCost eight = llama.costs(64, 16, 8192, 8).back();
  CHECK(eight.parameters == (one.parameters - 2 * 4096) / 8 + 2 * 4096);
  CHECK(working(eight) == working(one));
}

TEST_CASE("what a pass works in does not grow with prompts beyond a chunk") {
  const Llama llama;
  const auto chunk = llama.costs(1, 8192, 8192);
  for (const std::int64_t tokens : {8192, 16384, 65536, 100'000}) {
    const auto longer = llama.costs(1, tokens, 8192);
    INFO(tokens);
    for (std::size_t layer = 0; layer < longer.size(); ++layer)
      CHECK(working(longer[layer]) == working(chunk[layer]));
    // All tokens are handed on.
    CHECK(longer[5].output == tokens * 4096 * 2);
  }
  CHECK(working(llama.costs(1, 65536, 65536)[5]) == 8 * working(chunk[5]));
  // Requests fill passes together.
  CHECK(working(llama.costs(32, 2048, 8192)[5]) == working(chunk[5]));
}

TEST_CASE("chunks take as long as all at once, but for their kernels' starts and weights") {
  const Llama llama;
  const Duration whole = llama.costs(1, 65536, 65536)[5].forward;
  CHECK(llama.costs(1, 65536, 1 << 20)[5].forward == whole);
  const Duration eight = llama.costs(1, 65536, 8192)[5].forward;
  CHECK(eight >= whole);
  CHECK(seconds(eight) < 1.03 * seconds(whole));
  // 512 passes of 128 tokens: each reads the layer's 218 million weights, of two bytes.
  const Duration small = llama.costs(1, 65536, 128)[5].forward;
  CHECK(seconds(small) > 512 * 2 * 218e6 / 3.35e12);
  CHECK(small > 2 * whole);
}

TEST_CASE("a rest is a pass of its own, and attention is that of the whole prompt") {
  const Llama llama;
  const Duration two = llama.costs(1, 12288, 8192)[5].forward;
  const Duration first = llama.costs(1, 8192, 8192)[5].forward;
  const Duration rest = llama.costs(1, 4096, 8192)[5].forward;
  // Those 4096 tokens look at 8192 more each: 4 x 4096 x 8192 x 4096 FLOPs.
  CHECK(seconds(two - first - rest) > 4.0 * 4096 * 8192 * 4096 / 989e12);
  CHECK(seconds(two - first - rest) < 3 * 4.0 * 4096 * 8192 * 4096 / 989e12);
}

TEST_CASE("who looks ahead reads prompts whole") {
  Profile profile;
  profile.model = builtin_model("bert-large");
  CHECK_FALSE(reads_in_chunks(profile.model));
  CHECK(reads_in_chunks(builtin_model("gpt2-124m")));
  const Cluster cluster = parse_cluster("1xh100");
  CostSetting setting{.device = "h100",
                      .microbatch = 2,
                      .sequence = 512,
                      .precision = Precision::bfloat16,
                      .chunk = 64};
  const auto served = served_costs(profile, cluster, cluster.kinds.front(), setting);
  setting.chunk = 0;
  CHECK(served == costs_with_messages(profile, cluster, cluster.kinds.front(), setting));
  CHECK(tokens_of_pass(profile.model, setting) == PassTokens{1024, 1024});
}

TEST_CASE("a part of bytes is rounded up") {
  CHECK(PassTokens{10, 3}.part_of(100) == 30);
  CHECK(PassTokens{10, 3}.part_of(101) == 31);
  CHECK(PassTokens{10, 10}.part_of(mib) == mib);
}
