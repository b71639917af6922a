// Small models whose layers are described step by step and trained all the same.

#pragma once

#include <string>

#include "profiles/importers.hpp"
#include "profiles/profile.hpp"

namespace stagecraft::tests {

struct SteppedShape {
  std::string family = "qwen3";
  int hidden = 16, blocks = 1, heads = 4, key_value_heads = 2, head_width = 8, inner = 12;
  int vocabulary = 21, positions = 8;
  bool tied = true;
  bool bias = false;
};

/// Keys of one family only. Half of a head is turned in GPT-NeoX; Gemma's first block of two sees
/// three tokens.
inline std::string own_keys(const SteppedShape& shape) {
  const std::string experts = ", \"num_experts_per_tok\": 2, \"num_local_experts\": 4";
  if (shape.family == "gpt_neox") return ", \"rotary_pct\": 0.67, \"rotary_emb_base\": 100";
  if (shape.family == "mixtral") return experts + ", \"sliding_window\": null";
  if (shape.family == "qwen3_moe")
    return experts + ", \"moe_intermediate_size\": " + std::to_string(shape.inner);
  if (shape.family == "gemma3_text") {
    return R"(, "sliding_window": 3, "query_pre_attn_scalar": 6, "rope_local_base_freq": 10,)"
           R"( "sliding_window_pattern": 2)";
  }
  return "";
}

/// As its config.json is read. OPT and GPT-NeoX have no key-value heads of their own.
inline Model stepped_model(const SteppedShape& shape) {
  const bool opt = shape.family == "opt";
  const bool neox = shape.family == "gpt_neox";
  std::string config = "{\"model_type\": \"" + shape.family + "\"";
  const auto add = [&](const std::string& name, const std::string& value) {
    config += ", \"" + name + "\": " + value;
  };
  const auto add_count = [&](const std::string& name, int value) {
    add(name, std::to_string(value));
  };
  const auto add_flag = [&](const std::string& name, bool value) {
    add(name, value ? "true" : "false");
  };
  add_count("hidden_size", shape.hidden);
  add_count("num_hidden_layers", shape.blocks);
  add_count("num_attention_heads", shape.heads);
  add_count(opt ? "ffn_dim" : "intermediate_size", shape.inner);
  add_count("vocab_size", shape.vocabulary);
  add_count("max_position_embeddings", shape.positions);
  add_flag("tie_word_embeddings", shape.tied);
  // Mixtral has none.
  if (shape.family != "mixtral") add_flag(opt ? "enable_bias" : "attention_bias", shape.bias);
  if (opt) {
    add_count("word_embed_proj_dim", shape.hidden);
  } else if (!neox) {
    add_count("num_key_value_heads", shape.key_value_heads);
    add_count("head_dim", shape.head_width);
    add("rms_norm_eps", "1e-5");
    add("rope_theta", "100");
  }
  return import_huggingface(config + own_keys(shape) + "}", "tiny.json").model;
}

}  // namespace stagecraft::tests
