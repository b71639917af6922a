#include "planner/interop/torch_names.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// "Schedule1F1B" as "1f1b".
std::string plain(std::string_view name) {
  constexpr std::string_view prefix = "schedule";
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
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
  std::vector<std::string> known;
  for (const TorchScheduleName& row : torch_schedule_names) {
    if (plain(row.torch) == plain(name)) return row.ours;
    known.emplace_back(row.torch);
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

}  // namespace stagecraft
