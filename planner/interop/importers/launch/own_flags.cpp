#include "planner/interop/importers/launch/own_flags.hpp"

#include <algorithm>
#include <array>

#include "planner/interop/importers/launch/dialects.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

/// "bf16-mixed", 16, "torch.bfloat16".
bool take_precision(const FlagWord& word, ParsedLaunch& parsed) {
  constexpr std::array names{"precision", "dtype",        "torch-dtype",   "mixed-precision",
                             "amp-dtype", "params-dtype", "autocast-dtype"};
  const bool is_own = parsed.dialect != Dialect::megatron && parsed.dialect != Dialect::slime;
  if (!is_own || std::ranges::count(names, word.name) == 0 || !word.value) return false;
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
  if (!word.value || !word.missing.empty()) return {};
  FlagWord flag = word;
  flag.name = "micro-batch-size";
  MegatronFlags number;
  take_megatron_flag(flag, number);
  return number.microbatch;
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

}  // namespace

bool take_own_flag(const FlagWord& word, const FlagReading& reading, ParsedLaunch& parsed) {
  if (take_precision(word, parsed) || take_fp8(word, parsed) || take_length(word, parsed))
    return true;
  if (word.name == "deepspeed") parsed.deepspeed = word.value != "false";
  if (word.name == "zero-stage" && word.missing.empty()) parsed.zero_stage = word;
  if (parsed.dialect == Dialect::slime) return take_slime_flag(word, parsed);
  if (parsed.dialect == Dialect::verl && take_verl_flag(word, parsed)) return true;
  if (parsed.dialect == Dialect::nemo && take_nemo_flag(word, parsed)) return true;
  if (word.name == "deepspeed-config") return take_deepspeed_config(word, reading, parsed);
  if (word.name == "pp-partition-method") return take_partition_method(word, parsed);
  return false;
}

}  // namespace stagecraft
