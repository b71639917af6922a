#include "planner/interop/importers/launch/consequences.hpp"

#include "planner/interop/importers/launch/flag_text.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

bool is_said(const ParsedLaunch& parsed, std::string_view flag) {
  return parsed.said.contains(std::string(flag));
}

/// What a program sets by itself, as its note says it.
class SetFlags {
 public:
  void add(std::string_view flag) { text_ += concat(text_.empty() ? "" : ", ", flag); }
  void note(std::string_view program, ParsedLaunch& parsed) const {
    if (!text_.empty()) parsed.launch.notes.push_back(concat(program, " sets by itself: ", text_));
  }

 private:
  std::string text_;
};

/// All programs but Megatron-LM and NeMo.
void set_common_defaults(ParsedLaunch& parsed, SetFlags& set) {
  MegatronFlags& flags = parsed.launch.flags;
  const bool has_precision = flags.bf16 || flags.fp16 || is_said(parsed, "bf16") ||
                             is_said(parsed, "fp16") || is_said(parsed, "precision");
  if (!has_precision) {
    flags.bf16 = true;
    set.add("bf16");
  }
  if (!is_said(parsed, "use-distributed-optimizer")) {
    flags.shards_optimizer = true;
    set.add("the distributed optimizer");
  }
}

void set_swift_defaults(ParsedLaunch& parsed, SetFlags& set) {
  MegatronFlags& flags = parsed.launch.flags;
  if (!flags.microbatch && !is_said(parsed, "micro-batch-size")) {
    flags.microbatch = 1;
    set.add("--micro_batch_size 1");
  }
  if (!flags.global_batch && !is_said(parsed, "global-batch-size")) {
    flags.global_batch = 16;
    set.add("--global_batch_size 16");
  }
  // Its experts are not cut unless it says so.
  if (flags.expert > 1 && flags.expert_tensor == 0) flags.expert_tensor = 1;
  if (!is_said(parsed, "recompute-granularity")) {
    flags.recompute = "selective";
    set.add("--recompute_granularity selective");
  }
}

void set_slime_defaults(ParsedLaunch& parsed, SetFlags& set) {
  MegatronFlags& flags = parsed.launch.flags;
  if (!flags.global_batch && parsed.prompts && parsed.samples_per_prompt &&
      parsed.steps_per_rollout && !is_said(parsed, "global-batch-size")) {
    flags.global_batch = *parsed.prompts * *parsed.samples_per_prompt / *parsed.steps_per_rollout;
    set.add(concat("--global-batch-size ", *flags.global_batch));
  }
  if (!flags.microbatch && !is_said(parsed, "micro-batch-size")) {
    flags.microbatch = 1;
    set.add("--micro-batch-size 1");
  }
}

void set_verl_defaults(ParsedLaunch& parsed, SetFlags& set) {
  MegatronFlags& flags = parsed.launch.flags;
  if (!is_said(parsed, "sequence-parallel")) {
    flags.sequence_parallel = true;
    set.add("sequence_parallel");
  }
  if (!flags.global_batch && !is_said(parsed, "global-batch-size")) {
    flags.global_batch = 256;
    set.add("ppo_mini_batch_size 256");
  }
  if (flags.global_batch && parsed.samples_per_prompt)
    *flags.global_batch *= *parsed.samples_per_prompt;
}

/// GPT-NeoX computes in fp32 unless one of its files says otherwise.
void set_neox_defaults(ParsedLaunch& parsed, SetFlags& set) {
  const MegatronFlags& flags = parsed.launch.flags;
  if (!flags.bf16 && !flags.fp16 && !is_said(parsed, "precision")) set.add("fp32");
}

/// Its modules' own YAML (primus/configs), which recipes stand over.
void set_primus_defaults(ParsedLaunch& parsed, SetFlags& set) {
  MegatronFlags& flags = parsed.launch.flags;
  if (parsed.framework == "megatron_bridge") return;
  if (!flags.microbatch && !is_said(parsed, "micro-batch-size")) {
    flags.microbatch = 2;
    set.add("micro_batch_size 2");
  }
  if (!is_said(parsed, "sequence-parallel")) {
    flags.sequence_parallel = true;
    set.add("sequence_parallel");
  }
}

/// Ranks that generate do not train.
void leave_out_generation(ParsedLaunch& parsed) {
  MegatronFlags& flags = parsed.launch.flags;
  if (!parsed.generates_apart) return;
  const auto nodes = static_cast<int>(parsed.generation_nodes.value_or(0));
  const auto devices = static_cast<int>(parsed.generation_devices.value_or(0));
  std::string said = "generation has ranks of its own, which the file does not count";
  if (flags.nodes && nodes > 0 && nodes < *flags.nodes) {
    *flags.nodes -= nodes;
    said = concat("of the nodes, ", nodes, nodes == 1 ? " generates" : " generate", " apart; ",
                  *flags.nodes, *flags.nodes == 1 ? " trains" : " train");
  } else if (flags.processes && devices > 0 && devices < *flags.processes) {
    *flags.processes -= devices;
    said = concat("of each node's devices, ", devices, devices == 1 ? " generates" : " generate",
                  " apart; ", *flags.processes, *flags.processes == 1 ? " trains" : " train");
  }
  parsed.launch.notes.push_back(said);
}

