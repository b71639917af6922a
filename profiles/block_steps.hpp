// The building blocks of model families, as steps: attention, feed-forward layers, experts,
// recurrences and norms. Widths are numbers of a token's row, before division among devices.

#pragma once

#include <string_view>
#include <vector>

#include "profiles/model.hpp"
#include "profiles/steps.hpp"

namespace stagecraft {

using Steps = std::vector<Step>;

/// Appends.
void add_steps(Steps& steps, const Steps& more);

/// Trainable numbers of a norm for each number of its width.
enum class NormWeights { none, weight, weight_and_bias };

Step norm(std::string_view name, std::int64_t width, NormWeights weights = NormWeights::weight);

/// Norms of queries and keys before their scores.
enum class QueryKeyNorm {
  none,
  shared,    ///< one of a head's width for all heads
  each,      ///< one for each head
  together,  ///< over all heads at once
};

/// Multi-head and grouped-query attention (Vaswani et al. 2017; Ainslie et al. 2023).
struct GroupedAttention {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;
  std::int64_t width = 0;        ///< width of one head
  std::int64_t value_width = 0;  ///< 0: as `width`
  bool query_bias = false;
  bool key_bias = false;
  bool value_bias = false;
  bool output_bias = false;
  QueryKeyNorm norms = QueryKeyNorm::none;
  NormWeights norm_weights = NormWeights::weight;
  std::int64_t window = 0;        ///< tokens that one sees; 0: all
  bool sinks = false;             ///< a number for each head joins its softmax (GPT-OSS)
  bool gated = false;             ///< the query projection gives a gate of the output as well
  bool own_gate = false;          ///< a projection of its own does
  bool head_gate = false;         ///< one that gives a number for each head
  bool borrows_keys = false;      ///< keys and values are those of an earlier layer
  bool value_is_key = false;      ///< one projection for both
  std::int64_t rotary_width = 0;  ///< of a head's width that is turned; 0: positions are elsewhere
  bool causal = true;
  bool crosses = false;      ///< keys and values are of the encoder's states
  bool output_norm = false;  ///< a norm stands before the output projection (BitNet)
  NormWeights output_norm_weights = NormWeights::weight;
  bool differential =
      false;  ///< scores weigh two halves of values, whose difference counts (DiffLlama)
};
Steps attention(const GroupedAttention& shape);

/// The lightning indexer of sparse attention (DeepSeek-V3.2): cheap scores choose the keys.
struct Indexer {
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t keys = 0;  ///< chosen for each token
  bool computes = true;   ///< false: the choice is an earlier layer's
  std::int64_t pool = 0;  ///< tokens that it gives one key, weighed by a gate (GLM-5.3); 0: none
};

/// Multi-head latent attention (DeepSeek-V2), perhaps with an indexer.
struct LatentShape {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t query_rank = 0;  ///< 0: queries come from the hidden state
  std::int64_t key_value_rank = 0;
  std::int64_t rotary_width = 0;
  std::int64_t plain_width = 0;
  std::int64_t value_width = 0;
  bool bias = false;  ///< of the projections down and of the output's
  Indexer indexer;    ///< none if it has no heads
  bool sinks = false;
  /// The query projection reads the latent with and without its norm, and gives a gate as well.
  bool gated = false;
  bool own_gate = false;      ///< as of `GroupedAttention`
  bool head_gate = false;     ///< as of `GroupedAttention`
  std::int64_t window = 0;    ///< as of `GroupedAttention`; with an indexer its choice counts
  bool borrows_keys = false;  ///< the latent of keys and values is an earlier layer's
  bool rotary_norm = false;   ///< the turned part of keys has a norm of its own
  /// Scores have a learned scale and shift for each head, the indexer's, too, whose queries have a
  /// norm of what they are made of (Mistral Large 4).
  bool scaled_scores = false;
};
Steps latent_attention(const LatentShape& shape);

/// Up (and gate), activation, down.
struct FeedForwardShape {
  std::int64_t hidden = 0;
  std::int64_t inner = 0;
  bool gated = true;
  bool up_bias = false;
  bool down_bias = false;
  bool normed = false;  ///< a norm stands before the way down (BitNet)
};
Steps feed_forward(const FeedForwardShape& shape);

/// A router, experts, and a feed-forward that all tokens pass (Fedus et al. 2021; Dai et al. 2024).
struct MixtureShape {
  std::int64_t hidden = 0;
  std::int64_t experts = 0;
  std::int64_t active = 0;
  std::int64_t inner = 0;  ///< of one expert
  ExpertGroups groups;
  bool gated = true;
  bool expert_bias = false;
  bool router_bias = false;
  std::int64_t idle_experts = 0;  ///< that the router knows and that compute nothing (LongCat)
  bool stores_idle = false;       ///< and that have weights all the same
  std::int64_t router_width = 0;  ///< of the small network that the router is; 0: one product
  std::int64_t latent = 0;        ///< width that experts work in, if not `hidden`
  bool latent_bias = false;
  std::int64_t shared_inner = 0;  ///< of all shared experts together
  bool shared_bias = false;
  bool shared_gate = false;         ///< a number for each token scales the shared expert's output
  std::int64_t trained_scores = 0;  ///< trainable numbers that balance or scale experts
};
Steps mixture(const MixtureShape& shape);

/// Mamba 2's mixer (Dao and Gu 2024).
struct Mamba2Shape {
  std::int64_t hidden = 0;
  std::int64_t inner = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;
  std::int64_t state = 0;
  std::int64_t kernel = 0;
  bool convolution_bias = true;
  bool input_bias = false;
  bool output_bias = false;
  bool normed = true;
};
Steps mamba2(const Mamba2Shape& shape);

/// The first Mamba's (Gu and Dao 2023).
struct MambaShape {
  std::int64_t hidden = 0;
  std::int64_t inner = 0;
  std::int64_t state = 0;
  std::int64_t rank = 0;  ///< of the step size's projection
  std::int64_t kernel = 0;
  bool convolution_bias = true;
  bool bias = false;
  bool normed = false;  ///< step size and what goes in and out of the state have norms
  NormWeights norm_weights = NormWeights::weight;
};
Steps mamba(const MambaShape& shape);

/// The gated delta rule (Yang et al. 2024), as Qwen3-Next has it.
struct DeltaShape {
  std::int64_t hidden = 0;
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;
  std::int64_t key_width = 0;
  std::int64_t value_width = 0;
  std::int64_t kernel = 0;
};
Steps gated_delta(const DeltaShape& shape);

/// Kimi Delta Attention (Kimi Linear 2025): forgetting channel by channel, from low ranks.
struct KimiDeltaShape {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t kernel = 0;
  bool low_ranks = true;  ///< false: forgetting and the gate come from whole projections (Ling 3)
};
Steps kimi_delta(const KimiDeltaShape& shape);

/// Hyper-connections around a half of a block (Zhu et al. 2024): how much of each stream goes in
/// and of the output into each; where they `mix`, manifold-constrained ones (Xie et al. 2025).
Steps hyper_connections(std::int64_t hidden, std::int64_t streams, bool mix);
/// Streams made one behind the last block.
Steps joined_streams(std::int64_t hidden, std::int64_t streams);

/// The real-gated linear recurrent unit behind a short convolution (Griffin; De et al. 2024).
struct GriffinShape {
  std::int64_t hidden = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;  ///< blocks of the gates' matrices
  std::int64_t kernel = 0;
};
Steps griffin(const GriffinShape& shape);

/// A gated convolution of a few tokens (LFM2).
Steps short_convolution(std::int64_t hidden, std::int64_t kernel, bool bias);

/// A product that every peer does in whole.
Step product(std::string_view name, std::int64_t outputs, std::int64_t inputs, bool bias = false);
/// One whose outputs peers divide in `units`, and one whose inputs they do.
Step divided(std::string_view name, std::int64_t outputs, std::int64_t inputs, bool bias = false,
             std::int64_t units = 0);
Step summed(std::string_view name, std::int64_t outputs, std::int64_t inputs, bool bias = false);
Step numbers(std::string_view name, std::int64_t count);

/// Same input as the step before: nothing is kept or gathered anew.
Step beside(Step step);

}  // namespace stagecraft
