// A model: a directed acyclic graph of layers, listed in an order that training can follow.
//
// A layer is the smallest thing a stage boundary can stand before: an embedding, one transformer
// block, the head with its loss, a convolution. Embedding and head are ordinary layers, so nothing
// else ever counts "layers plus two".

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/steps.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

/// The kind of a layer. Only cost estimates and the executor use it, not the planner or the
/// simulator.
enum class LayerKind {
  embedding,    ///< token (and learned position) embedding
  transformer,  ///< one pre- or post-norm transformer block: attention and feed-forward with their
                ///< norms
  expert_transformer,  ///< a block whose feed-forward is a choice of experts (`Experts`)
  prediction,  ///< multi-token prediction: two norms, a projection of two states, one such block
  head,        ///< final norm (if any), vocabulary projection and loss
  convolution,
  dense,
  pool,
  activation,
  normalization,
  opaque,  ///< known only by its measured costs (imported profiles)
};
std::string_view to_string(LayerKind kind);
/// Throws Error (input) for an unknown name, with a suggestion.
LayerKind read_layer_kind(std::string_view name);

enum class Precision {
  float64,
  float32,
  bfloat16,
  float16,
  float8,  ///< products of weights in 8 bits; all else, and what is kept, in bf16 (DeepSeek-V3,
           ///< section 3.3)
  float8_with_attention,  ///< fp8, also for attention's products (Shah et al. 2024, section 3.3)
};
/// "fp64", "fp32", "bf16", "fp16", "fp8", "fp8+attention"
std::string_view to_string(Precision precision);
Precision read_precision(std::string_view name);
/// Whether products of weights are in 8 bits.
constexpr bool is_float8(Precision precision) {
  return precision == Precision::float8 || precision == Precision::float8_with_attention;
}
/// Bytes of a stored element.
Bytes element_bytes(Precision precision);

/// Experts lie in `count` equal groups, of which a router chooses `active` first and a token's
/// experts among theirs (DeepSeek-V2, section 2.2.2; DeepSeek-V3, section 2.1.2): where devices
/// hold experts in their order, a token is for no more devices than hold those groups. One: no
/// choice.
struct ExpertGroups {
  std::int64_t count = 1;
  std::int64_t active = 1;
  bool operator==(const ExpertGroups&) const = default;
};

/// A feed-forward of many experts: a router sends each token through a few (Fedus et al. 2021), and
/// all through the shared ones (Dai et al. 2024, DeepSeekMoE).
struct Experts {
  std::int64_t count = 0;                ///< to choose from
  std::int64_t active = 0;               ///< chosen for each token
  std::int64_t feed_forward = 0;         ///< inner width of one expert
  std::int64_t shared_feed_forward = 0;  ///< inner width of all shared experts together; may be 0
  std::int64_t dense_blocks = 0;         ///< the first blocks, which have none
  /// One number per expert balances the router (DeepSeek-V3): a buffer that a rule moves and no
  /// gradient, so no parameter.
  bool score_bias = false;
  /// A token's shares of the experts that it passes are their probabilities divided by their sum,
  /// not the probabilities themselves.
  bool shares_add_up = true;
  ExpertGroups groups;
  bool operator==(const Experts&) const = default;
};

