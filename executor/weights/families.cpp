#include "executor/weights/families.hpp"

#include <algorithm>

#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

// GPT-2's linear layers are [inputs, outputs], like ours.
const std::vector<NamedWeight>& gpt2_rows() {
  static const std::vector<NamedWeight> rows{
      {LayerKind::embedding, "token.weight", {"transformer.wte.weight"}},
      {LayerKind::embedding, "position.weight", {"transformer.wpe.weight"}},
      {LayerKind::transformer, "norm1.weight", {"transformer.h.#.ln_1.weight"}},
      {LayerKind::transformer, "norm1.bias", {"transformer.h.#.ln_1.bias"}},
      {LayerKind::transformer, "attention.qkv.weight", {"transformer.h.#.attn.c_attn.weight"}},
      {LayerKind::transformer, "attention.qkv.bias", {"transformer.h.#.attn.c_attn.bias"}},
      {LayerKind::transformer, "attention.output.weight", {"transformer.h.#.attn.c_proj.weight"}},
      {LayerKind::transformer, "attention.output.bias", {"transformer.h.#.attn.c_proj.bias"}},
      {LayerKind::transformer, "norm2.weight", {"transformer.h.#.ln_2.weight"}},
      {LayerKind::transformer, "norm2.bias", {"transformer.h.#.ln_2.bias"}},
      {LayerKind::transformer, "feed_forward.up.weight", {"transformer.h.#.mlp.c_fc.weight"}},
      {LayerKind::transformer, "feed_forward.up.bias", {"transformer.h.#.mlp.c_fc.bias"}},
      {LayerKind::transformer, "feed_forward.down.weight", {"transformer.h.#.mlp.c_proj.weight"}},
      {LayerKind::transformer, "feed_forward.down.bias", {"transformer.h.#.mlp.c_proj.bias"}},
      {LayerKind::head, "norm.weight", {"transformer.ln_f.weight"}},
      {LayerKind::head, "norm.bias", {"transformer.ln_f.bias"}},
      {LayerKind::head, "projection.weight", {"lm_head.weight"}},
  };
  return rows;
}

const std::vector<NamedWeight>& llama_rows() {
  static const std::vector<NamedWeight> rows{
      {LayerKind::embedding, "token.weight", {"model.embed_tokens.weight"}},
      {LayerKind::transformer, "norm1.weight", {"model.layers.#.input_layernorm.weight"}},
      {LayerKind::transformer,
       "attention.qkv.weight",
       {"model.layers.#.self_attn.q_proj.weight", "model.layers.#.self_attn.k_proj.weight",
        "model.layers.#.self_attn.v_proj.weight"},
       true},
      {LayerKind::transformer,
       "attention.qkv.bias",
       {"model.layers.#.self_attn.q_proj.bias", "model.layers.#.self_attn.k_proj.bias",
        "model.layers.#.self_attn.v_proj.bias"}},
      {LayerKind::transformer,
       "attention.query_norm.weight",
       {"model.layers.#.self_attn.q_norm.weight"}},
      {LayerKind::transformer,
       "attention.key_norm.weight",
       {"model.layers.#.self_attn.k_norm.weight"}},
      {LayerKind::transformer,
       "attention.output.weight",
       {"model.layers.#.self_attn.o_proj.weight"},
       true},
      {LayerKind::transformer,
       "attention.norm.weight",
       {"model.layers.#.post_attention_layernorm.weight"}},
      {LayerKind::transformer,
       "feed_forward.norm.weight",
       {"model.layers.#.post_feedforward_layernorm.weight"}},
      {LayerKind::transformer, "attention.output.bias", {"model.layers.#.self_attn.o_proj.bias"}},
      {LayerKind::transformer, "norm2.weight", {"model.layers.#.post_attention_layernorm.weight"}},
      {LayerKind::transformer,
       "feed_forward.up.weight",
       {"model.layers.#.mlp.gate_proj.weight", "model.layers.#.mlp.up_proj.weight"},
       true},
      {LayerKind::transformer,
       "feed_forward.up.bias",
       {"model.layers.#.mlp.gate_proj.bias", "model.layers.#.mlp.up_proj.bias"}},
      {LayerKind::transformer,
       "feed_forward.down.weight",
       {"model.layers.#.mlp.down_proj.weight"},
       true},
      {LayerKind::transformer, "feed_forward.down.bias", {"model.layers.#.mlp.down_proj.bias"}},
      {LayerKind::head, "norm.weight", {"model.norm.weight"}},
      {LayerKind::head, "projection.weight", {"lm_head.weight"}},
  };
  return rows;
}

