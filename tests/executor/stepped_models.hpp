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

/// As its config.json is read.
inline Model stepped_model(const SteppedShape& shape) {
  const auto key = [](const std::string& name, const std::string& value) {
    return ", \"" + name + "\": " + value;
  };
  const std::string config = "{\"model_type\": \"" + shape.family + "\"" +
                             key("hidden_size", std::to_string(shape.hidden)) +
                             key("num_hidden_layers", std::to_string(shape.blocks)) +
                             key("num_attention_heads", std::to_string(shape.heads)) +
                             key("num_key_value_heads", std::to_string(shape.key_value_heads)) +
                             key("head_dim", std::to_string(shape.head_width)) +
                             key("intermediate_size", std::to_string(shape.inner)) +
                             key("vocab_size", std::to_string(shape.vocabulary)) +
                             key("max_position_embeddings", std::to_string(shape.positions)) +
                             key("rms_norm_eps", "1e-5") + key("rope_theta", "100") +
                             key("tie_word_embeddings", shape.tied ? "true" : "false") +
                             key("attention_bias", shape.bias ? "true" : "false") + "}";
  return import_huggingface(config, "tiny.json").model;
}

}  // namespace stagecraft::tests