/// mcore_adapter, of ROLL and LLaMA-Factory, recomputes all layers where no method is said; ROLL's
/// models are in bf16.
void set_adapter_defaults(ParsedLaunch& parsed, SetFlags& set) {
  MegatronFlags& flags = parsed.launch.flags;
  if (parsed.has_roles && !flags.bf16 && !flags.fp16 && !is_said(parsed, "precision")) {
    flags.bf16 = true;
    set.add("bf16");
  }
  if (flags.recompute == "full" && flags.recompute_method.empty() && !flags.recompute_layers) {
    flags.recompute_method = "uniform";
    flags.recompute_layers = 1;
    set.add("recompute_method uniform");
  }
  if (!flags.sequence && parsed.prompt_tokens && parsed.answer_tokens) {
    flags.sequence = *parsed.prompt_tokens + *parsed.answer_tokens;
    set.add(concat("sequences of ", *flags.sequence, " tokens, prompt and response"));
  }
}

void refuse_other_trainer(const ParsedLaunch& parsed) {
  if (!parsed.other_trainer) return;
  const FlagWord& said = *parsed.other_trainer;
  throw Error(ErrorKind::input,
              concat(text_of_flag(said, FlagReading::Kind::yaml),
                     ": another program trains here; plans are read of what Megatron-LM trains"),
              said.place);
}

}  // namespace

void settle_switches(ParsedLaunch& parsed) {
  MegatronFlags& flags = parsed.launch.flags;
  refuse_other_trainer(parsed);
  if (parsed.recomputes_attention) flags.recompute = "selective";
  if (parsed.fp8_is_off || parsed.fp8_part_is_off) flags.fp8.clear();
  if (parsed.fp16_is_bf16 && flags.fp16) {
    flags.fp16 = false;
    flags.bf16 = true;
  }
  if (parsed.recomputes == true) {
    if (flags.recompute.empty()) flags.recompute = "full";
    if (flags.recompute == "full" && flags.recompute_method.empty()) {
      flags.recompute_method = "uniform";
      flags.recompute_layers = 1;
    }
  }
  // NeMo RL's switch is off unless it is on.
  const bool is_off = parsed.dialect == Dialect::nemo_rl && !parsed.recomputes.value_or(false);
  if (!parsed.recomputes_nothing && !is_off) return;
  flags.recompute.clear();
  flags.recompute_method.clear();
  flags.recompute_layers.reset();
}

void settle_sequence(ParsedLaunch& parsed) {
  MegatronFlags& flags = parsed.launch.flags;
  if (parsed.decoder_sequence) {
    if (flags.sequence && flags.sequence != parsed.decoder_sequence) {
      parsed.launch.notes.push_back(concat("the language model's sequence is --decoder-seq-length ",
                                           *parsed.decoder_sequence, "; --seq-length ",
                                           *flags.sequence, " is the encoder's"));
    }
    flags.sequence = parsed.decoder_sequence;
  } else if (!flags.sequence) {
    flags.sequence = parsed.encoder_sequence;
  }
}

void settle_deepspeed(ParsedLaunch& parsed) {
  MegatronFlags& flags = parsed.launch.flags;
  const bool is_neox = parsed.dialect == Dialect::neox;
  if (is_neox) {
    parsed.deepspeed = true;
    if (!is_said(parsed, "pipe-parallel-size")) flags.no_pipeline = true;
  }
  if (flags.zero_stage > 1 && !flags.no_pipeline) {
    const FlagWord& said = *parsed.zero_stage;
    throw Error(ErrorKind::input,
                concat(is_neox ? "zero_optimization.stage" : "--" + said.name,
                       ": DeepSpeed refuses ZeRO-", flags.zero_stage, " with pipelines"),
                said.place,
                {is_neox ? "\"pipe_parallel_size\": 0 trains without them"
                         : "--no-pipeline-parallel trains without them"});
  }
  if (flags.zero_stage == 1) flags.shards_optimizer = true;
  const bool is_deepspeed = parsed.deepspeed || parsed.zero_stage;
  if (is_deepspeed && flags.bf16 && flags.zero_stage == 0 && !flags.shards_optimizer) {
    flags.shards_optimizer = true;
    parsed.launch.notes.emplace_back(
        "DeepSpeed sets by itself: in bf16 its optimizer's states are divided over replicas, as "
        "by ZeRO-1");
  }
  if (parsed.has_ulysses && flags.context > 1) {
    parsed.launch.notes.emplace_back(
        "DeepSpeed's Ulysses exchanges heads among its peers; the plan's context parallelism "
        "passes keys and values round them");
  }
}

void set_program_defaults(ParsedLaunch& parsed) {
  SetFlags set;
  switch (parsed.dialect) {
    case Dialect::megatron:
    case Dialect::nemo: return;
    case Dialect::nemo_rl: return leave_out_generation(parsed);
    case Dialect::neox: set_neox_defaults(parsed, set); return set.note("GPT-NeoX", parsed);
    case Dialect::primus:
      set_common_defaults(parsed, set);
      set_primus_defaults(parsed, set);
      return set.note(parsed.framework == "megatron_bridge" ? "Megatron Bridge" : "Primus", parsed);
    case Dialect::mcore_adapter:
      set_adapter_defaults(parsed, set);
      return set.note("mcore_adapter", parsed);
    case Dialect::swift:
      set_common_defaults(parsed, set);
      set_swift_defaults(parsed, set);
      return set.note("ms-swift", parsed);
    case Dialect::slime:
      set_common_defaults(parsed, set);
      set_slime_defaults(parsed, set);
      return set.note("slime", parsed);
    case Dialect::verl:
      set_common_defaults(parsed, set);
      set_verl_defaults(parsed, set);
      return set.note("verl", parsed);
  }
}

}  // namespace stagecraft
