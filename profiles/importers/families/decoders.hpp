// Families of decoders that differ in details only: a row each.

#pragma once

#include <array>
#include <string_view>

#include "profiles/importers/families/blueprint.hpp"

namespace stagecraft {

/// Where a block's norms stand.
enum class NormPlaces {
  before,    ///< of attention and of feed-forward
  after,     ///< behind each (OLMo 2)
  around,    ///< both (Gemma 2)
  parallel,  ///< one before attention and feed-forward, which are added up (Cohere)
};

/// Which blocks attend over a window.
enum class Windows {
  none,
  every,     ///< all, if there is a "sliding_window"
  used,      ///< all, if there is one and "use_sliding_window" is true
  late,      ///< with "use_sliding_window" those from "max_window_layers" on (Qwen2)
  odd,       ///< with it every other one before "max_window_layers" (Qwen2-MoE)
  pattern,   ///< all but each n-th, or as "layer_types" say
  led,       ///< all but the first of each n, or as they say
  inner,     ///< all but the first two, each fourth from the second on, and the last (Flint)
  typed,     ///< as "layer_types" say; absent: none
  last,      ///< those from "max_window_layers" on (dots.llm1)
  unturned,  ///< with "use_sliding_window" those without rotary positions (SmolLM3)
};

struct AttentionRow {
  QueryKeyNorm norms = QueryKeyNorm::none;
  std::string_view norms_key;        ///< of a flag that switches them on
  bool norms_by_default = false;     ///< where the flag is absent
  std::string_view bias_key;         ///< of queries, keys and values; none: as `bias`
  bool bias = false;                 ///< its default
  std::string_view output_bias_key;  ///< none: as `output_bias`; may be `bias_key`
  bool output_bias = false;
  Windows windows = Windows::none;
  std::int64_t window = 0;  ///< default of "sliding_window"; 0: null
  std::int64_t late = 28;   ///< default of "max_window_layers"
  int pattern = 0;          ///< each n-th block sees all
  std::string_view pattern_key;
  std::string_view other_pattern_key;  ///< says the same in files, and the library does not read it
  std::string_view both_ways_key;      ///< of a flag (absent: false): tokens see later ones, too
  double rotary_part = 1.0;
  bool sinks = false;
  bool own_gate = false;
  bool differential = false;  ///< as of `GroupedAttention`
};

struct FeedForwardRow {
  bool gated = true;
  std::string_view bias_key;  ///< none: as `bias`
  bool bias = false;
  std::int64_t activation_numbers = 0;  ///< trainable ones of xIELU, unless "hidden_act" is another
};

/// Which blocks have experts.
enum class SparseBlocks {
  all,
  after_first,  ///< those from `dense` on
  stepped,   ///< each "decoder_sparse_step"-th not among "mlp_only_layers" (absent: first `dense`)
  typed,     ///< as "mlp_layer_types" say ("dense", "sparse"); by default those from `dense` on
  interval,  ///< ERNIE's start, end and interval
};

struct MixtureRow {
  std::string_view experts_key;  ///< "": no experts
  std::int64_t experts = 0;
  std::string_view active_key = "num_experts_per_tok";
  std::int64_t active = 0;
  std::string_view inner_key;  ///< "": "intermediate_size"
  std::int64_t inner = 0;
  std::string_view shared_key;  ///< number of shared experts, each as wide as one
  std::int64_t shared = 0;
  std::string_view shared_width_key;  ///< or their width
  std::int64_t shared_width = 0;
  /// Other keys, of which the library's class builds what stands here all the same.
  std::string_view unread_inner_key;   ///< an expert's width: as `inner_key`
  std::string_view unread_shared_key;  ///< number of shared experts: one
  bool dense_if_unshared = false;      ///< without shared experts a dense feed-forward (HY 3)
  bool shared_gate = false;
  bool router_bias = false;
  bool expert_bias = false;
  bool trained_scores = false;  ///< a trainable number for each expert
  bool groups = false;          ///< "n_group" of experts, of which the router chooses some first
  std::string_view shares_key;  ///< of a flag (absent: false): shares add up; "": they do
  SparseBlocks blocks = SparseBlocks::all;
  std::string_view dense_key = "first_k_dense_replace";  ///< "": the file says no number
  std::int64_t dense = 0;
};

struct DecoderRow {
  std::string_view model_type;
  Defaults defaults;
  Unread unread = Unread::none;
  NormWeights norm = NormWeights::weight;
  NormPlaces places = NormPlaces::before;
  std::string_view after_key;  ///< of a flag (absent: true); false: `around` is only `before`
  AttentionRow attention;
  FeedForwardRow feed_forward;
  MixtureRow mixture = {};
  std::string_view head_bias_key;
  bool is_plain = false;       ///< a Transformer's numbers say it all, but for windows and the like
  bool is_trained = false;     ///< the executor computes its steps, but for windows and the like
  double norm_epsilon = 1e-6;  ///< default of "rms_norm_eps"
  bool heads_of_hidden = false;  ///< norms need heads that fill the hidden width, by "head_dim" too
  bool norms_words = false;      ///< a norm follows the word embedding
  bool norms_inside = false;     ///< before the output of attention and the way down (BitNet)
  bool is_gemma = false;         ///< its blocks scale and norm as Gemma 3's do
  bool predicts = false;         ///< "num_nextn_predict_layers" are modules of DeepSeek-V3's form
  /// Keys that stand in the family's files and change neither parameters nor work.
  std::array<std::string_view, 16> harmless = {};
};

Blueprint read_decoder(const DecoderRow& row, Keys& keys);

/// Those with experts.
std::vector<DecoderRow> mixture_rows();
/// All.
const std::vector<DecoderRow>& decoder_rows();

}  // namespace stagecraft