/// Properties that change a transformer's results, but neither its parameters nor its costs.
struct Arithmetic {
  enum class Activation {
    usual,       ///< GELU in its tanh form; of a gate, SiLU
    exact_gelu,  ///< by the error function (GPT-NeoX)
    tanh_gelu,   ///< of a gate, too (Gemma)
  };
  Activation activation = Activation::usual;
  bool parallel_residual = false;  ///< attention and feed-forward are both of the block's input
  std::int64_t rotary_width = 0;   ///< of a head's numbers, the first ones, are turned; 0: all
  double window_rotary_base = 0;   ///< where attention sees a window only; 0: `rotary_base`
  double rotary_factor = 1;        ///< positions are divided by it, but for windows
  bool norms_from_one = false;     ///< RMSNorms multiply by 1 + weight (Gemma)
  double embedding_scale = 1;      ///< of words' rows
  double score_width = 0;          ///< scores are divided by its root; 0: the head width
  bool operator==(const Arithmetic&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2, 2024): queries, keys and values are projected up from
/// narrow latents; a part of each key and query carries the position.
struct LatentAttention {
  std::int64_t query_rank = 0;      ///< 0: queries are projected from the hidden state
  std::int64_t key_value_rank = 0;  ///< of the latent that keys and values share
  std::int64_t rotary_width = 0;    ///< of a head's part with the position; one key for all heads
  std::int64_t plain_width = 0;     ///< of a head's part without
  std::int64_t value_width = 0;
  bool operator==(const LatentAttention&) const = default;
};

/// A vision transformer reads an image as patches (Dosovitskiy et al. 2020) and names its class.
struct Patches {
  std::int64_t image = 0;  ///< pixels a side
  std::int64_t patch = 0;  ///< pixels a side
  std::int64_t channels = 3;
  std::int64_t classes = 0;
  bool operator==(const Patches&) const = default;
};

/// How Llama 3.1 and later turn heads more slowly for longer contexts (Hugging Face's rope_type
/// "llama3"): a pair of numbers that turns once in more than `positions` / `low_frequency` tokens
/// turns `factor` times slower, one that does in fewer than `positions` / `high_frequency` as
/// before, and between them the change fades out.
struct RotaryScaling {
  double factor = 8.0;
  double low_frequency = 1.0;
  double high_frequency = 4.0;
  std::int64_t positions = 8192;  ///< of the pre-training before
  bool operator==(const RotaryScaling&) const = default;
};

/// Numbers of one transformer; the same for all of its blocks.
struct Transformer {
  enum class Norm { layer_norm, rms_norm };
  enum class FeedForward { gelu, swiglu };
  enum class Position { learned, rotary, none };

  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;  ///< < heads for grouped-query attention
  std::int64_t head_width = 0;       ///< usually hidden / heads
  std::int64_t feed_forward = 0;     ///< inner width
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  ///< longest sequence; size of a learned position table
  Norm norm = Norm::layer_norm;
  FeedForward activation = FeedForward::gelu;
  Position position = Position::learned;
  bool attention_bias = true;     ///< biases of the query, key and value projections
  bool output_bias = true;        ///< bias of the attention output projection
  bool feed_forward_bias = true;  ///< biases of the feed-forward projections
  bool tied_head = true;          ///< the head's projection is the token embedding
  bool causal = true;
  bool token_types =
      false;  ///< BERT: segment embedding, embedding norm, pooler and MLM transform in the head
  bool embedding_norm = false;  ///< BLOOM: a norm behind the embedding
  double norm_epsilon = 1e-5;
  double rotary_base = 10000.0;
  std::optional<Experts> experts;         ///< in all blocks but the first `dense_blocks`
  std::optional<LatentAttention> latent;  ///< then `head_width` is the keys' whole width
  std::int64_t prediction_modules = 0;  ///< multi-token prediction (DeepSeek-V3), after the blocks
  std::optional<Patches> patches;       ///< instead of tokens; `vocabulary` and `positions` follow
  std::optional<RotaryScaling> rotary_scaling;
  /// Number of hidden states per token that blocks pass on (hyper-connections, Zhu et al. 2024;
  /// alternating updates, Baykal et al. 2023).
  std::int64_t streams = 1;
  Arithmetic arithmetic;
  /// Another property that changes its results but no cost, so that it can be planned but not
  /// trained: "its activation is relu". Empty if there is none.
  std::string untrainable;
  bool operator==(const Transformer&) const = default;
};

/// The tensor between the layers of a convolutional network: channels x size x size numbers.
struct Image {
  std::int64_t channels = 0;
  std::int64_t size = 0;
  std::int64_t elements() const { return channels * size * size; }
  bool operator==(const Image&) const = default;
};

/// The numbers of a convolution, a maximum pool or a dense layer. Kernels are squares; a
/// convolution has zeros around its image, so that it keeps the size.
struct ImageLayer {
  Image input;
  Image output;             ///< output; of a dense layer, its width as channels, with size 1
  std::int64_t kernel = 1;  ///< kernel size; of a pool, also its stride
  bool relu = false;        ///< max(0, x) of its output
  bool operator==(const ImageLayer&) const = default;
};

struct Layer {
  std::string name;  ///< unique in the model: "embedding", "block.3", "head", "conv1_2"
  LayerKind kind = LayerKind::opaque;
  /// Trainable parameters that live here; a tied weight counts at its owner only (see Tie).
  std::int64_t parameters = 0;
  /// Multiply-adds count as two. For one sample: a whole sequence for transformers (at
  /// `Model::sequence`), an image for CNNs.
  double flops_forward = 0;
  /// Elements handed to later layers for one sample (`Model::sequence` x hidden, or channels x
  /// height x width).
  std::int64_t output_elements = 0;
  /// Present when the executor can train the layer of a convolutional network.
  std::optional<ImageLayer> image;
  /// For a transformer's layer that differs from `Model::transformer`: its steps, in the order of
  /// computation. Parameters and costs are then sums over these.
  std::vector<Step> steps;
  bool operator==(const Layer&) const = default;
};

/// Whether it is a transformer's block, with experts or without.
inline bool is_block(const Layer& layer) {
  return layer.kind == LayerKind::transformer || layer.kind == LayerKind::expert_transformer;
}

/// Layer `to` reads the output of layer `from`; from < to.
struct Edge {
  int from = 0;
  int to = 0;
  bool operator==(const Edge&) const = default;
};

/// `user` works with a copy of `parameters` weights that `owner` holds (tied embeddings).
struct Tie {
  int owner = 0;
  int user = 0;
  std::int64_t parameters = 0;
  bool operator==(const Tie&) const = default;
};

/// Layers in a topological order of their edges. Every cut of the list gives two parts without
/// backward edges, so stages are contiguous ranges [first, end); tensors of branches cross the cut
/// (see `crossing`).
struct Model {
  std::string name;
  std::int64_t sequence =
      0;  ///< tokens per sample the figures above hold for; 0 where samples are not sequences
  std::vector<Layer> layers;
  std::vector<Edge> edges;
  std::vector<Tie> ties;
  std::optional<Transformer>
      transformer;  ///< present when our executor and estimates know the architecture
  bool operator==(const Model&) const = default;
};

/// Throws Error (input) unless names are unique, every edge goes forward, the graph is connected,
/// and ties make sense.
void validate(const Model& model);

/// Trainable parameters, tied weights once.
std::int64_t parameters(const Model& model);

/// Whether any of its blocks chooses experts.
bool has_experts(const Model& model);

/// The layers before `cut` whose output a layer at or after `cut` reads: the antichain of tensors
/// that crosses it, ascending. Each tensor crosses once, however many layers read it. `cut` in [1,
/// layers).
std::vector<int> crossing(const Model& model, int cut);

/// Reorders layers (stably: the order stays where the edges allow it) so that all edges go forward,
/// by Boost.Graph. Throws Error (input) naming the layers of a cycle.
Model in_topological_order(Model model);

/// A transformer model with embedding, `blocks` blocks and head; parameter counts exact, FLOPs for
/// `sequence` tokens.
Model make_transformer(std::string name, const Transformer& transformer, int blocks,
                       std::int64_t sequence);

/// A model whose layers have steps: parameters, operations and outputs are set for `sequence`
/// tokens. Names, kinds, steps, edges (or none for a chain) and ties are the caller's;
/// `transformer` has the numbers that hold for all layers. Throws Error (input) if figures are out
/// of range.
Model make_stepped(Model model, std::int64_t sequence);

/// Whether `Model::transformer` alone does not describe its layers.
bool has_steps(const Model& model);

/// The modules for multi-token prediction, which the model can be used without.
std::int64_t prediction_parameters(const Model& model);

/// The model at another sequence length: FLOPs and output sizes recomputed. Throws Error (input) if
/// it is not a transformer, or if a learned position table is too short.
Model with_sequence(const Model& model, std::int64_t sequence);

/// Built-in models by name: gpt2-124m … gpt2-1558m, gpt3-175b, llama2-7b …, bert-large, vgg16,
/// vgg-small, resnet50, and tiny ones.
std::vector<std::string> builtin_models();
/// Throws Error (usage) with suggestions for an unknown name.
Model builtin_model(std::string_view name);

// stagecraft-model/1; the annotated example opens model_json.cpp.
Model read_model(const class Json& json);
std::string write_model(const Model& model);

}  // namespace stagecraft
