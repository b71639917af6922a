// Keys that are null, contradict the library's classes, or are lists where others have a number:
// parameters as transformers 5.23.0 counts them on the meta device.

#include "profiles/importers.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/profiles/importers/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// A small model of a family, and more keys; a key of `more` replaces the same one.
Profile import_family(const std::string& family, const std::string& keys,
                      const std::string& more = "") {
  return import_huggingface(
      "{\"model_type\": \"" + family + "\", " + keys + (more.empty() ? "" : ", " + more) + "}",
      "config.json");
}

std::int64_t count(const std::string& family, const std::string& keys,
                   const std::string& more = "") {
  return parameters(import_family(family, keys, more).model);
}

std::string complaint(const std::string& family, const std::string& keys,
                      const std::string& more = "") {
  return message_of([&] { import_family(family, keys, more); });
}

const std::string falcon = R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_kv_heads": 1, "bias": true, "alibi": true,
    "ffn_hidden_size": 128, "tie_word_embeddings": false)";

const std::string ernie = R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 80,
    "max_position_embeddings": 128, "tie_word_embeddings": false, "use_bias": true)";

const std::string falcon_h1 = R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 80, "max_position_embeddings": 128,
    "tie_word_embeddings": false, "attention_bias": true, "mamba_n_heads": 8, "mamba_n_groups": 2,
    "mamba_d_state": 8, "mamba_d_conv": 2, "mamba_expand": 2, "projectors_bias": true,
    "mlp_bias": true, "mamba_d_ssm": null, "mamba_proj_bias": false, "mamba_rms_norm": false)";

const std::string hy3 = R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 80,
    "max_position_embeddings": 128, "tie_word_embeddings": true, "head_dim": 16,
    "num_experts_per_tok": 1, "moe_intermediate_size": 24, "num_experts": 8,
    "mlp_layer_types": ["sparse", "sparse", "sparse"])";

const std::string gemma4 = R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 6,
    "num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": 48,
    "max_position_embeddings": 128, "tie_word_embeddings": true, "head_dim": 16,
    "attention_bias": true, "vocab_size_per_layer_input": 90, "hidden_size_per_layer_input": 8,
    "attention_k_eq_v": true, "num_kv_shared_layers": 0, "enable_moe_block": true, "num_experts": 4,
    "top_k_experts": 2, "moe_intermediate_size": 24, "sliding_window": 8)";

const std::string hunyuan = R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 3,
    "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 128, "tie_word_embeddings": true, "head_dim": 16, "num_experts": 4)";

const std::string deepseek = R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 80,
    "max_position_embeddings": 128, "tie_word_embeddings": true, "kv_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 8,
    "n_shared_experts": 2, "first_k_dense_replace": 1, "moe_intermediate_size": 24)";

std::string exaone(int layers) {
  return concat(R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": )", layers,
                R"(, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 48,
                     "max_position_embeddings": 128)");
}

/// "LG…": a window or all tokens, by the flops of blocks.
std::string windows_of(const Model& model) {
  std::string letters;
  for (const Layer& layer : model.layers) {
    for (const Step& step : layer.steps) {
      if (step.kind == StepKind::attention) letters += step.window > 0 ? 'L' : 'G';
    }
  }
  return letters;
}

}  // namespace

