#include "planner/targets/targets.hpp"

#include <algorithm>
#include <array>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::array all_targets{&megatron_target,   &torchtitan_target, &torch_target,
                                 &torch_2_11_target, &deepspeed_target,  &megatron_bridge_target,
                                 &vllm_target,       &stagecraft_target};

/// What people call a framework, or what runs on it, beside its name here.
struct OtherTargetName {
  std::string_view name;
  const Target* target;
};
constexpr std::array other_target_names{
    OtherTargetName{"megatron-lm", &megatron_target},
    OtherTargetName{"megatron-core", &megatron_target},
    OtherTargetName{"mcore", &megatron_target},
    OtherTargetName{"nemo", &megatron_bridge_target},
    OtherTargetName{"pytorch", &torch_target},
};

/// What is no framework for pipelines, though people ask for it: what to say instead.
struct NoTarget {
  std::string_view name;
  std::string_view instead;
};
constexpr std::string_view fsdp_instead =
    "FSDP is a way to shard: --sharding zero3, with --for megatron or torchtitan, which have it";
constexpr std::array no_targets{
    NoTarget{"fsdp", fsdp_instead},
    NoTarget{"fsdp2", fsdp_instead},
    NoTarget{"ddp", "DDP is replication: --sharding none, with --for torch or torchtitan"},
    NoTarget{"accelerate", "accelerate starts DeepSpeed and FSDP: --for deepspeed or torchtitan"},
    NoTarget{"transformers",
             "its Trainer starts DeepSpeed and FSDP: --for deepspeed or torchtitan"},
    NoTarget{"huggingface", "its Trainer starts DeepSpeed and FSDP: --for deepspeed or torchtitan"},
};

/// Our name of what the word stands for, or the word itself.
std::string own_name(const std::string& word) {
  const auto other = std::ranges::find(other_target_names, word, &OtherTargetName::name);
  return other == other_target_names.end() ? word : std::string(other->target->name);
}

}  // namespace

std::span<const Target* const> targets() {
  return all_targets;
}

std::vector<std::string> reasons_against_model(const Target& target, const Model& model) {
  if (target.against_model == nullptr || !model.transformer) return {};
  return target.against_model(model);
}

std::vector<const Target*> newest_targets() {
  std::vector<const Target*> newest;
  for (const Target* target : all_targets) {
    if (newest.empty() || newest.back()->name != target->name) newest.push_back(target);
  }
  return newest;
}

const Target& find_target(std::string_view text) {
  const std::size_t at = text.find('@');
  const std::string word = lower_case(text.substr(0, at));
  const std::string name = own_name(word);
  std::vector<std::string> names, versions;
  for (const Target* target : all_targets) {
    if (std::ranges::find(names, target->name) == names.end()) names.emplace_back(target->name);
    if (target->name != name) continue;
    const std::string_view version = at == std::string_view::npos ? "" : text.substr(at + 1);
    const std::string longer = concat(version, ".");
    if (at == std::string_view::npos || target->version == version ||
        target->version.starts_with(longer)) {
      return *target;
    }
    versions.emplace_back(target->version);
  }
  const auto none = std::ranges::find(no_targets, word, &NoTarget::name);
  if (none != no_targets.end()) fail_usage("--for ", text, ": ", none->instead);
  if (versions.empty()) fail_unknown("framework", text.substr(0, at), names);
  fail_usage("--for ", text, ": known of ", name, versions.size() == 1 ? " is " : " are ",
             join_words(versions), "; say --for ", name, "@", versions.front());
}

std::string to_words(const Target& target) {
  return concat(target.name, "@", target.version);
}

bool has_schedule(const Target& target, std::string_view name) {
  return target.schedules.empty() ||
         std::ranges::find(target.schedules, name) != target.schedules.end();
}

std::string refusal(const Target& target, const TargetPipeline& pipeline) {
  return target.refuses == nullptr ? std::string() : target.refuses(pipeline);
}

}  // namespace stagecraft
