// The operations of a transformer's layers on one device: matrix products with their shapes,
// attention, operations limited by memory bandwidth, and messages between the devices that divide a
// layer. `kernel_times.hpp` gives their times on a device.

#pragma once

#include <string_view>
#include <vector>

#include "profiles/framework.hpp"
#include "profiles/model.hpp"
#include "profiles/recomputed.hpp"

namespace stagecraft {

/// How a layer is cut over devices, and how it is computed.
struct WorkSetting {
  std::int64_t microbatch = 1;  ///< samples
  std::int64_t sequence = 0;    ///< tokens per sample, before context parallelism divides them
  int tensor_parallel = 1;
  bool sequence_parallel = false;  ///< tensors that are not divided by heads are divided by tokens
  int context_parallel = 1;        ///< divides the tokens of all operations but attention
  int expert_parallel = 1;         ///< divides the experts
  int expert_tensor_parallel = 0;  ///< divides each expert's width; 0: as `tensor_parallel`
  double expert_load = 1;          ///< rows of the busiest device's experts, over the mean
  Precision precision = Precision::bfloat16;
  Framework framework = Framework::megatron;
  Dispatcher dispatcher = Dispatcher::alltoall;
  Float8Recipe float8_recipe = Float8Recipe::delayed;  ///< recipe of fp8 training
  Recomputed recompute = Recomputed::none;
  bool fused_attention = true;  ///< scores are not written to memory (Dao et al. 2022)
  FusedLoss fused_loss = FusedLoss::none;
  RouterFusion router_fusion = RouterFusion::off;
  /// For inference: number of tokens whose logits are computed, only for the choice of the next
  /// token. 0: logits of all tokens, and their loss.
  std::int64_t last_tokens = 0;
  bool dropout = false;         ///< masks are kept, a byte each
  Bytes gradient_bytes = 4;     ///< bytes of an element of summed weight gradients
  bool grouped_experts = true;  ///< one product for all experts of a device, else one for each
  bool operator==(const WorkSetting&) const = default;
};

enum class OperationKind {
  product,  ///< `batch` products (m x k) (k x n)
  /// Scores, softmax and weighted sum in one kernel; `k` is the sequence, `m` the keys that a query
  /// sees at most, `n` the width of a head.
  attention,
  traffic,         ///< limited by memory bandwidth
  all_reduce,      ///< message of `bytes`, over the peers of `group`
  all_gather,      ///< `bytes` is what each has afterwards
  reduce_scatter,  ///< `bytes` is what each has before
  all_to_all,      ///< `bytes` is what each sends, its own part included
  ring_exchange,   ///< keys and values of `bytes` go once around the context-parallel peers
};

enum class Pass { forward, backward_input, backward_weight };

/// The devices that take part in a message.
enum class PeerGroup { tensor, context, expert, expert_tensor };

/// Equal copies of a row, for as many experts, of which one is sent to each place that holds any of
/// those; with one copy all that is sent is.
struct RowCopies {
  double count = 1;
  ExpertGroups groups;  ///< that the experts lie in, spread over places in their order
};
/// Of `places` that hold all experts, those that may hold any of a row's.
double places_in_reach(const RowCopies& copies, double places);

struct Operation {
  std::string_view name;  ///< "query_key_value", "softmax": a literal
  OperationKind kind = OperationKind::traffic;
  Pass pass = Pass::forward;
  double batch = 1, m = 0, n = 0, k = 0;
  double flops = 0;  ///< two for each multiply-add
  double bytes = 0;  ///< read and written, or sent
  PeerGroup group = PeerGroup::tensor;
  RowCopies copies;             ///< precision of the message
  bool core_attention = false;  ///< repeated by selective recomputation
  bool narrow = false;          ///< run in 8 bits by fp8 training: products, attention
  bool flash2 = false;          ///< attention by FlashAttention 2, not the device's best kernel
  bool rebuilds = false;        ///< makes what `Kept::rebuilt` names again
  bool routed = false;          ///< between a router's exchanges: of as many tokens as came
  double launches = 1;          ///< kernels that the host sends for it
  double kernels = 1;           ///< that a launch is, where a library sends several at once
  double parts = 1;             ///< experts, each with such launches for its rows
  /// Of the framework, each of which the host looks after besides: 0 for what is a part of the one
  /// before it, as weights' gradients and the steps of attention are.
  double modules = 1;
};

/// Between queries, keys and values and their weighted sum; keys and values of other devices are
/// asked for there.
inline bool attends(const Operation& operation) {
  return operation.core_attention || operation.kind == OperationKind::ring_exchange;
}

/// A tensor kept from forward to backward, in bytes on this device.
struct Kept {
  std::string_view name;
  Bytes bytes = 0;
  bool core_attention = false;
  /// Cheap to have again in backward: the attention's output and statistics, and of latent
  /// attention what norms and projections up from the latents give (DeepSeek-V3, section 3.2.3).
  bool rebuilt = false;
  bool routed = false;  ///< of as many tokens as came to the experts
};

/// All operations of a layer for one microbatch, forward first, in the order of computation; and
/// the bytes that it saves without recomputation, including its input, without its output.
/// `weights` are the elements on this device, of which `expert_weights` are divided by expert
/// parallelism.
struct LayerOperations {
  std::vector<Operation> operations;
  std::vector<Kept> kept;
  std::int64_t weights = 0;
  std::int64_t expert_weights = 0;
  Bytes input = 0;    ///< bytes that the backward needs under full recomputation
  Bytes working = 0;  ///< the largest tensor that exists only while the layer computes
};

/// Throws Error (input) if a degree does not divide the model evenly.
LayerOperations layer_operations(const Transformer& transformer, LayerKind kind,
                                 const WorkSetting& setting);

/// The operations of a layer of the model, which may be described step by step.
LayerOperations layer_operations(const Transformer& transformer, const Layer& layer,
                                 const WorkSetting& setting);

/// Bytes saved for one microbatch after the forward, under this recomputation.
Bytes kept_bytes(const LayerOperations& layer, Recomputed recompute);

/// "all_to_all" for errors and tables.
std::string_view to_string(OperationKind kind);

}  // namespace stagecraft