TEST_CASE("a flag that is null is false, as in the library, whatever its default") {
  CHECK(count("falcon", falcon, R"("num_ln_in_parallel_attn": 2)") == 38'776);
  CHECK(count("falcon", falcon, R"("num_ln_in_parallel_attn": 2, "multi_query": null)") == 44'320);
  CHECK(count("falcon", falcon, R"("num_ln_in_parallel_attn": 1)") == 38'584);
  CHECK(count("falcon", falcon, R"("num_ln_in_parallel_attn": 1, "parallel_attn": null)") ==
        38'776);
  CHECK(count("falcon_h1", falcon_h1, R"("num_key_value_heads": 4)") == 76'760);
  CHECK(count("falcon_h1", falcon_h1, R"("num_key_value_heads": 4, "mamba_conv_bias": null)") ==
        76'600);
}

TEST_CASE("numbers that are null are what the library completes them to") {
  CHECK(count("ernie4_5", ernie, R"("head_dim": null)") == 95'040);
  CHECK(count("ernie4_5", ernie, R"("head_dim": 16)") == 95'040);
  CHECK(count("ernie4_5", ernie) > 95'040);  // of the class's 128
  CHECK(count("falcon_h1", falcon_h1, R"("num_key_value_heads": null, "mamba_conv_bias": false)") ==
        76'600);
  CHECK(count("qwen3", R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6,
      "num_attention_heads": 4, "num_key_value_heads": null, "intermediate_size": 80,
      "max_position_embeddings": 128, "tie_word_embeddings": false, "head_dim": 8,
      "attention_bias": true)") == 78'080);
  CHECK(count("gemma4_text", gemma4, R"("per_layer_config": {"5": {"num_key_value_heads": 2}})") ==
        155'232);
  CHECK(count("gemma4_text", gemma4, R"("per_layer_config": null)") == 154'704);
}

TEST_CASE("what a class of the library builds counts, and what the file says beside it is noted") {
  const Profile unshared = import_family("hy_v3", hy3, R"("num_shared_experts": 0)");
  CHECK(parameters(unshared.model) == 195'616);
  CHECK(count("hy_v3", hy3, R"("num_shared_experts": 1)") == 163'360);
  REQUIRE(unshared.warnings.size() == 1);
  CHECK_THAT(unshared.warnings.front(), ContainsSubstring("num_shared_experts is 0") &&
                                            ContainsSubstring("as wide as intermediate_size = 80"));
  const std::string one = R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
      "vocab_size": 96, "head_dim": 16, "moe_intermediate_size": 24, "n_routed_experts": 4,
      "num_experts_per_tok": 2, "o_groups": 2, "num_nextn_predict_layers": 0)";
  for (const int shared : {0, 2}) {
    const Profile profile =
        import_family("deepseek_v4", one, concat("\"n_shared_experts\": ", shared));
    CHECK(parameters(profile.model) == count("deepseek_v4", one));
    REQUIRE(profile.warnings.size() == 1);
    CHECK_THAT(profile.warnings.front(),
               ContainsSubstring(concat("n_shared_experts is ", shared, ", but the class")));
  }
  CHECK(import_family("deepseek_v4", one, R"("n_shared_experts": 1)").warnings.empty());
}

TEST_CASE("Nemotron-H without a width of shared experts has one as wide as its feed-forwards") {
  const std::string keys = R"("layers_block_type": ["mamba", "moe", "attention"],
      "hidden_size": 64, "intermediate_size": 80, "vocab_size": 96, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 24, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2,
      "ssm_state_size": 8)";
  const auto of = [&](int width) {
    return import_family("nemotron_h", keys,
                         concat("\"moe_shared_expert_intermediate_size\": ", width));
  };
  CHECK(parameters(of(0).model) == parameters(of(80).model));
  CHECK(of(0).warnings.size() == of(80).warnings.size() + 1);
}

TEST_CASE("SmolLM3 has windows in layers without positions, if it uses any") {
  const std::string keys = R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
      "sliding_window": 16)";
  const auto letters = [&](const std::string& more) {
    return windows_of(import_family("smollm3", keys, more).model);
  };
  CHECK(letters("") == "GGGGGG");
  CHECK(letters(R"("use_sliding_window": true)") == "GGGLGG");
  CHECK(letters(R"("use_sliding_window": true, "no_rope_layer_interval": 2)") == "GLGLGL");
  CHECK(letters(R"("use_sliding_window": true, "no_rope_layers": [0, 1, 1, 1, 1, 0])") == "LGGGGL");
  const std::string types = R"("layer_types": ["sliding_attention", "full_attention",
      "full_attention", "full_attention", "full_attention", "full_attention"])";
  CHECK(letters(types) == "GGGGGG");
  CHECK(letters(types + R"(, "use_sliding_window": true)") == "LGGGGG");
}

TEST_CASE("two names of one number are read, unless they differ") {
  const std::string keys = R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
      "num_experts_per_tok": 2)";
  const std::int64_t four = count("mixtral", keys, R"("num_local_experts": 4)");
  CHECK(count("mixtral", keys, R"("num_experts": 4)") == four);
  CHECK(count("mixtral", keys, R"("num_experts": 4, "num_local_experts": 4)") == four);
  CHECK_THAT(complaint("mixtral", keys, R"("num_experts": 8, "num_local_experts": 4)"),
             ContainsSubstring("num_experts: found 8, but \"num_local_experts\" is 4, and both are "
                               "names of one number: keep the one that holds"));
  // The library's class of GLM 4.7 Flash has "head_dim" for the part that is turned.
  const std::string latent = R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 48, "kv_lora_rank": 16, "q_lora_rank": 8,
      "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "moe_intermediate_size": 24,
      "num_experts_per_tok": 2)";
  CHECK(count("glm4_moe_lite", latent, R"("head_dim": 16)") ==
        count("glm4_moe_lite", latent, R"("qk_rope_head_dim": 16)"));
  CHECK_THAT(complaint("glm4_moe_lite", latent, R"("qk_rope_head_dim": 8, "head_dim": 16)"),
             ContainsSubstring("head_dim: found 16, but \"qk_rope_head_dim\" is 8"));
  CHECK(count("t5", R"("hidden_size": 64, "head_dim": 16, "d_ff": 96, "num_hidden_layers": 2,
                       "num_attention_heads": 4, "vocab_size": 100)") ==
        count("t5", R"("d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4,
                       "vocab_size": 100)"));
}

TEST_CASE("T5's gate is what is_gated_act says, and else what feed_forward_proj says") {
  const std::string t5 = R"("d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2,
                            "num_heads": 4, "vocab_size": 100)";
  const std::int64_t plain = count("t5", t5);
  const std::int64_t gates = 4 * 96 * 64;
  CHECK(count("t5", t5, R"("is_gated_act": true)") == plain + gates);
  CHECK(count("t5", t5, R"("feed_forward_proj": "gated-gelu")") == plain + gates);
  CHECK(count("t5", t5, R"("feed_forward_proj": "gated-gelu", "is_gated_act": false)") == plain);
}

TEST_CASE("latent attention without a latent of queries is null, and a rank of 0 is refused") {
  const std::string keys =
      deepseek + R"(, "num_experts_per_tok": 2, "qk_head_dim": 16, "num_nextn_predict_layers": 0)";
  for (const std::string family :
       {"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa"}) {
    INFO(family);
    CHECK_THAT(complaint(family, keys, R"("q_lora_rank": 0)"),
               ContainsSubstring("q_lora_rank: expected an integer of at least 1, or null for "
                                 "queries without a latent, found 0"));
  }
  CHECK(count("deepseek_v2", keys, R"("q_lora_rank": null)") == 72'208);
  const std::string longcat = R"("num_layers": 1, "hidden_size": 64, "num_attention_heads": 4,
      "vocab_size": 96)";
  CHECK_THAT(complaint("longcat_flash", longcat, R"("qk_head_dim": 96)"),
             ContainsSubstring("qk_head_dim: expected qk_nope_head_dim + qk_rope_head_dim = 192, "
                               "found 96"));
  // Keys of a latent have no heads.
  CHECK(count("deepseek_v2", with(keys, "\"num_key_value_heads\": 4", "\"num_key_value_heads\": 3"),
              R"("q_lora_rank": null)") == 72'208);
}

TEST_CASE("DeepSeek-V2's class writes no number of experts that a token passes") {
  const Profile profile = import_family("deepseek_v2", deepseek, R"("q_lora_rank": null)");
  CHECK(parameters(profile.model) == 72'208);
  CHECK(profile.model.transformer->experts->active == 6);
  REQUIRE(profile.warnings.size() == 1);
  CHECK_THAT(profile.warnings.front(),
             ContainsSubstring("num_experts_per_tok is missing: 6 are assumed"));
}

TEST_CASE("a list with the same number for each layer is that number") {
  const Profile profile =
      import_family("hunyuan_v1_moe", hunyuan,
                    R"("moe_topk": [2, 2, 2], "moe_intermediate_size": [48, 48, 48],
         "num_shared_expert": [1, 1, 1])");
  CHECK(parameters(profile.model) == 221'600);
  CHECK(profile.model.transformer->experts->active == 2);
  CHECK(profile.warnings.empty());
  const Profile other = import_family(
      "hunyuan_v1_moe", hunyuan,
      R"("moe_topk": 2, "moe_intermediate_size": [24, 24, 24], "num_shared_expert": 2)");
  CHECK(parameters(other.model) == 221'600);
  CHECK(other.warnings.size() == 2);
  CHECK(count("hy_v3", hy3, R"("num_shared_experts": [1, 1, 1])") == 163'360);
  CHECK_THAT(complaint("hunyuan_v1_moe", hunyuan, R"("moe_topk": [2, 2, 1])"),
             ContainsSubstring("moe_topk[2]: only the same number for all layers is known here; "
                               "layer 0 has 2, layer 2 has 1"));
  CHECK_THAT(complaint("hunyuan_v1_moe", hunyuan, R"("moe_topk": [2, 2])"),
             ContainsSubstring("moe_topk: expected an integer, or one for each of the 3 layers, "
                               "found 2"));
}

TEST_CASE("EXAONE's pattern says which layers slide, where no list of types does") {
  // As Exaone4Config and ExaoneMoeConfig derive "layer_types".
  for (const std::string family : {"exaone4", "exaone_moe"}) {
    INFO(family);
    const std::string experts =
        family == "exaone_moe" ? R"("num_experts": 4, "num_experts_per_tok": 1, )" : "";
    const auto letters = [&](const std::string& more) {
      return windows_of(
          import_family(family, exaone(6), experts + R"("sliding_window": 16)" + more).model);
    };
    CHECK(letters("") == "LLLGLL");
    CHECK(letters(R"(, "sliding_window_pattern": 2)") == "LGLGLG");
    CHECK(letters(R"(, "sliding_window_pattern": 3)") == "LLGLLG");
    const std::string types = R"(, "layer_types": ["full_attention", "sliding_attention",
        "full_attention", "full_attention", "full_attention", "full_attention"])";
    CHECK(letters(types + R"(, "sliding_window_pattern": "LLLG")") == "GLGGGG");
    for (const std::string value : {"\"LLLG\"", "null"}) {
      CHECK_THAT(message_of([&] { letters(", \"sliding_window_pattern\": " + value); }),
                 ContainsSubstring("sliding_window_pattern: expected an integer n (each n-th layer "
                                   "sees all tokens), found " +
                                   value));
    }
    CHECK_THAT(message_of([&] { letters(R"(, "sliding_window_pattern": 0)"); }),
               ContainsSubstring("sliding_window_pattern: expected an integer from 1"));
    CHECK(windows_of(import_family(family, exaone(4), experts + R"("sliding_window": null,
                     "sliding_window_pattern": null)")
                         .model) == "GGGG");
  }
}

TEST_CASE("keys of published files that change nothing are read") {
  CHECK_NOTHROW(count("falcon", falcon, R"("is_composition": true, "num_beam_groups": 1,
      "num_return_sequences": 1, "typical_p": 1.0, "use_bfloat16": true, "pruned_heads": {})"));
  CHECK_NOTHROW(
      count("falcon_h1", falcon_h1, R"("num_key_value_heads": 4, "time_step_rank": "auto")"));
  const std::string small = R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 48,
      "max_position_embeddings": 128)";
  CHECK_NOTHROW(count("minimax_m2", small, R"("num_local_experts": 4, "num_experts_per_tok": 2,
      "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_beta": 1.0)"));
  CHECK_NOTHROW(count("ernie4_5_moe", small, R"("moe_num_experts": 4, "moe_k": 2,
      "moe_intermediate_size": 24, "weight_share_add_bias": true)"));
  // Command A's name for the pattern.
  const auto cohere = [&](const std::string& more) {
    return import_family(
        "cohere2", small,
        R"("sliding_window": 16, "layer_switch": 4, "use_parallel_block": true)" + more);
  };
  CHECK(windows_of(cohere("").model) == "LLLG");
  CHECK(cohere("").warnings.empty());
  CHECK(cohere(R"(, "sliding_window_pattern": 4)").warnings.empty());
  const Profile other = cohere(R"(, "sliding_window_pattern": 2)");
  CHECK(windows_of(other.model) == "LGLG");
  CHECK_THAT(other.warnings.at(0),
             Catch::Matchers::Equals(
                 "layer_switch is 4, but transformers reads sliding_window_pattern = 2, by which "
                 "layers are counted"));
}

TEST_CASE(
    "what files of Qwen, ERNIE, LongCat and Gemma 3n say of norms and kinds of numbers is read") {
  const std::string small = R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 48,
      "max_position_embeddings": 128)";
  const std::string experts = R"("num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 24)";
  const auto of = [&](const std::string& family, const std::string& more) {
    return count(family, small, more);
  };
  CHECK(of("qwen3_moe", experts + R"(, "use_qk_norm": true)") == of("qwen3_moe", experts));
  const std::string ernie_experts = R"("moe_num_experts": 4, "moe_k": 2,
      "moe_intermediate_size": 24)";
  CHECK(of("ernie4_5_moe", ernie_experts + R"(, "use_rmsnorm": true)") ==
        of("ernie4_5_moe", ernie_experts));
  CHECK_THAT(complaint("ernie4_5_moe", small, ernie_experts + R"(, "use_rmsnorm": false)"),
             ContainsSubstring("use_rmsnorm: found false, but the class in transformers does not "
                               "read it and builds true"));
  const std::string router = R"("router_dtype": "float32", "query_pre_attn_scalar": 256)";
  CHECK(of("qwen3", router) == of("qwen3", "\"head_dim\": 128"));
}

const std::string mimo = R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 48, "head_dim": 12,
    "v_head_dim": 8, "moe_intermediate_size": 24, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "sliding_window_size": 8, "max_position_embeddings": 128)";

TEST_CASE("MiMo-V2's file may say of its windows what the class builds, and nothing else") {
  const std::string published = R"("swa_rope_theta": 10000, "swa_num_attention_heads": 4,
      "swa_num_key_value_heads": 2, "swa_head_dim": 12, "swa_v_head_dim": 8,
      "attention_chunk_size": 8, "add_swa_attention_sink_bias": true,
      "add_full_attention_sink_bias": false, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0],
      "moe_layer_freq": [0, 1, 1, 1, 1, 1], "sliding_window": 8)";
  CHECK(count("mimo_v2_flash", mimo, published) == 79'664);  // as without these keys
  CHECK(count("mimo_v2_flash", mimo) == 79'664);
  CHECK(windows_of(import_family("mimo_v2_flash", mimo, published).model) == "GLLLLG");
  const auto refused = [&](const std::string& key, const std::string& value) {
    return complaint("mimo_v2_flash", mimo, "\"" + key + "\": " + value);
  };
  CHECK_THAT(refused("swa_num_key_value_heads", "4"),
             ContainsSubstring("swa_num_key_value_heads: found 4, but the class in transformers "
                               "does not read it and builds 2"));
  CHECK_THAT(refused("hybrid_layer_pattern", "[0, 1, 0, 1, 1, 0]"),
             ContainsSubstring("hybrid_layer_pattern: found 0 for layer 2, but"));
  CHECK_THAT(refused("moe_layer_freq", "[0, 1]"),
             ContainsSubstring("expected a number for each of the 6 layers, found 2"));
  CHECK_THAT(refused("add_swa_attention_sink_bias", "false"),
             ContainsSubstring("found false, but the class in transformers does not read it"));
}

const std::string glm_5 = R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 80,
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "n_routed_experts": 8, "moe_intermediate_size": 24, "num_experts_per_tok": 2,
    "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8)";

TEST_CASE(
    "GLM 5.2's layers that take an earlier one's keys have no indexer, by list or by letters") {
  const std::string list = R"("indexer_types": ["full", "shared", "shared", "full"],
      "index_share_for_mtp_iteration": true)";
  const std::int64_t all = count("glm_moe_dsa", glm_5);
  const std::int64_t two = count("glm_moe_dsa", glm_5, list);
  // Its queries, its keys with their norm, and its weights.
  CHECK(all - two == 2 * (2 * 16 * 24 + 16 * 32 + 2 * 16 + 2 * 32));
  CHECK(count("glm_moe_dsa", glm_5, R"("index_topk_pattern": "FSSF")") == two);
  CHECK(count("glm_moe_dsa", glm_5,
              R"("index_topk_pattern": ["full", "shared", "shared", "full"])") == two);
  CHECK(count("glm_moe_dsa", glm_5, R"("index_topk_pattern": "FFFF", )" + list) == two);
  CHECK_THAT(complaint("glm_moe_dsa", glm_5, R"("index_topk_pattern": "FSXF")"),
             ContainsSubstring("index_topk_pattern: \"X\" is not known here; known: F, S"));
  CHECK_THAT(complaint("glm_moe_dsa", glm_5, R"("index_topk_pattern": "FSS")"),
             ContainsSubstring("expected a letter for each of the 4 layers, found 3"));
}

TEST_CASE("more experts than there are is refused at the key that says so") {
  const std::string lists = R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
      "moe_intermediate_size": 24)";
  const auto of = [&](const std::string& family, const std::string& more) {
    return complaint(family, lists, more);
  };
  const std::string refused = "a token cannot pass 6 of 4 experts";
  for (const std::string family : {"qwen3_moe", "qwen3_next", "qwen3_5_moe_text", "lfm2_moe"}) {
    INFO(family);
    CHECK_THAT(of(family, R"("num_experts": 4, "num_experts_per_tok": 6)"),
               ContainsSubstring("num_experts_per_tok: " + refused));
  }
  CHECK_THAT(of("hunyuan_v1_moe", R"("num_experts": 4, "moe_topk": 6)"),
             ContainsSubstring("moe_topk: " + refused));
  CHECK_THAT(of("kimi_linear", R"("num_experts": 4, "num_experts_per_token": 6)"),
             ContainsSubstring("num_experts_per_token: " + refused));
  CHECK_THAT(
      of("qwen3_next", R"("num_experts": 4)"),
      ContainsSubstring("by default of \"num_experts_per_tok\" a token cannot pass 10 of 4"));
  CHECK_THAT(of("granitemoehybrid", R"("num_local_experts": 4, "num_experts_per_tok": 6,
                                       "mamba_n_heads": 8, "shared_intermediate_size": 32)"),
             ContainsSubstring("num_experts_per_tok: " + refused));
}
