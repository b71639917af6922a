#include "planner/interop/importers/launch/own_flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "planner/interop/importers/launch/dialects.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// "bf16-mixed", 16, "torch.bfloat16".
bool take_precision(const FlagWord& word, ParsedLaunch& parsed) {
  constexpr std::array names{"precision", "dtype",        "torch-dtype",   "mixed-precision",
                             "amp-dtype", "params-dtype", "autocast-dtype"};
  const bool is_own = parsed.dialect != Dialect::megatron && parsed.dialect != Dialect::slime;
  if (!is_own || std::ranges::count(names, word.name) == 0 || !word.value) return false;
  if (is_other_model(word.section)) return false;
  MegatronFlags& flags = parsed.launch.flags;
  const std::string& value = *word.value;
  const auto has = [&](std::string_view part) { return value.find(part) != std::string::npos; };
  const bool is_half = value == "16" || value.starts_with("16-") || has("fp16") || has("float16");
  if (has("bf16") || has("bfloat16")) {
    flags.bf16 = true;
  } else if (is_half) {
    flags.fp16 = true;
  } else if (!has("32")) {
    return false;
  }
  // What is not in 4 bits.
  if (has("fp4")) return false;
  if (has("fp8")) {
    flags.fp8 = "hybrid";
    // bf16_with_fp8_current_scaling_mixed, bf16_with_mxfp8_mixed, …
    if (has("current_scaling")) flags.fp8_recipe = "tensorwise";
    if (has("subchannel_scaling")) flags.fp8_recipe = "blockwise";
    if (has("mxfp8")) flags.fp8_recipe = "mxfp8";
    if (has("delayed_scaling")) flags.fp8_recipe = "delayed";
  }
  parsed.said.insert("precision");
  return true;
}

/// A number that the plan's batch follows from.
std::optional<std::int64_t> number_in(const FlagWord& word) {
  if (!word.value || word.is_null || !word.missing.empty()) return {};
  const std::string& text = *word.value;
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc{} && end == text.data() + text.size() && number > 0) return number;
  throw Error(ErrorKind::input,
              concat(word.name, ": expected an integer of at least 1, found \"", text, "\""),
              word.place);
}

/// Its members are switched by one: `fp8: false` beside `fp8_hybrid: true` is no FP8.
bool take_fp8(const FlagWord& word, ParsedLaunch& parsed) {
  if (word.name != "fp8" || is_other_model(word.section)) return false;
  std::string& fp8 = parsed.launch.flags.fp8;
  const std::string value = word.value.value_or("");
  parsed.fp8_is_off = value == "false" || value == "False";
  if (value == "hybrid" || value == "e4m3") {
    fp8 = value;
  } else if (value.empty() || value == "True") {
    if (fp8.empty()) fp8 = "hybrid";
  } else if (!parsed.fp8_is_off) {
    return false;
  }
  return true;
}

/// Lengths of encoders and decoders: which is the model's, all flags together say.
bool take_length(const FlagWord& word, ParsedLaunch& parsed) {
  auto* const place = word.name == "encoder-seq-length"   ? &parsed.encoder_sequence
                      : word.name == "decoder-seq-length" ? &parsed.decoder_sequence
                                                          : nullptr;
  if (place == nullptr || is_other_model(word.section)) return false;
  *place = number_in(word);
  return place->has_value();
}

/// Samples of a step of reinforcement learning.
bool take_slime_flag(const FlagWord& word, ParsedLaunch& parsed) {
  auto* const place = word.name == "rollout-batch-size"      ? &parsed.prompts
                      : word.name == "n-samples-per-prompt"  ? &parsed.samples_per_prompt
                      : word.name == "num-steps-per-rollout" ? &parsed.steps_per_rollout
                                                             : nullptr;
  if (place == nullptr) return false;
  *place = number_in(word);
  return true;
}

bool take_verl_flag(const FlagWord& word, ParsedLaunch& parsed) {
  if (!word.section.ends_with("rollout") || word.name != "n") return false;
  parsed.samples_per_prompt = number_in(word);
  return true;
}

bool take_nemo_flag(const FlagWord& word, ParsedLaunch& parsed) {
  const bool names_optimizer = word.name == "name" && word.section.ends_with("optim");
  if (!names_optimizer || !word.value) return false;
  MegatronFlags& flags = parsed.launch.flags;
  if (word.value->find("distributed") != std::string::npos) flags.shards_optimizer = true;
  if (word.value->find("adam") != std::string::npos) flags.optimizer = "adam";
  if (*word.value == "sgd") flags.optimizer = "sgd";
  return true;
}

/// A pipeline of 0 ranks is none; what is trained in 16 bits has its kind beside the switch.
bool take_neox_flag(const FlagWord& word, ParsedLaunch& parsed) {
  MegatronFlags& flags = parsed.launch.flags;
  if (word.name == "pipe-parallel-size") {
    parsed.said.insert(word.name);
    flags.no_pipeline = word.value == "0";
    return flags.no_pipeline;
  }
  if (word.section == "fp16" && word.name == "type") {
    parsed.fp16_is_bf16 = word.value == "bfloat16";
    return true;
  }
  if (word.section == "optimizer" && word.name == "type" && word.value) {
    flags.optimizer = lower_case(*word.value);
    return true;
  }
  return false;
}

