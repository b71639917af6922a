// One launch of Megatron-LM, or of a program made of it: its words become flags, what the program
// sets by itself among them.

#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/interop/importers/megatron_flags.hpp"

namespace stagecraft {

/// Programs made of Megatron-LM have flags, sections and defaults of their own.
enum class Dialect { megatron, nemo, nemo_rl, swift, slime, verl, neox, primus, mcore_adapter };

/// The contents of one launch.
struct ParsedLaunch {
  MegatronLaunch launch;
  Dialect dialect = Dialect::megatron;
  std::vector<std::pair<MissingVariable, std::string>> missing;  ///< and the flag that needs it
  std::vector<FlagWord> open;  ///< where no flag of the plan may stand
  std::set<std::string> said;  ///< flags, on or off
  std::optional<std::int64_t> samples_per_prompt, prompts, steps_per_rollout;
  std::optional<int> tasks_per_node, gpus_per_node;
  std::set<std::string> other_models;
  std::optional<std::int64_t> encoder_sequence, decoder_sequence;
  std::optional<std::int64_t> prompt_tokens, answer_tokens;
  bool generates_apart = false;  ///< on ranks of its own, so many:
  std::optional<std::int64_t> generation_nodes, generation_devices;
  bool has_roles = false;                 ///< ROLL's: models that train, generate, judge
  std::string framework;                  ///< that Primus starts
  std::optional<bool> recomputes;         ///< the switch over granularity and method
  bool recomputes_attention = false;      ///< whatever granularity is said beside it
  std::optional<FlagWord> other_trainer;  ///< the word by which Megatron-LM does not train
  std::optional<FlagWord> zero_stage;
  bool deepspeed = false;
  bool has_ulysses = false;         ///< DeepSpeed's peers along the sequence
  bool recomputes_nothing = false;  ///< the granularity is null
  bool fp8_is_off = false;
  bool fp8_part_is_off = false;  ///< NeMo RL's fp8_cfg has a switch of its own
  bool fp16_is_bf16 = false;     ///< GPT-NeoX's 16 bits are of this kind
  int plan_flags = 0;
  int flags = 0;
  SourcePlace place;
  std::string program;
  bool starts = true;
};

/// Throws Error (input) with the place of a value that cannot be understood.
ParsedLaunch parse_launch(const FlagLaunch& launch, const FlagReading& reading);

/// Whether the word affects the plan, within its launch.
bool is_of_plan(const FlagWord& word, const FlagLaunch& launch, const FlagReading& reading);

/// How many ranks there are, which is said of other programs, too.
bool is_about_ranks(std::string_view name);

}  // namespace stagecraft