/// Llama's, but for norms behind attention and feed-forward as well as before them.
const std::vector<NamedWeight>& gemma_rows() {
  static const std::vector<NamedWeight> rows = [] {
    std::vector<NamedWeight> changed = llama_rows();
    for (NamedWeight& row : changed) {
      if (row.ours == "norm2.weight")
        row.theirs = {"model.layers.#.pre_feedforward_layernorm.weight"};
    }
    return changed;
  }();
  return rows;
}

/// Llama's, with a router and experts. `gate`, `up` and `down`: an expert's weights.
std::vector<NamedWeight> rows_of_mixture(std::string_view router, std::string_view gate,
                                         std::string_view up, std::string_view down) {
  std::vector<NamedWeight> rows = llama_rows();
  rows.push_back({LayerKind::transformer, "router.weight", {router}, true});
  rows.push_back({LayerKind::transformer, "experts.*.up.weight", {gate, up}, true});
  rows.push_back({LayerKind::transformer, "experts.*.down.weight", {down}, true});
  return rows;
}

const std::vector<NamedWeight>& mixtral_rows() {
  static const std::vector<NamedWeight> rows =
      rows_of_mixture("model.layers.#.block_sparse_moe.gate.weight",
                      "model.layers.#.block_sparse_moe.experts.*.w1.weight",
                      "model.layers.#.block_sparse_moe.experts.*.w3.weight",
                      "model.layers.#.block_sparse_moe.experts.*.w2.weight");
  return rows;
}

const std::vector<NamedWeight>& qwen3_moe_rows() {
  static const std::vector<NamedWeight> rows = rows_of_mixture(
      "model.layers.#.mlp.gate.weight", "model.layers.#.mlp.experts.*.gate_proj.weight",
      "model.layers.#.mlp.experts.*.up_proj.weight",
      "model.layers.#.mlp.experts.*.down_proj.weight");
  return rows;
}

const std::vector<NamedWeight>& neox_rows() {
  static const std::vector<NamedWeight> rows{
      {LayerKind::embedding, "token.weight", {"gpt_neox.embed_in.weight"}},
      {LayerKind::transformer, "norm1.weight", {"gpt_neox.layers.#.input_layernorm.weight"}},
      {LayerKind::transformer, "norm1.bias", {"gpt_neox.layers.#.input_layernorm.bias"}},
      {LayerKind::transformer,
       "attention.qkv.weight",
       {"gpt_neox.layers.#.attention.query_key_value.weight"},
       true,
       true},
      {LayerKind::transformer,
       "attention.qkv.bias",
       {"gpt_neox.layers.#.attention.query_key_value.bias"},
       false,
       true},
      {LayerKind::transformer,
       "attention.output.weight",
       {"gpt_neox.layers.#.attention.dense.weight"},
       true},
      {LayerKind::transformer, "attention.output.bias", {"gpt_neox.layers.#.attention.dense.bias"}},
      {LayerKind::transformer,
       "norm2.weight",
       {"gpt_neox.layers.#.post_attention_layernorm.weight"}},
      {LayerKind::transformer, "norm2.bias", {"gpt_neox.layers.#.post_attention_layernorm.bias"}},
      {LayerKind::transformer,
       "feed_forward.up.weight",
       {"gpt_neox.layers.#.mlp.dense_h_to_4h.weight"},
       true},
      {LayerKind::transformer,
       "feed_forward.up.bias",
       {"gpt_neox.layers.#.mlp.dense_h_to_4h.bias"}},
      {LayerKind::transformer,
       "feed_forward.down.weight",
       {"gpt_neox.layers.#.mlp.dense_4h_to_h.weight"},
       true},
      {LayerKind::transformer,
       "feed_forward.down.bias",
       {"gpt_neox.layers.#.mlp.dense_4h_to_h.bias"}},
      {LayerKind::head, "norm.weight", {"gpt_neox.final_layer_norm.weight"}},
      {LayerKind::head, "norm.bias", {"gpt_neox.final_layer_norm.bias"}},
      {LayerKind::head, "projection.weight", {"embed_out.weight"}},
  };
  return rows;
}

