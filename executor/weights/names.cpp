#include "executor/weights/names.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "executor/layers/layers.hpp"
#include "profiles/error.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

/// A weight within its layer, and what it is made of elsewhere. In `theirs`, "#" stands for the
/// block's number; in both, "*" for an expert's. Blocks with experts have rows of blocks.
struct Row {
  LayerKind kind;
  std::string_view ours;
  std::vector<std::string_view> theirs;
  bool transposed = false;
  bool interleaved = false;  ///< head by head: its queries, keys and values
};

// GPT-2's linear layers are [inputs, outputs], like ours.
const std::vector<Row>& gpt2_rows() {
  static const std::vector<Row> rows{
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

const std::vector<Row>& llama_rows() {
  static const std::vector<Row> rows{
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
const std::vector<Row>& gemma_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> changed = llama_rows();
    for (Row& row : changed) {
      if (row.ours == "norm2.weight")
        row.theirs = {"model.layers.#.pre_feedforward_layernorm.weight"};
    }
    return changed;
  }();
  return rows;
}

/// Llama's, with a router and experts. `gate`, `up` and `down`: an expert's weights.
std::vector<Row> rows_of_mixture(std::string_view router, std::string_view gate,
                                 std::string_view up, std::string_view down) {
  std::vector<Row> rows = llama_rows();
  rows.push_back({LayerKind::transformer, "router.weight", {router}, true});
  rows.push_back({LayerKind::transformer, "experts.*.up.weight", {gate, up}, true});
  rows.push_back({LayerKind::transformer, "experts.*.down.weight", {down}, true});
  return rows;
}

const std::vector<Row>& mixtral_rows() {
  static const std::vector<Row> rows =
      rows_of_mixture("model.layers.#.block_sparse_moe.gate.weight",
                      "model.layers.#.block_sparse_moe.experts.*.w1.weight",
                      "model.layers.#.block_sparse_moe.experts.*.w3.weight",
                      "model.layers.#.block_sparse_moe.experts.*.w2.weight");
  return rows;
}

const std::vector<Row>& qwen3_moe_rows() {
  static const std::vector<Row> rows = rows_of_mixture(
      "model.layers.#.mlp.gate.weight", "model.layers.#.mlp.experts.*.gate_proj.weight",
      "model.layers.#.mlp.experts.*.up_proj.weight",
      "model.layers.#.mlp.experts.*.down_proj.weight");
  return rows;
}

const std::vector<Row>& neox_rows() {
  static const std::vector<Row> rows{
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

const std::vector<Row>& opt_rows() {
  static const std::vector<Row> rows{
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

/// How a family calls its weights, and the prefix that its models have without a head.
struct Family {
  std::string_view name;
  std::string_view prefix;
  std::vector<std::string_view> buffers;
  const std::vector<Row>* rows = nullptr;
};

Family family_like_llama(const TrainedForm& form, bool has_experts) {
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

std::optional<Family> family_of(const Model& model) {
  if (!model.transformer) return {};
  const auto block = std::ranges::find_if(model.layers, is_block);
  if (block == model.layers.end()) return {};
  const TrainedForm form = trained_form(*model.transformer, *block).value_or(TrainedForm{});
  if (form.relu) return Family{"Hugging Face OPT", "model.", {}, &opt_rows()};
  if (is_gpt2(*model.transformer)) {
    return Family{
        "Hugging Face GPT-2", "transformer.", {".attn.bias", ".attn.masked_bias"}, &gpt2_rows()};
  }
  if (is_neox(*model.transformer)) {
    return Family{"Hugging Face GPT-NeoX",
                  "gpt_neox.",
                  {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
                  &neox_rows()};
  }
  if (!is_llama(*model.transformer)) return {};
  const bool has_experts = std::ranges::any_of(
      model.layers, [](const Layer& each) { return each.kind == LayerKind::expert_transformer; });
  return family_like_llama(form, has_experts);
}

/// How many of a layer's columns each of its parts has.
std::vector<std::int64_t> part_widths(const Transformer& transformer, std::string_view ours,
                                      std::size_t parts, std::int64_t columns) {
  if (parts == 1) return {columns};
  if (ours.starts_with("feed_forward") || ours.starts_with("experts"))
    return {columns / 2, columns / 2};
  const std::int64_t key_value = transformer.key_value_heads * transformer.head_width;
  return {transformer.heads * transformer.head_width, key_value, key_value};
}

/// With a number in the place of a sign, if it is there.
std::string numbered(std::string_view name, char sign, std::string_view number) {
  const auto place = name.find(sign);
  if (place == std::string_view::npos) return std::string(name);
  return concat(name.substr(0, place), number, name.substr(place + 1));
}

/// The number of "experts.7.up.weight"; "" of other weights.
std::string_view expert_of(std::string_view ours) {
  constexpr std::string_view start = "experts.";
  if (!ours.starts_with(start)) return {};
  ours.remove_prefix(start.size());
  return ours.substr(0, ours.find('.'));
}

class Namer {
 public:
  explicit Namer(const Model& model) : model_(model) {
    const auto family = family_of(model);
    if (!family) {
      naming_.family = model.transformer ? "Stagecraft" : "torchvision VGG";
      return;
    }
    naming_ = {.family = family->name,
               .prefix = family->prefix,
               .buffers = family->buffers,
               .weights = {}};
    rows_ = family->rows;
  }

  WeightNaming take() {
    std::set<std::string> named;
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      const Layer& layer = model_.layers[i];
      for (const ParameterSpec& spec : make_layer(model_, static_cast<int>(i))->parameters()) {
        if (!named.insert(spec.name).second) continue;
        naming_.weights.push_back({.spec = spec, .parts = parts_of(layer, spec)});
      }
      count(layer);
    }
    return std::move(naming_);
  }

 private:
  std::vector<WeightPart> parts_of(const Layer& layer, const ParameterSpec& spec) const {
    const std::int64_t columns = spec.shape.back();
    const std::string ours = spec.name.substr(layer.name.size() + 1);
    if (layer.image) return {image_part(layer, ours, columns)};
    if (rows_ == nullptr) return {{.name = spec.name, .first = 0, .end = columns}};
    const LayerKind kind = is_block(layer) ? LayerKind::transformer : layer.kind;
    const std::string_view expert = expert_of(ours);
    const auto row = std::ranges::find_if(*rows_, [&](const Row& r) {
      return r.kind == kind && numbered(r.ours, '*', expert) == ours;
    });
    if (row == rows_->end()) fail(naming_.family, " has no name for ", spec.name);
    const auto widths = part_widths(*model_.transformer, ours, row->theirs.size(), columns);
    std::vector<WeightPart> parts;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string name = numbered(row->theirs[i], '#', std::to_string(blocks_));
      parts.push_back({.name = numbered(name, '*', expert),
                       .first = first,
                       .end = first + widths[i],
                       .transposed = row->transposed,
                       .heads = row->interleaved ? model_.transformer->heads : 0});
      first += widths[i];
    }
    return parts;
  }

  /// In "features" each ReLU and pool has a number, in "classifier" each ReLU and dropout.
  WeightPart image_part(const Layer& layer, const std::string& ours, std::int64_t columns) const {
    const bool dense = layer.kind == LayerKind::dense;
    return {.name = dense ? concat("classifier.", 3 * dense_layers_, ".", ours)
                          : concat("features.", features_, ".", ours),
            .first = 0,
            .end = columns,
            .transposed = dense && ours == "weight"};
  }

  void count(const Layer& layer) {
    if (is_block(layer)) ++blocks_;
    if (layer.kind == LayerKind::dense) ++dense_layers_;
    if (layer.image) features_ += layer.image->relu ? 2 : 1;
  }

  const Model& model_;
  WeightNaming naming_;
  const std::vector<Row>* rows_ = nullptr;
  int blocks_ = 0;
  int features_ = 0;
  int dense_layers_ = 0;
};

}  // namespace

WeightNaming weight_naming(const Model& model) {
  return Namer(model).take();
}

}  // namespace stagecraft
