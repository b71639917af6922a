#include "profiles/layer_modules.hpp"

#include <algorithm>
#include <array>

#include <vector>

#include "profiles/error.hpp"
#include "profiles/model.hpp"
#include "profiles/operations.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

using enum LayerModule;

struct ModuleName {
  LayerModule module;
  std::string_view name;
};
constexpr std::array module_names{ModuleName{core_attention, "core_attn"},
                                  ModuleName{latent_projections, "mla_up_proj"},
                                  ModuleName{norms, "layernorm"},
                                  ModuleName{feed_forward, "mlp"},
                                  ModuleName{expert_activation, "moe_act"},
                                  ModuleName{experts, "moe"},
                                  ModuleName{shared_experts, "shared_experts"}};

template <std::size_t Size>
bool is_among(const std::array<std::string_view, Size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Of a feed-forward, or of shared experts; of experts where they are routed.
constexpr std::array<std::string_view, 5> of_feed_forward{
    "up", "activation", "down", "gather of feed-forward inputs", "sum of feed-forward outputs"};
constexpr std::array<std::string_view, 4> of_router{"router", "choice of experts",
                                                    "shared expert gate", "scores of experts"};
constexpr std::array<std::string_view, 2> of_norms{"first norm", "second norm"};
/// What reads a norm's output keeps it.
constexpr std::array<std::string_view, 6> after_norms{
    "attention input", "feed-forward input", "query", "query key value", "query down", "router"};
constexpr std::array<std::string_view, 3> of_latents{"query up", "key value up",
                                                     "rotary positions"};
constexpr std::array<std::string_view, 3> from_latents{
    "normalised query latents", "normalised key value latents", "queries, keys and values"};
constexpr std::array<std::string_view, 2> activations{"activation", "expert activation"};

bool has_experts(const LayerOperations& layer) {
  return std::ranges::any_of(layer.operations,
                             [](const Operation& operation) { return operation.routed; });
}

bool has_latents(const LayerOperations& layer) {
  return std::ranges::any_of(layer.operations, [](const Operation& operation) {
    return operation.name == "key value up";
  });
}

/// Of a feed-forward's part, or a router's, by name.
bool is_again(std::string_view name, bool routed, const LayerOperations& layer,
              const LayerModules& modules, bool of_ff) {
  const bool mixture = has_experts(layer);
  const bool of_experts = routed || is_among(of_router, name) || (mixture && of_ff);
  if (modules.has(experts) && of_experts) return true;
  if (!of_ff || routed) return false;
  return modules.has(mixture ? shared_experts : feed_forward);
}

}  // namespace

KnownLayerModules known_layer_modules(std::string_view words) {
  std::string plain(words);
  for (const char separator : {'[', ']', '\'', '"', ',', '+', ';'})
    std::ranges::replace(plain, separator, ' ');
  KnownLayerModules known;
  for (const std::string& word : split(plain, ' ')) {
    if (word.empty()) continue;
    const auto found = std::ranges::find(module_names, word, &ModuleName::name);
    if (found != module_names.end()) known.modules.add(found->module);
    if (found == module_names.end() && known.unknown.empty()) known.unknown = word;
  }
  return known;
}

LayerModules read_layer_modules(std::string_view words) {
  const KnownLayerModules known = known_layer_modules(words);
  if (known.unknown.empty() && !known.modules.empty()) return known.modules;
  std::string all;
  for (const ModuleName& row : module_names) all += concat(all.empty() ? "" : ", ", row.name);
  if (known.unknown.empty()) fail("no module of a layer in \"", words, "\"; known: ", all);
  fail("unknown module \"", known.unknown, "\" of a layer; known: ", all);
}

namespace {

/// Of each kind of block the operations of one.
std::vector<LayerOperations> kinds_of_blocks(const Model& model) {
  std::vector<Layer> kinds;
  std::vector<LayerOperations> operations;
  for (const Layer& layer : model.layers) {
    const auto alike = [&](const Layer& other) {
      return other.kind == layer.kind && other.steps == layer.steps;
    };
    if (!is_block(layer) || std::ranges::any_of(kinds, alike)) continue;
    kinds.push_back(layer);
    operations.push_back(layer_operations(*model.transformer, layer, {.sequence = model.sequence}));
  }
  return operations;
}

}  // namespace

LayerModules modules_of(const Model& model) {
  LayerModules all;
  if (!model.transformer) return all;
  for (const LayerOperations& layer : kinds_of_blocks(model)) {
    for (const ModuleName& row : module_names) {
      LayerModules one;
      one.add(row.module);
      const auto is_of_it = [&](const Operation& operation) {
        return is_again(operation, layer, one);
      };
      if (std::ranges::any_of(layer.operations, is_of_it)) all.add(row.module);
    }
  }
  return all;
}

std::string to_string(const LayerModules& modules) {
  std::string text;
  for (const ModuleName& row : module_names)
    if (modules.has(row.module)) text += concat(text.empty() ? "" : "+", row.name);
  return text;
}

bool is_again(const Operation& operation, const LayerOperations& layer,
              const LayerModules& modules) {
  if (modules.empty()) return false;
  const std::string_view name = operation.name;
  if (modules.has(core_attention) && attends(operation)) return true;
  if (modules.has(norms) && is_among(of_norms, name)) return true;
  if (modules.has(latent_projections) && has_latents(layer) && is_among(of_latents, name))
    return true;
  if (modules.has(expert_activation) && operation.routed && is_among(activations, name))
    return true;
  return is_again(name, operation.routed, layer, modules, is_among(of_feed_forward, name));
}

bool is_again(const Kept& kept, const LayerOperations& layer, const LayerModules& modules) {
  if (modules.empty()) return false;
  const std::string_view name = kept.name;
  if (modules.has(core_attention) && kept.core_attention) return true;
  if (modules.has(norms) && is_among(after_norms, name)) return true;
  if (modules.has(latent_projections) && has_latents(layer) && is_among(from_latents, name))
    return true;
  if (modules.has(expert_activation) && kept.routed && name == "activation") return true;
  const bool of_ff = name == "activation input" || name == "activation";
  return is_again(name, kept.routed, layer, modules, of_ff);
}

Bytes kept_bytes(const LayerOperations& layer, Recomputed recompute, const LayerModules& modules) {
  if (recompute == Recomputed::full || recompute == Recomputed::with_next) return layer.input;
  Bytes sum = 0;
  for (const Kept& tensor : layer.kept) {
    if (recompute == Recomputed::selective && tensor.core_attention) continue;
    if (is_again(tensor, layer, modules)) continue;
    sum += tensor.bytes;
  }
  return sum;
}

}  // namespace stagecraft
