#include "planner/analysis/flag_edits.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/megatron.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view value_of_switch = "on";

/// Flags of Megatron-LM that say what another one does, and exclude it.
struct OtherFlag {
  std::string_view name, instead;
};
constexpr std::array other_flags{
    OtherFlag{"--num-layers-per-virtual-pipeline-stage", "--num-virtual-stages-per-pipeline-rank"},
    OtherFlag{"--num-layers-per-virtual-pipeline-stage", "--pipeline-model-parallel-layout"},
    OtherFlag{"--num-virtual-stages-per-pipeline-rank", "--pipeline-model-parallel-layout"},
    OtherFlag{"--recompute-activations", "--recompute-granularity"},
    OtherFlag{"--decoder-first-pipeline-num-layers", "--pipeline-model-parallel-layout"},
    OtherFlag{"--decoder-last-pipeline-num-layers", "--pipeline-model-parallel-layout"},
};

/// A line of a launch or a configuration.
struct ConfigurationLine {
  std::string name, value;
};

std::vector<ConfigurationLine> megatron_lines(const LoadedPlan& loaded) {
  Reasons unheard("Megatron-LM");
  std::vector<ConfigurationLine> lines;
  const MegatronSettings settings =
      megatron_settings(unheard, loaded.plan, loaded.profile.model, loaded.cluster);
  for (const MegatronSetting& setting : settings.all()) {
    lines.push_back({concat("--", setting.flag),
                     setting.value.empty() ? std::string(value_of_switch) : setting.value});
  }
  return lines;
}

/// The name in front of "=" or ":", and what follows. Lines of lists have none.
std::vector<ConfigurationLine> lines_of(const std::string& text) {
  std::vector<ConfigurationLine> lines;
  for (const std::string& line : split(text, '\n')) {
    std::string words = trim(line);
    while (!words.empty() && std::string_view(",\\ ").find(words.back()) != std::string_view::npos)
      words.pop_back();
    const std::size_t end = words.find_first_of("=:");
    if (end == std::string::npos || words.starts_with('#') || words.starts_with('[')) continue;
    std::string name = trim(words.substr(0, end));
    std::erase(name, '"');
    std::string value = trim(words.substr(end + 1));
    if (!value.empty()) lines.push_back({std::move(name), std::move(value)});
  }
  return lines;
}

std::string exported(const Target& target, const LoadedPlan& loaded) {
  for (const Exporter& exporter : exporters) {
    if (exporter.name != target.name) continue;
    if (exporter.write != nullptr) return exporter.write(loaded);
    return exporter.write_files(loaded).front().content;
  }
  return "";
}

/// Nothing where the target has no words for the plan; Megatron-LM has for parts of it.
std::optional<std::vector<ConfigurationLine>> launch_of(const Target& target,
                                                        const LoadedPlan& loaded) {
  if (target.name == megatron_target.name) return megatron_lines(loaded);
  try {
    return lines_of(exported(target, loaded));
  } catch (const Error&) {
    return {};
  }
}

/// In the order of the launch after the change, then what it leaves out.
std::vector<FlagEdit> difference_of(const std::vector<ConfigurationLine>& before,
                                    const std::vector<ConfigurationLine>& after) {
  const auto value_in = [](const std::vector<ConfigurationLine>& lines, const std::string& name) {
    const auto found = std::ranges::find(lines, name, &ConfigurationLine::name);
    return found == lines.end() ? std::string() : found->value;
  };
  std::vector<FlagEdit> edits;
  for (const ConfigurationLine& line : after) {
    const std::string old = value_in(before, line.name);
    if (old != line.value) edits.push_back({line.name, old, line.value});
  }
  for (const ConfigurationLine& line : before) {
    if (value_in(after, line.name).empty()) edits.push_back({line.name, line.value, ""});
  }
  return edits;
}

std::vector<FlagEdit> own_words(const std::vector<Change>& changes) {
  std::vector<FlagEdit> edits;
  for (const Change& change : changes)
    edits.push_back({"--set", "", concat(change.key, "=", change.value)});
  return edits;
}

}  // namespace

std::vector<FlagEdit> flag_edits(const Target* target, const LoadedPlan& before,
                                 const LoadedPlan& after, const std::vector<Change>& changes) {
  if (target == nullptr || target->format.empty()) return own_words(changes);
  const auto launch_before = launch_of(*target, before), launch_after = launch_of(*target, after);
  if (!launch_before || !launch_after) return own_words(changes);  // said elsewhere why
  return difference_of(*launch_before, *launch_after);
}

bool has_launch(const Target& target, const LoadedPlan& loaded) {
  return launch_of(target, loaded).has_value();
}

bool is_in_own_words(const std::vector<FlagEdit>& edits) {
  return std::ranges::all_of(edits, [](const FlagEdit& edit) { return edit.name == "--set"; });
}

std::vector<FlagEdit> as_in_script(std::vector<FlagEdit> edits, const ScriptFlags& script) {
  std::vector<FlagEdit> found;
  for (FlagEdit& edit : edits) {
    const auto said = script.find(edit.name);
    edit.before = said == script.end() ? "" : said->second;
    if (edit.before != edit.after) found.push_back(std::move(edit));
  }
  for (const OtherFlag& other : other_flags) {
    const auto said = script.find(std::string(other.name));
    const bool is_changed = std::ranges::any_of(
        found, [&](const FlagEdit& edit) { return edit.name == other.instead; });
    if (said != script.end() && is_changed) found.push_back({said->first, said->second, ""});
  }
  return found;
}

std::string to_string(const FlagEdit& edit, bool unicode) {
  const auto with_value = [&](const std::string& value) {
    if (value == value_of_switch) return edit.name;
    return concat(edit.name, " ", value);
  };
  if (edit.name == "--set") return with_value(edit.after);
  if (edit.before.empty()) return concat("add ", with_value(edit.after));
  if (edit.after.empty()) return concat("drop ", with_value(edit.before));
  return concat(edit.name, " ", edit.before, unicode ? " → " : " -> ", edit.after);
}

}  // namespace stagecraft