const std::vector<NamedWeight>& opt_rows() {
  static const std::vector<NamedWeight> rows{
      {LayerKind::embedding, "token.weight", {"model.decoder.embed_tokens.weight"}},
      {LayerKind::embedding, "position.weight", {"model.decoder.embed_positions.weight"}},
      {LayerKind::transformer,
       "norm1.weight",
       {"model.decoder.layers.#.self_attn_layer_norm.weight"}},
      {LayerKind::transformer, "norm1.bias", {"model.decoder.layers.#.self_attn_layer_norm.bias"}},
      {LayerKind::transformer,
       "attention.qkv.weight",
       {"model.decoder.layers.#.self_attn.q_proj.weight",
        "model.decoder.layers.#.self_attn.k_proj.weight",
        "model.decoder.layers.#.self_attn.v_proj.weight"},
       true},
      {LayerKind::transformer,
       "attention.qkv.bias",
       {"model.decoder.layers.#.self_attn.q_proj.bias",
        "model.decoder.layers.#.self_attn.k_proj.bias",
        "model.decoder.layers.#.self_attn.v_proj.bias"}},
      {LayerKind::transformer,
       "attention.output.weight",
       {"model.decoder.layers.#.self_attn.out_proj.weight"},
       true},
      {LayerKind::transformer,
       "attention.output.bias",
       {"model.decoder.layers.#.self_attn.out_proj.bias"}},
      {LayerKind::transformer, "norm2.weight", {"model.decoder.layers.#.final_layer_norm.weight"}},
      {LayerKind::transformer, "norm2.bias", {"model.decoder.layers.#.final_layer_norm.bias"}},
      {LayerKind::transformer,
       "feed_forward.up.weight",
       {"model.decoder.layers.#.fc1.weight"},
       true},
      {LayerKind::transformer, "feed_forward.up.bias", {"model.decoder.layers.#.fc1.bias"}},
      {LayerKind::transformer,
       "feed_forward.down.weight",
       {"model.decoder.layers.#.fc2.weight"},
       true},
      {LayerKind::transformer, "feed_forward.down.bias", {"model.decoder.layers.#.fc2.bias"}},
      {LayerKind::head, "norm.weight", {"model.decoder.final_layer_norm.weight"}},
      {LayerKind::head, "norm.bias", {"model.decoder.final_layer_norm.bias"}},
      {LayerKind::head, "projection.weight", {"lm_head.weight"}},
  };
  return rows;
}

bool is_gpt2(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::layer_norm &&
         transformer.activation == Transformer::FeedForward::gelu &&
         transformer.position == Transformer::Position::learned;
}

bool is_neox(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::layer_norm &&
         transformer.activation == Transformer::FeedForward::gelu &&
         transformer.position == Transformer::Position::rotary;
}

bool is_llama(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::rms_norm &&
         transformer.activation == Transformer::FeedForward::swiglu &&
         transformer.position == Transformer::Position::rotary;
}

WeightFamily family_like_llama(const TrainedForm& form, bool has_experts) {
  const std::vector<std::string_view> buffers{".rotary_emb.inv_freq"};
  const bool norms_heads = form.query_key_norm != QueryKeyNorm::none;
  if (has_experts && norms_heads)
    return {"Hugging Face Qwen3-MoE", "model.", buffers, &qwen3_moe_rows()};
  if (has_experts) return {"Hugging Face Mixtral", "model.", buffers, &mixtral_rows()};
  if (form.norms_before && form.norms_behind)
    return {"Hugging Face Gemma 3", "model.", buffers, &gemma_rows()};
  if (form.norms_behind) return {"Hugging Face OLMo 2", "model.", buffers, &llama_rows()};
  return {norms_heads ? "Hugging Face Qwen3" : "Hugging Face Llama", "model.", buffers,
          &llama_rows()};
}

}  // namespace

std::optional<WeightFamily> weight_family_of(const Model& model) {
  if (!model.transformer) return {};
  const auto block = std::ranges::find_if(model.layers, is_block);
  if (block == model.layers.end()) return {};
  const TrainedForm form = trained_form(*model.transformer, *block).value_or(TrainedForm{});
  if (form.relu) return WeightFamily{"Hugging Face OPT", "model.", {}, &opt_rows()};
  if (is_gpt2(*model.transformer)) {
    return WeightFamily{
        "Hugging Face GPT-2", "transformer.", {".attn.bias", ".attn.masked_bias"}, &gpt2_rows()};
  }
  if (is_neox(*model.transformer)) {
    return WeightFamily{"Hugging Face GPT-NeoX",
                        "gpt_neox.",
                        {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
                        &neox_rows()};
  }
  if (!is_llama(*model.transformer)) return {};
  const bool has_experts = std::ranges::any_of(
      model.layers, [](const Layer& each) { return each.kind == LayerKind::expert_transformer; });
  return family_like_llama(form, has_experts);
}

}  // namespace stagecraft
