// Collects a layer's operations: each call adds a forward operation with what backward makes of it.

#pragma once

#include "profiles/operations.hpp"

namespace stagecraft {

/// The numbers of a layer's work on one device.
struct DeviceShare {
  DeviceShare(const Transformer& transformer, const WorkSetting& setting);

  const Transformer& transformer;
  const WorkSetting& setting;
  double tokens = 0;         ///< tokens of the microbatch on this device
  double spread_tokens = 0;  ///< where sequence parallelism divides them, too
  double hidden = 0;
  double heads = 0;            ///< queries' heads here
  double key_value_heads = 0;  ///< at least one: peers without a head of their own hold a copy
  double element = 2;          ///< bytes
  int expert_tensor = 1;
};

class LayerBuilder {
 public:
  explicit LayerBuilder(const DeviceShare& share) : share_(share) {}

  /// y = x W: three products, and the weight's gradient added to its sum. `tokens` rows.
  void linear(std::string_view name, double tokens, double outputs, double inputs);
  /// One that stays in 16 bits where others are in fp8: embedding, head, router (DeepSeek-V3,
  /// section 3.3.1).
  void wide_linear(std::string_view name, double tokens, double outputs, double inputs);
  /// Adds the product for `count` experts, each with its share of `tokens`.
  void grouped_linear(std::string_view name, double count, double tokens, double outputs,
                      double inputs);
  /// An operation without weights, limited by memory: bytes moved in each direction.
  void traffic(std::string_view name, double forward_bytes, double backward_bytes,
               bool core_attention = false);
  /// Two products of activations, as in attention that writes its scores.
  void activation_product(std::string_view name, double batch, double m, double n, double k);
  void add(const Operation& operation) {
    layer_.operations.push_back(operation);
    layer_.operations.back().routed = routed_;
  }
  /// What is added from here on is, or is no more, of as many tokens as came.
  void routed(bool are) { routed_ = are; }
  /// A message in forward, and what answers it in backward (an all-gather a reduce-scatter).
  void message(std::string_view name, OperationKind forward, OperationKind backward,
               PeerGroup group, double bytes);
  /// The same with other bytes in backward; see `Operation::copies`.
  void message(std::string_view name, OperationKind forward, OperationKind backward,
               PeerGroup group, double forward_bytes, double backward_bytes,
               const RowCopies& copies = {});
  void keep(std::string_view name, double bytes, bool core_attention = false);
  /// Adds a saved tensor that is cheap to recompute.
  void keep_or_rebuild(std::string_view name, double bytes);
  /// The operations added since number `operations` recompute it.
  void rebuilds_since(std::size_t operations);
  /// Makes the operations added since number `operations` one module of the framework, in forward
  /// and backward.
  void one_module_since(std::size_t operations);
  /// Repeats the operations added since number `operations` `times` times, as separate modules.
  void repeated_since(std::size_t operations, double times);
  /// Sets the number of kernels of the operations added since number `operations`, in forward and
  /// backward.
  void kernels_since(std::size_t operations, double forward, double backward);
  /// Sets the number of kernels for each of several experts.
  void parts_since(std::size_t operations, double experts, double forward, double backward);
  std::size_t operations() const { return layer_.operations.size(); }
  void weights(double elements, bool of_experts = false);
  /// All of the layer's elements, where they are no sum over its products.
  void set_weights(double elements) { layer_.weights = static_cast<std::int64_t>(elements); }
  void working(double bytes);
  void input(double bytes) { layer_.input = static_cast<Bytes>(bytes); }

  const DeviceShare& share() const { return share_; }
  LayerOperations take() { return std::move(layer_); }

 private:
  void products(std::string_view name, double count, double tokens, double outputs, double inputs,
                bool narrow);
  void cast(std::string_view name, Pass pass, double elements);
  void cast_of_experts(std::string_view name, Pass pass, double elements, double experts);
  bool has_grouped_layers() const;

  const DeviceShare& share_;
  LayerOperations layer_;
  bool routed_ = false;
};

/// Scores, softmax and weighted sum of the heads on one device.
struct AttentionCore {
  double score = 0;  ///< width of one head's queries and keys
  double value = 0;  ///< and of its values
  double heads = 0;
  double key_value_heads = 0;
  double window = 0;  ///< keys that a token sees at most; 0: all
  double stride = 1;  ///< tokens of which one key is made
  bool causal = true;
  bool rebuilt = false;  ///< its result is cheap to have again: its inputs are kept
};
void add_attention_core(LayerBuilder& layer, const AttentionCore& core);

void add_attention(LayerBuilder& layer);
void add_latent_attention(LayerBuilder& layer);
/// A feed-forward of this inner width (whole, before it is divided).
void add_dense_feed_forward(LayerBuilder& layer, std::int64_t inner);
void add_experts(LayerBuilder& layer);

/// Rows of the experts on one device: each of the peers' tokens goes to `active` of them; with even
/// routing a device computes as many rows as it sends, and the busiest one `expert_load` times as
/// many.
struct RoutedRows {
  double sent = 0;      ///< of this device's tokens
  double computed = 0;  ///< by its experts, each with a part of its width
};
RoutedRows routed_rows(const DeviceShare& share, double active);
/// Of the device's experts, those that get any of so many rows, where every choice is as likely as
/// another: all, unless a few tokens meet many experts (a step of inference).
double experts_met(const DeviceShare& share, double experts, double active, double rows);
/// Scores of `count` experts, and the choice of the best.
void add_choice(LayerBuilder& layer, double count);
/// Rows of `width` to the experts and back.
void add_dispatch(LayerBuilder& layer, const RowCopies& copies, double width);
void add_combine(LayerBuilder& layer, const RowCopies& copies, double width);

/// `rows` x `outputs` logits, divided over the peers, and their loss; where a model answers, those
/// of last tokens and the choice among them.
void add_logits_and_loss(LayerBuilder& layer, double rows, std::int64_t outputs);

/// Adds the messages of tensor-parallel peers before a layer's first product and after its last.
void gather_tokens(LayerBuilder& layer, std::string_view name);
/// Adds these messages for rows of `width` elements.
void gather_rows(LayerBuilder& layer, std::string_view name, double width);
void sum_tokens(LayerBuilder& layer, std::string_view name);
/// A norm over the hidden width: keeps its input.
void add_norm(LayerBuilder& layer, std::string_view name);

}  // namespace stagecraft
