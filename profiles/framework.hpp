// How a model's layers are executed: the framework's kernels, the dispatch of tokens to experts,
// and the launching by the host.

#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include "profiles/layer_modules.hpp"

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

/// Dispatchers of tokens to their experts and back.
enum class Dispatcher {
  alltoall,  ///< NCCL: a copy of a token for each of its experts
  deepep,    ///< one for each device that has any of them (DeepSeek-V3, section 3.2.2; DeepEP)
  hybridep,  ///< as deepep (its branch hybrid-ep), also within racks of NVLink
};

/// "alltoall", "deepep" or "hybridep".
std::string_view to_string(Dispatcher dispatcher);
/// By its name; "flex" is Megatron-LM's for either of the last two. Throws Error (input).
Dispatcher read_dispatcher(std::string_view name);
/// Whether a device receives a token once, whichever of its experts are there.
bool sends_once(Dispatcher dispatcher);

/// How numbers of 8 bits get their scale (Transformer Engine's recipes, by Megatron-LM's names).
enum class Float8Recipe {
  delayed,     ///< a tensor by what was largest in it in steps before (Micikevicius et al. 2022)
  tensorwise,  ///< a tensor by what is largest in it now, which is looked for first
  blockwise,   ///< 128 numbers, of weights 128 x 128 (DeepSeek-V3, section 3.3.2)
  mxfp8,       ///< 32 numbers by a power of two (OCP Microscaling Formats 1.0); from Blackwell on
};

/// "delayed", "tensorwise", "blockwise" or "mxfp8".
std::string_view to_string(Float8Recipe recipe);
/// Throws Error (input).
Float8Recipe read_float8_recipe(std::string_view name);

/// Kernels that the host launches together, as a graph (CUDA C++ Programming Guide, section 4.2):
/// those of a layer, but what the choice of experts sizes (Megatron-LM's scope "attn moe_router
/// moe_preprocess"), or of a whole step. What is a part of a graph takes no time of the host's.
enum class CudaGraphs { none, layers, step };

/// "none", "layers" or "step".
std::string_view to_string(CudaGraphs graphs);
/// Throws Error (input).
CudaGraphs read_cuda_graphs(std::string_view name);

/// The kernel of the loss (Megatron-LM's --cross-entropy-fusion-impl).
enum class FusedLoss {
  none,    ///< PyTorch's operations one by one, in fp32
  native,  ///< the operations compiled, as far as messages between them allow
           ///< (fused_cross_entropy.py)
  te,      ///< Transformer Engine's, in one pass and in training's precision
};

/// "none", "native" or "te".
std::string_view to_string(FusedLoss loss);
/// Throws Error (input).
FusedLoss read_fused_loss(std::string_view name);

/// Whether Transformer Engine's kernels choose experts, one each for the choice, the scores of the
/// balancing loss and the loss (Megatron-LM's --moe-router-fusion), or PyTorch's one by one.
enum class RouterFusion { off, on };

/// "off" or "on".
std::string_view to_string(RouterFusion fusion);
/// Throws Error (input).
RouterFusion read_router_fusion(std::string_view name);

/// Messages of a layer that run beside its kernels.
struct MessageOverlap {
  bool tensor = false;   ///< messages of tensor-parallel peers overlap with matrix products
                         ///< (--tp-comm-overlap)
  bool experts = false;  ///< messages of experts' peers overlap with another microbatch's work
                         ///< (--overlap-moe-expert-parallel-comm)
  bool empty() const { return !tensor && !experts; }
  auto operator<=>(const MessageOverlap&) const = default;
};

/// "none", "tensor", "experts" or "tensor+experts".
std::string_view to_string(const MessageOverlap& overlap);
/// Throws Error (input).
MessageOverlap read_message_overlap(std::string_view name);

/// How layers with estimated costs run; it has no effect on measured costs.
struct LayerKernels {
  Framework framework = Framework::megatron;
  Dispatcher dispatcher = Dispatcher::alltoall;
  CudaGraphs graphs = CudaGraphs::none;
  std::optional<Float8Recipe> float8_recipe;  ///< none: what is usual on each device
  FusedLoss fused_loss = FusedLoss::none;
  RouterFusion router_fusion = RouterFusion::off;
  MessageOverlap overlap;
  LayerModules again;  ///< by selective recomputation; empty: attention (see `SelectiveCost`)
  auto operator<=>(const LayerKernels&) const = default;
};

}  // namespace stagecraft
