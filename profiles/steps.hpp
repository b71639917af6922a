// The steps of a layer: what one is made of where the numbers of `Transformer` alone do not say it.
//
// Today's models mix attention over all tokens, over a window and over chosen keys with
// recurrences, experts and dense feed-forwards, layer by layer. Each of these is a handful of steps
// of a few kinds, so that parameters, operations and kept tensors of any such layer are sums over
// its steps.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The operation of a step on each token's row.
enum class StepKind {
  norm,         ///< of `inputs` numbers, `outputs` of which are trainable (weight, bias or neither)
  product,      ///< W x + b: `outputs` x `inputs`, `copies` of them of which a token takes `active`
  lookup,       ///< a row of `outputs` out of a table of `inputs` rows
  attention,    ///< scores, softmax and weighted sum of `heads`; parameters: `outputs` (sinks)
  recurrence,   ///< a state of `inputs` x `outputs` numbers for each of `heads`, carried along
  convolution,  ///< along the sequence, each of `inputs` channels with its own `outputs` weights
  activation,   ///< reads `inputs` numbers and writes `outputs`; no weights
  numbers,      ///< `outputs` trainable numbers whose work is lost in their neighbours'
  dispatch,     ///< brings tokens to `active` of `copies` experts: rows of `inputs`
  combine,      ///< brings them back
  logits,       ///< a product whose `outputs` the loss reads
};
std::string_view to_string(StepKind kind);

/// How tensor-parallel peers divide a step.
enum class Split {
  none,     ///< each does all of it
  outputs,  ///< heads or columns: peers have the whole input, each a part of the output
  inputs,   ///< rows: each has a part of the input, and outputs are summed up
};
std::string_view to_string(Split split);

struct Step {
  StepKind kind = StepKind::numbers;
  std::string_view name;  ///< one of `step_names`
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t copies = 1;  ///< matrices side by side: experts
  std::int64_t active = 1;  ///< of them, those that a token passes
  std::int64_t groups = 1;  ///< of experts that tokens are brought to (`ExpertGroups`)
  std::int64_t active_groups = 1;
  bool bias = false;          ///< of a product or convolution: an element for each output (channel)
  bool of_experts = false;    ///< among those that expert parallelism spreads
  bool tied = false;          ///< the matrix is another layer's (of a product of `rows`: another
                              ///< step's of its own): no parameters of its own
  bool shares_input = false;  ///< reads what the step before it reads, or what is kept anyway
  bool of_sample = false;     ///< once for each sample, not for each token
  Split split = Split::none;
  std::int64_t units = 0;  ///< of the divided width that stay whole (key-value heads); 0: any
  std::int64_t heads = 0;  ///< of queries, or of a recurrence's states
  std::int64_t key_value_heads = 0;
  std::int64_t score_width = 0;  ///< of one head's queries and keys
  std::int64_t value_width = 0;  ///< of one head's values; 0 where scores are all that is wanted
  std::int64_t window = 0;       ///< keys that a token sees at most; 0: all
  std::int64_t stride = 1;       ///< tokens of which one key is made
  /// Of a table that a product reads in place of tokens, once for each pass, or that are the keys
  /// of scores; 0: tokens.
  std::int64_t rows = 0;
  bool causal = true;
  bool operator==(const Step&) const = default;
};

/// All names that steps have; operations and kept tensors bear them.
const std::vector<std::string_view>& step_names();

/// Throws Error (input) unless the figures are in range: positive where they must be, and small
/// enough that every count stays within 64 bits.
void validate(const Step& step);

/// Trainable parameters.
std::int64_t parameters(const Step& step);
std::int64_t parameters(const std::vector<Step>& steps);

/// FLOPs of the forward of one sample of `tokens`, two per multiply-add; causal attention counts in
/// full, a window with the keys in it.
double linear_flops(const Step& step, double tokens);
double attention_flops(const Step& step, double tokens);

/// "attention over 4096 tokens, 8 of 128 experts": what tells layers apart, in a few words.
std::string in_words(const std::vector<Step>& steps);

}  // namespace stagecraft
