#include "planner/plan/layer_names.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "planner/plan/transformers_modules.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

/// Other systems' words, besides those of transformers.
constexpr std::array embedding_modules{"embedding", "tok_embeddings", "position_embeddings"};
constexpr std::array block_lists{"layers", "layer", "h", "block", "blocks"};
constexpr std::array head_modules{"output", "ln_out"};

template <std::size_t count>
bool is_among(std::string_view word, const std::array<const char*, count>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<int> layer_of_kind(const Model& model, LayerKind kind) {
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    if (model.layers[layer].kind == kind) return static_cast<int>(layer);
  }
  return {};
}

/// "3" as 3.
std::optional<int> read_index(const std::string& text) {
  constexpr std::size_t most_digits = 7;
  const bool is_number = !text.empty() && text.size() <= most_digits &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return {};
  return std::stoi(text);
}

/// By the last words of a module's path: "h.3" of "transformer.h.3".
std::optional<int> find_module(const Model& model, std::string_view name) {
  const std::vector<std::string> path = split(name, '.');
  if (path.empty()) return {};
  const std::string& last = path.back();
  const bool is_in_block = std::any_of(path.begin(), path.end() - 1, read_index);
  if (!is_in_block && (is_among(last, embedding_modules) || is_embedding_module(last)))
    return layer_of_kind(model, LayerKind::embedding);
  if (!is_in_block && (is_among(last, head_modules) || is_head_module(last)))
    return layer_of_kind(model, LayerKind::head);
  if (path.size() < 2 || !is_among(path[path.size() - 2], block_lists)) return {};
  const std::optional<int> index = read_index(last);
  const LayerRange blocks = transformer_layers(model);
  if (!index || *index >= blocks.size()) return {};
  return blocks.first + *index;
}

ModuleVocabulary vocabulary_of(const Model& model, std::string_view architecture);

ModuleVocabulary vocabulary_of(const Model& model, ModuleNames names) {
  if (names == ModuleNames::torchtitan) return {{"tok_embeddings"}, "layers.", {"norm", "lm_head"}};
  const Transformer& transformer = *model.transformer;
  const bool is_bert = transformer.token_types || !transformer.causal;
  const bool is_neox = transformer.norm == Transformer::Norm::layer_norm &&
                       transformer.activation == Transformer::FeedForward::gelu;
  if (transformer.position == Transformer::Position::rotary && is_neox)
    return vocabulary_of(model, std::string_view("gpt_neox"));
  if (transformer.position == Transformer::Position::rotary && !is_bert) {
    return {{"model.embed_tokens"}, "model.layers.", {"model.norm", "lm_head"}};
  }
  if (transformer.position == Transformer::Position::learned && !is_bert) {
    return {
        {"transformer.wte", "transformer.wpe"}, "transformer.h.", {"transformer.ln_f", "lm_head"}};
  }
  fail("the model \"", model.name,
       "\" is of neither the GPT-2 nor the Llama family, whose modules' names in Hugging Face's "
       "transformers are known here");
}

ModuleVocabulary vocabulary_of(const Model& model, std::string_view architecture) {
  if (architecture.empty()) {
    const auto has_relu = [&](const Layer& layer) {
      const auto form = trained_form(*model.transformer, layer);
      return form && form->relu;
    };
    if (model.transformer && std::any_of(model.layers.begin(), model.layers.end(), has_relu))
      return vocabulary_of(model, std::string_view("opt without project_in project_out"));
    if (model.name.starts_with("bloom")) return vocabulary_of(model, std::string_view("bloom"));
    return vocabulary_of(model, ModuleNames::hugging_face);
  }
  if (auto known = transformers_modules(architecture)) return *std::move(known);
  fail("the names of modules of the architecture \"", architecture, "\" are not known here");
}

std::vector<std::vector<std::string>> modules_by(const Model& model,
                                                 const ModuleVocabulary& words) {
  std::vector<std::vector<std::string>> modules;
  int block = 0;
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::embedding) {
      modules.push_back(words.embedding);
    } else if (layer.kind == LayerKind::head) {
      modules.push_back(words.head);
    } else {
      modules.push_back({words.block + std::to_string(block++)});
    }
  }
  return modules;
}

std::vector<std::vector<std::string>> own_names(const Model& model) {
  std::vector<std::vector<std::string>> modules;
  for (const Layer& layer : model.layers) modules.push_back({layer.name});
  return modules;
}

}  // namespace

LayerRange transformer_layers(const Model& model) {
  const auto is_counted = [](const Layer& layer) {
    return layer.kind != LayerKind::embedding && layer.kind != LayerKind::head;
  };
  const auto first = std::find_if(model.layers.begin(), model.layers.end(), is_counted);
  const auto last = std::find_if(model.layers.rbegin(), model.layers.rend(), is_counted);
  return {static_cast<int>(first - model.layers.begin()),
          static_cast<int>(model.layers.rend() - last)};
}

LayerRange decoder_layers(const Model& model) {
  LayerRange layers = transformer_layers(model);
  const auto is_prediction = [&](int layer) {
    return model.layers[static_cast<std::size_t>(layer)].kind == LayerKind::prediction;
  };
  while (layers.size() > 0 && is_prediction(layers.end - 1)) --layers.end;
  return layers;
}

int find_layer(const Model& model, std::string_view name) {
  std::vector<std::string> known;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    if (model.layers[layer].name == name) return static_cast<int>(layer);
    known.push_back(model.layers[layer].name);
  }
  if (const auto layer = find_module(model, name)) return *layer;
  const std::string guess = closest(name, known);
  fail("the model \"", model.name, "\" has no layer \"", name, "\"; its ", known.size(),
       " layers are ", known.front(), " to ", known.back(),
       guess.empty() ? "" : "; did you mean \"" + guess + "\"?");
}

std::vector<std::vector<std::string>> module_names(const Model& model, ModuleNames names) {
  return model.transformer ? modules_by(model, vocabulary_of(model, names)) : own_names(model);
}

std::vector<std::vector<std::string>> hugging_face_modules(const Model& model,
                                                           std::string_view architecture) {
  if (!model.transformer) return own_names(model);
  if (decoder_layers(model) != transformer_layers(model)) {
    fail("transformers has no modules of multi-token prediction, which the model \"", model.name,
         "\" has");
  }
  return modules_by(model, vocabulary_of(model, architecture));
}

}  // namespace stagecraft
