#include "planner/interop/torch_names.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// "Schedule1F1B" as "1f1b".
std::string plain(std::string_view name) {
  constexpr std::string_view prefix = "schedule";
  const std::string text = lower_case(name);
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

bool is_schedule_of_ours(std::string_view name) {
  for (const ScheduleKind& kind : schedule_kinds) {
    const std::vector<std::string> aliases = split(kind.aliases, ' ');
    if (kind.name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end())
      return true;
  }
  return false;
}

}  // namespace

std::string_view find_torch_schedule(std::string_view name) {
  // Classes have the prefix, what get_schedule_class takes may.
  const std::string prefix = name.starts_with("Schedule") ? "Schedule" : "";
  std::vector<std::string> known;
  for (const TorchScheduleName& row : torch_schedule_names) {
    if (plain(row.torch) == plain(name)) return row.ours;
    known.push_back(prefix + std::string(row.torch));
  }
  if (is_schedule_of_ours(name)) return find_schedule(name).name;
  fail_unknown("torch schedule", name, known);
}

std::optional<std::string_view> torch_class_of(std::string_view ours) {
  for (const TorchScheduleName& row : torch_schedule_names) {
    if (row.ours == ours) return row.torch;
  }
  return {};
}

std::optional<int> torch_round(int devices, int microbatches) {
  const int rounds = std::max(1, microbatches / devices);
  if (microbatches % rounds != 0) return {};
  return microbatches / rounds;
}

std::string torch_class_differs(const Plan& plan) {
  const auto name = torch_class_of(plan.schedule.name);
  if (!name) return "";
  const int devices = pipeline_devices(plan);
  const int microbatches = plan.batch.microbatches;
  const int stages = static_cast<int>(plan.stages.size());
  const bool loops = plan.schedule.name == "interleaved" || plan.schedule.name == "interleaved-zb";
  if (!plan.schedule.warm_up.empty()) {
    return concat(*name, " has its own number of forwards ahead; this plan says another");
  }
  const bool wants_all = plan.schedule.name == "1f1b" || plan.schedule.name == "dualpipev";
  if (wants_all && microbatches < stages) {
    return concat(*name, " wants at least as many microbatches as stages, ", stages,
                  "; this plan has ", microbatches);
  }
  if (loops && plan.schedule.virtual_stages == 1) {
    return concat(*name, " orders one stage a rank otherwise than this plan");
  }
  if (!loops) return "";
  const std::optional<int> round = torch_round(devices, microbatches);
  if (!round) {
    return concat(*name, " takes ", microbatches, " microbatches in ", microbatches / devices,
                  " rounds, of which they are no multiple");
  }
  const int group = plan.schedule.group.value_or(devices);
  if (*round == group) return "";
  return concat(*name, " takes ", *round,
                " microbatches in a row through a stage; this plan takes ", group);
}

std::string torch_class_note(const Plan& plan) {
  if (plan.schedule.name != "looped-bfs" || plan.batch.microbatches == 1) return "";
  return "LoopedBFS goes back from the last microbatch, the plan from the first: step and memory "
         "are the same, sums of gradients round otherwise";
}

}  // namespace stagecraft
