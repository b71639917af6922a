// What runs a model's layers, which decides the kernels of what is not a matrix product.

#pragma once

#include <string_view>

namespace stagecraft {

enum class Framework {
  megatron,  ///< Megatron-LM, NeMo, Megatron Bridge: over Transformer Engine, own loss
  torch,     ///< PyTorch's modules and loss: FSDP, torchtitan, DeepSpeed, llm-foundry
};

/// "megatron" or "torch".
std::string_view to_string(Framework framework);

/// By either name, or by that of a framework that uses the same kernels: "nemo", "fsdp",
/// "torchtitan" and others. Throws Error (input) with all of them.
Framework read_framework(std::string_view name);

}  // namespace stagecraft
