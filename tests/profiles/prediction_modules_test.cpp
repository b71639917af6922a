#include "profiles/prediction_modules.hpp"

#include "profiles/importers.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

Model imported(const std::string& keys) {
  return import_huggingface(R"({"num_hidden_layers": 3, "hidden_size": 64, "vocab_size": 96,
      "num_attention_heads": 4, "intermediate_size": 48, "moe_intermediate_size": 24,
      "n_routed_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 4, )" +
                                keys + "}",
                            "config.json")
      .model;
}

const std::string latent_keys =
    R"("model_type": "deepseek_v3", "kv_lora_rank": 16, "q_lora_rank": 24,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8)";
const std::string grouped = R"("model_type": "glm4_moe", "head_dim": 16)";

}  // namespace

TEST_CASE("a model without its prediction modules is the one that never had any") {
  for (const std::string& family : {latent_keys, grouped}) {
    for (const std::string modules : {"1", "2"}) {
      const Model with = imported(
          family + R"(, "tie_word_embeddings": true, "num_nextn_predict_layers": )" + modules);
      const Model never = imported(family + R"(, "tie_word_embeddings": true)");
      INFO(family << " " << modules);
      CHECK(with.layers.size() == never.layers.size() + (modules == "1" ? 1 : 2));
      CHECK(without_prediction(with) == never);
      CHECK(without_prediction(never) == never);
    }
  }
}
