// What a family's reader makes of a config.json, before layers are numbered and counted.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiles/block_steps.hpp"
#include "profiles/importers/families/keys.hpp"
#include "profiles/model.hpp"

namespace stagecraft {

struct Blueprint {
  /// What holds for all layers: widths, heads, vocabulary, positions, whether the head is tied.
  Transformer numbers;
  /// Whether `numbers` say everything; then the executor can train the model, and no steps are
  /// kept.
  bool is_plain = false;
  /// Whether the executor trains it by its steps (trained_form.hpp).
  bool is_trained = false;
  double norm_epsilon = 1e-6;  ///< where the file says nothing
  /// What `numbers` say already: the norms' epsilon and the activation; rotary positions.
  bool has_own_arithmetic = false;
  bool has_own_positions = false;
  Steps embedding;
  std::vector<Steps> encoder;  ///< of encoder-decoder models, before `blocks`
  /// Of theirs, where it has more than the words (which it shares if the head does; the library
  /// keeps a third table, which nobody reads, if not); none: `embedding` once more, all of it tied.
  Steps decoder_embedding;
  bool own_words =
      false;           ///< the decoder's words are no other's but its head's, where that is tied
  Steps encoder_last;  ///< the norm behind it
  std::vector<Steps> blocks;
  Steps last;                      ///< before any head: the last norm
  Steps pooler;                    ///< before classes of a sequence (BERT, ViT)
  bool pools_alone = false;        ///< the base model has the pooler, too
  bool spans_of_labels = false;    ///< answers are found by as many numbers as there are labels
  Steps transform;                 ///< before the logits of words
  bool transforms_tokens = false;  ///< and before the classes of tokens and spans
  std::int64_t head_width = 0;     ///< that heads read; 0: `numbers.hidden`
  std::int64_t words_width = 0;    ///< that the logits of words read; 0: `head_width`
  bool head_bias = false;          ///< of the logits of words
  bool classes_bias = false;       ///< of the classes of a sequence
  std::int64_t classes = 2;        ///< where the file says no number of them
  bool names_images = false;       ///< its own head names the classes of images
  bool own_head = false;           ///< the library's class never ties it to the words
  std::int64_t prediction_modules = 0;
  std::vector<std::string> notes;  ///< what is left out, in sentences
};

/// The defaults of a family's class in the library. 0 key-value heads: as many as heads; 0 head
/// width: hidden / heads.
struct Defaults {
  std::int64_t vocabulary = 0, hidden = 0, inner = 0, blocks = 0, heads = 0;
  std::int64_t key_value_heads = 0, head_width = 0;
  std::int64_t positions = 2048;
  bool tied = false;
  bool floors_width = false;  ///< heads need not divide the hidden width: the rest is left
  bool latent = false;        ///< keys have no heads of their own: "num_key_value_heads" is unread
};

/// Usual keys that a family's class in the library does not read. What a file says of them must be
/// what the class builds: heads whose keys are their own, each of hidden / heads numbers.
enum class Unread { none, head_width, heads_and_width };

/// The numbers that nearly all families have, under the usual names. A null "num_key_value_heads"
/// is as many as heads, a null "head_dim" hidden / heads, whatever the class's defaults are: so
/// classes of the library complete themselves.
struct Sizes {
  std::int64_t vocabulary = 0, hidden = 0, inner = 0, heads = 0, key_value_heads = 0,
               head_width = 0, positions = 0;
  int blocks = 0;
};
Sizes read_sizes(Keys& keys, const Defaults& defaults, Unread unread = Unread::none);

/// Of classes whose norms are as wide as the hidden state, whatever "head_dim" makes of the heads
/// before them: throws Error (input) at the key unless the heads fill the hidden width.
void require_heads_of_hidden(Keys& keys, const Sizes& sizes);

constexpr int most_config_blocks = 100'000;
int read_blocks(Keys& keys, std::string_view names, std::int64_t otherwise);

/// Words, last norm and tie; blocks are the caller's.
Blueprint start(Keys& keys, const Sizes& sizes, bool tied, NormWeights norms = NormWeights::weight);

/// Words of "layer_types".
inline const std::string attends = "full_attention";
inline const std::string windowed = "sliding_attention";
inline const std::string recurs = "linear_attention";

/// Of these sizes; all projections have a bias, or none.
GroupedAttention grouped(const Sizes& sizes, bool bias);

/// Norm, mixer, norm, feed-forward.
Steps mixed_block(std::int64_t hidden, const Steps& mixer, const Steps& feeding);

/// A word for each block: the key's if it is there, else `otherwise` of its index. Older words are
/// read as today's ("mamba" as "linear_attention", "attention" as "full_attention"). Throws Error
/// (input) for a word that is not among `known`, and unless there are as many as blocks; words of
/// `modules` for multi-token prediction may follow, and are dropped.
std::vector<std::string> words_of_blocks(Keys& keys, std::string_view name, int blocks,
                                         const std::vector<std::string>& known,
                                         const std::function<std::string(int)>& otherwise,
                                         std::int64_t modules = 0);
/// "dense" or "sparse" for each block (`mlp_layer_types`), where nothing is said by `is_sparse`.
std::vector<std::string> kinds_of_blocks(Keys& keys, int blocks,
                                         const std::function<bool(int)>& is_sparse,
                                         std::int64_t modules = 0);

/// Members of "per_layer_config" by block: keys of blocks that differ, as the library writes them
/// ("2", or "02"). Throws Error (input) at a name that is no index of a block.
std::vector<std::optional<Json>> configs_of_blocks(Keys& keys, int blocks);

/// A table of rows.
Step lookup(std::string_view name, std::int64_t rows, std::int64_t width,
            Split split = Split::none);
/// A product of each sample's state, once.
Step pooling(std::int64_t outputs, std::int64_t inputs, bool bias = true);
/// Learned positions are looked up beside words.
void add_positions(Blueprint& blueprint, std::int64_t rows);

/// The part of a head's width that is turned; where "rope_parameters" have a member for each kind
/// of attention, in blocks of that `kind`.
std::int64_t rotary_width(Keys& keys, std::int64_t width, double otherwise = 1.0,
                          std::string_view kind = "");

/// The groups that the experts of `shape` lie in. Left out, with a note, where groups do not divide
/// the experts, or the chosen ones hold fewer than a token passes.
void set_groups(Keys& keys, const ExpertGroups& otherwise, MixtureShape& shape,
                std::vector<std::string>& notes);

/// Experts of the numbers, by which devices may share them. Throws Error (input) at the key of
/// those that a token passes, one of `active_names`, unless they are from 1 to all experts.
void set_experts(Keys& keys, std::string_view active_names, Transformer& numbers,
                 const MixtureShape& mixture);

}  // namespace stagecraft
