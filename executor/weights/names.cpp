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
/// block's number.
struct Row {
  LayerKind kind;
  std::string_view ours;
  std::vector<std::string_view> theirs;
  bool transposed = false;
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

bool is_opt(const Model& model) {
  const auto block = std::ranges::find(model.layers, LayerKind::transformer, &Layer::kind);
  const auto form =
      block == model.layers.end() ? std::nullopt : trained_form(*model.transformer, *block);
  return form && form->relu;
}

bool is_gpt2(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::layer_norm &&
         transformer.activation == Transformer::FeedForward::gelu &&
         transformer.position == Transformer::Position::learned;
}

bool is_llama(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::rms_norm &&
         transformer.activation == Transformer::FeedForward::swiglu &&
         transformer.position == Transformer::Position::rotary;
}

std::string_view family_like_llama(const Model& model) {
  const auto block = std::ranges::find(model.layers, LayerKind::transformer, &Layer::kind);
  const auto form =
      block == model.layers.end() ? std::nullopt : trained_form(*model.transformer, *block);
  if (!form) return "Hugging Face Llama";
  return form->norms_behind ? "Hugging Face OLMo 2" : "Hugging Face Qwen3";
}

/// How many of a layer's columns each of its parts has.
std::vector<std::int64_t> part_widths(const Transformer& transformer, std::string_view ours,
                                      std::size_t parts, std::int64_t columns) {
  if (parts == 1) return {columns};
  if (ours.starts_with("feed_forward")) return {columns / 2, columns / 2};
  const std::int64_t key_value = transformer.key_value_heads * transformer.head_width;
  return {transformer.heads * transformer.head_width, key_value, key_value};
}

std::string numbered(std::string_view name, int block) {
  const auto place = name.find('#');
  if (place == std::string_view::npos) return std::string(name);
  return concat(name.substr(0, place), block, name.substr(place + 1));
}

class Namer {
 public:
  explicit Namer(const Model& model) : model_(model) {
    if (model.transformer && is_opt(model)) {
      naming_ = {.family = "Hugging Face OPT", .prefix = "model.", .buffers = {}, .weights = {}};
      rows_ = &opt_rows();
    } else if (model.transformer && is_gpt2(*model.transformer)) {
      naming_ = {.family = "Hugging Face GPT-2",
                 .prefix = "transformer.",
                 .buffers = {".attn.bias", ".attn.masked_bias"},
                 .weights = {}};
      rows_ = &gpt2_rows();
    } else if (model.transformer && is_llama(*model.transformer)) {
      naming_ = {.family = family_like_llama(model),
                 .prefix = "model.",
                 .buffers = {".rotary_emb.inv_freq"},
                 .weights = {}};
      rows_ = &llama_rows();
    } else {
      naming_.family = model.transformer ? "Stagecraft" : "torchvision VGG";
    }
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
    const auto row = std::ranges::find_if(
        *rows_, [&](const Row& r) { return r.kind == layer.kind && r.ours == ours; });
    if (row == rows_->end()) fail(naming_.family, " has no name for ", spec.name);
    const auto widths = part_widths(*model_.transformer, ours, row->theirs.size(), columns);
    std::vector<WeightPart> parts;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      parts.push_back({.name = numbered(row->theirs[i], blocks_),
                       .first = first,
                       .end = first + widths[i],
                       .transposed = row->transposed});
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
    if (layer.kind == LayerKind::transformer) ++blocks_;
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
