// Modules of a layer that can be recomputed separately, with Megatron-LM's names.

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "profiles/recomputed.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

struct Kept;
struct LayerOperations;
struct Model;
struct Operation;

/// megatron/core/transformer/transformer_config.py, `recompute_modules`.
enum class LayerModule : std::uint8_t {
  core_attention,      ///< "core_attn": from scores to weighted sum
  latent_projections,  ///< "mla_up_proj": up from latents, with rotary positions
  norms,               ///< "layernorm": in front of attention and feed-forward
  feed_forward,        ///< "mlp": of layers without experts
  expert_activation,   ///< "moe_act"
  experts,             ///< "moe": router, dispatch, experts, combine, and shared experts
  shared_experts,      ///< "shared_experts"
};

class LayerModules {
 public:
  void add(LayerModule module) { bits_ |= bit(module); }
  bool has(LayerModule module) const { return (bits_ & bit(module)) != 0; }
  bool empty() const { return bits_ == 0; }
  LayerModules without(const LayerModules& others) const {
    LayerModules left;
    left.bits_ = bits_ & ~others.bits_;
    return left;
  }
  auto operator<=>(const LayerModules&) const = default;

 private:
  static constexpr unsigned bit(LayerModule module) { return 1U << static_cast<unsigned>(module); }
  unsigned bits_ = 0;
};

/// The words that are modules, and the first word that is not.
struct KnownLayerModules {
  LayerModules modules;
  std::string unknown;
};
KnownLayerModules known_layer_modules(std::string_view words);
/// "layernorm moe_act", or between brackets, quotes, commas and plus signs. Throws Error (input)
/// for a word that is none, with all, and where there is no word.
LayerModules read_layer_modules(std::string_view words);
/// "layernorm+moe_act".
std::string to_string(const LayerModules& modules);

/// The modules that some layer of the model has.
LayerModules modules_of(const Model& model);

/// Whether an operation is done again, or a tensor not kept, with these modules of its layer.
bool is_again(const Operation& operation, const LayerOperations& layer,
              const LayerModules& modules);
bool is_again(const Kept& kept, const LayerOperations& layer, const LayerModules& modules);
/// The bytes that `kept_bytes` of operations.hpp says, less those of these modules.
Bytes kept_bytes(const LayerOperations& layer, Recomputed recompute, const LayerModules& modules);

}  // namespace stagecraft