/// Whether Megatron-LM trains, whether what it says of recomputation counts, and which of the ranks
/// generate.
bool take_nemo_rl_flag(const FlagWord& word, ParsedLaunch& parsed) {
  const bool is_off = word.value == "false" || word.value == "False";
  // The other trainer's.
  if (word.section.find("dtensor_cfg") != std::string::npos) return true;
  if (word.section.starts_with("policy.generation.colocated")) {
    if (word.name == "enabled") parsed.generates_apart = is_off;
    if (word.name == "num-nodes") parsed.generation_nodes = number_in(word);
    if (word.name == "gpus-per-node") parsed.generation_devices = number_in(word);
    return true;
  }
  if (word.section.ends_with("megatron_cfg.fp8_cfg") && word.name == "enabled") {
    parsed.fp8_part_is_off = is_off;
    return true;
  }
  if (word.section.ends_with("megatron_cfg.peft")) return word.name != "peft";
  if (word.section != "policy.megatron_cfg") return false;
  if (word.name == "enabled") {
    parsed.other_trainer.reset();
    if (is_off) parsed.other_trainer = word;
    return true;
  }
  if (word.name != "activation-checkpointing") return false;
  parsed.recomputes = !is_off;
  return true;
}

/// `list(range(0, 32))`: 32 ranks; `[4, 5]`: two.
bool take_devices(const std::string& value, MegatronFlags& flags) {
  constexpr std::string_view begins = "list(range(";
  if (value.size() > 2 && value.front() == '[' && value.back() == ']') {
    flags.world = static_cast<int>(std::ranges::count(value, ',')) + 1;
    return true;
  }
  if (!value.starts_with(begins) || !value.ends_with("))")) return false;
  std::vector<int> ends;
  for (const std::string& text :
       split(value.substr(begins.size(), value.size() - begins.size() - 2), ',')) {
    const std::string digits = trim(text);
    int number = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (fault != std::errc{} || end != digits.data() + digits.size() || number < 0) return false;
    ends.push_back(number);
  }
  if (ends.size() != 2 || ends[1] <= ends[0]) return false;
  flags.world = ends[1] - ends[0];
  return true;
}

/// Devices of what is trained, lengths of prompts and answers, and who trains.
bool take_adapter_flag(const FlagWord& word, ParsedLaunch& parsed) {
  const std::string value = word.value.value_or("");
  if (word.name == "finetuning-type") return value == "full";
  if (word.name == "stage" && word.section.empty()) return value == "sft" || value == "pt";
  if (word.name == "strategy-name" && word.section == "actor_train.strategy_args") {
    parsed.other_trainer.reset();
    if (value.find("megatron") == std::string::npos) parsed.other_trainer = word;
    return true;
  }
  if (word.name == "device-mapping" && word.section == "actor_train") {
    return take_devices(value, parsed.launch.flags);
  }
  auto* const place = word.name == "prompt-length"     ? &parsed.prompt_tokens
                      : word.name == "response-length" ? &parsed.answer_tokens
                                                       : nullptr;
  if (place == nullptr || !word.section.empty()) return false;
  *place = number_in(word);
  return place->has_value();
}

/// A ds_config that the script itself writes.
bool take_deepspeed_config(const FlagWord& word, const FlagReading& reading, ParsedLaunch& parsed) {
  const auto found = reading.documents.find(word.value.value_or(""));
  if (found == reading.documents.end()) return false;
  try {
    const Json json = Json::parse(found->second, word.place.file);
    if (json.contains("zero_optimization") && json["zero_optimization"].contains("stage")) {
      const std::int64_t stage = json["zero_optimization"]["stage"].integer(0, 3);
      parsed.launch.flags.zero_stage = static_cast<int>(stage);
      parsed.zero_stage = word;
    }
  } catch (const Error&) {
    return false;  // with what is not known in it, it is no JSON
  }
  return true;
}

/// DeepSpeed counts layers by type; embedding and head among them, as BLOOM did.
bool take_partition_method(const FlagWord& word, ParsedLaunch& parsed) {
  if (word.value != "type:transformer|embedding") return false;
  parsed.launch.flags.split.account_for_embedding = true;
  parsed.launch.flags.split.account_for_loss = true;
  return true;
}

/// What starts a recipe of another framework within Primus.
bool take_primus_flag(const FlagWord& word, ParsedLaunch& parsed) {
  if (word.name != "framework" || !word.value) return false;
  parsed.framework = *word.value;
  if (*word.value != "megatron" && *word.value != "megatron_bridge") parsed.other_trainer = word;
  return true;
}

}  // namespace

bool take_own_flag(const FlagWord& word, const FlagReading& reading, ParsedLaunch& parsed) {
  if (take_precision(word, parsed) || take_fp8(word, parsed) || take_length(word, parsed))
    return true;
  if (word.name == "deepspeed") parsed.deepspeed = word.value != "false";
  if (word.name == "zero-stage" && word.missing.empty()) parsed.zero_stage = word;
  if (parsed.dialect == Dialect::slime) return take_slime_flag(word, parsed);
  if (parsed.dialect == Dialect::verl && take_verl_flag(word, parsed)) return true;
  if (parsed.dialect == Dialect::nemo && take_nemo_flag(word, parsed)) return true;
  if (parsed.dialect == Dialect::primus && take_primus_flag(word, parsed)) return true;
  if (parsed.dialect == Dialect::neox && take_neox_flag(word, parsed)) return true;
  if (parsed.dialect == Dialect::nemo_rl && take_nemo_rl_flag(word, parsed)) return true;
  if (parsed.dialect == Dialect::mcore_adapter && take_adapter_flag(word, parsed)) return true;
  if (word.name == "deepspeed-config") return take_deepspeed_config(word, reading, parsed);
  if (word.name == "pp-partition-method") return take_partition_method(word, parsed);
  return false;
}

}  // namespace stagecraft
