// What is kept of a request, kind of layer by kind of layer, by hand.

#include "profiles/request_state.hpp"

#include "profiles/importers.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

constexpr std::int64_t asked = 100;

/// Of each block of a small model, on one of `peers`.
std::vector<std::int64_t> kept(const std::string& family, const std::string& keys, int peers = 1) {
  const Model model = import_huggingface("{\"model_type\": \"" + family +
                                             R"(", "vocab_size": 96, "hidden_size": 64,
      "num_attention_heads": 4, )" + keys + "}",
                                         "config.json")
                          .model;
  std::vector<std::int64_t> numbers;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    if (model.layers[layer].name.starts_with("block"))
      numbers.push_back(numbers_of_request(model, static_cast<int>(layer), asked, peers));
  }
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

const std::string gemma = R"("num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 48, "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"])";

const std::string latent = R"("num_hidden_layers": 2, "num_key_value_heads": 4,
    "intermediate_size": 48, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 24, "index_n_heads": 2, "index_head_dim": 12, "index_topk": 8)";

}  // namespace

TEST_CASE("where all layers have a window none keeps more, and without one all keep all") {
  const std::string mistral = R"("num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 48, "sliding_window": )";
  CHECK(kept("mistral", mistral + "8") == Numbers{8 * 2 * 32, 8 * 2 * 32});
  CHECK(kept("mistral", mistral + "null") == Numbers{asked * 2 * 32, asked * 2 * 32});
  // A window that is longer than the request.
  CHECK(kept("mistral", mistral + "4096") == Numbers{asked * 2 * 32, asked * 2 * 32});
}

TEST_CASE("every other layer of gpt-oss and of Gemma 2 has a window, sinks are weights") {
  const std::string shape = R"("num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 48, "sliding_window": 8)";
  const Numbers alternating{8 * 2 * 32, asked * 2 * 32};
  CHECK(kept("gpt_oss", shape + R"(, "num_local_experts": 4, "num_experts_per_tok": 2)") ==
        alternating);
  CHECK(kept("gemma2", shape) == alternating);
}

TEST_CASE("of Nemotron-H a layer keeps a state, keys and values, or nothing") {
  // M: 8 heads of 16 x 8 states, 3 tokens of 128 channels and 2 x 1 x 8 numbers; *: two heads.
  CHECK(kept("nemotron_h", R"("num_hidden_layers": 3, "hybrid_override_pattern": "M-*",
      "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 48, "mamba_num_heads": 8,
      "mamba_head_dim": 16, "n_groups": 1, "ssm_state_size": 8, "conv_kernel": 4, "expand": 2)") ==
        Numbers{8 * 16 * 8 + 3 * (128 + 16), 0, asked * 2 * 32});
}

TEST_CASE("a window keeps its own tokens, attention to all keeps all") {
  CHECK(kept("gemma3_text", gemma) == Numbers{8 * 2 * 32, asked * 2 * 32, 8 * 2 * 32});
  // Two key-value heads on four devices: one each.
  CHECK(kept("gemma3_text", gemma, 4) == Numbers{8 * 32, asked * 32, 8 * 32});
}

TEST_CASE("layers that borrow keys keep nothing, and encoders do not either") {
  const Numbers borrowing =
      kept("gemma3n_text", R"("num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 48, "sliding_window": 8, "num_kv_shared_layers": 1,
      "vocab_size_per_layer_input": 90, "hidden_size_per_layer_input": 8, "laurel_rank": 4,
      "altup_num_inputs": 2)");
  CHECK(borrowing == Numbers{512, 512, 512, 512, asked * 64, 0});
  CHECK(kept("bert", R"("num_hidden_layers": 2, "intermediate_size": 48,
      "max_position_embeddings": 128, "type_vocab_size": 2)") == Numbers{0, 0});
}

TEST_CASE("latent attention keeps its latent whole on each device, and an indexer's keys") {
  const std::int64_t each = asked * (16 + 8);
  CHECK(kept("deepseek_v32", latent) == Numbers{each + asked * 12, each + asked * 12});
  CHECK(kept("deepseek_v32", latent, 4) == Numbers{each + asked * 12, each + asked * 12});
  const std::string shared = latent + R"(, "indexer_types": ["full", "shared"])";
  CHECK(kept("glm_moe_dsa", shared) == Numbers{each + asked * 12, each});
}

TEST_CASE("compressed keys are one for so many tokens, beside a window") {
  const Numbers numbers =
      kept("deepseek_v4", R"("num_hidden_layers": 3, "head_dim": 16, "q_lora_rank": 24,
      "o_groups": 2, "o_lora_rank": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 24, "index_n_heads": 2, "index_head_dim": 12, "index_topk": 8,
      "sliding_window": 8, "compress_rate_csa": 4, "compress_rate_hca": 50,
      "layer_types": ["sliding_attention", "compressed_sparse_attention",
                      "heavily_compressed_attention"])");
  CHECK(numbers == Numbers{8 * 16, 8 * 16 + 25 * (16 + 12), 8 * 16 + 2 * 16});
}

TEST_CASE("recurrences keep their states, however long the request") {
  // Mamba 2: 8 heads of 16 x 8 states; 3 tokens of 128 channels and 2 x 1 x 8 numbers.
  const Numbers hybrid =
      kept("granitemoehybrid", R"("num_hidden_layers": 2, "num_key_value_heads": 2,
      "intermediate_size": 48, "shared_intermediate_size": 24, "num_local_experts": 0,
      "mamba_n_heads": 8, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_d_conv": 4,
      "mamba_expand": 2, "layer_types": ["linear_attention", "full_attention"])");
  CHECK(hybrid == Numbers{8 * 16 * 8 + 3 * (128 + 16), asked * 2 * 32});
  // The gated delta rule: 4 value heads of 8 x 16 states.
  const Numbers delta =
      kept("qwen3_next", R"("num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 48, "num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24,
      "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
      "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
      "layer_types": ["linear_attention", "full_attention"])");
  CHECK(delta == Numbers{4 * 8 * 16 + 3 * (2 * 16 + 64), asked * 2 * 32});
}
