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

}  // namespace

std::span<const Target* const> targets() {
  return all_targets;
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
  const std::string_view name = text.substr(0, at);
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
  if (versions.empty()) fail_unknown("framework", name, names);
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
