#include "planner/interop/importers/launch/ranks.hpp"

#include <algorithm>

#include "planner/interop/importers/launch/dialects.hpp"
#include "planner/interop/importers/launch/flag_text.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// A number of ranks, at least one.
bool is_count(const std::string& value) {
  return !value.empty() && value.size() < 10 &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         value.find_first_not_of('0') != std::string::npos;
}

std::string note_of_unknown(const FlagWord& word, const std::string& value,
                            FlagReading::Kind kind) {
  std::string name = word.missing.empty() ? "" : word.missing.front().name;
  if (kind != FlagReading::Kind::shell)
    name = word.missing.empty() ? "" : word.missing.front().setting;
  const std::string remedy = name.empty() ? "" : concat("; --set ", name, "=… says it");
  return concat(word.place.file, ":", word.place.line, ": --", word.name, " ", value,
                " is no number", remedy, "; all devices of the cluster are taken");
}

}  // namespace

void LaunchRanks::take(const FlagWord& word, FlagReading::Kind kind, ParsedLaunch& parsed) {
  const std::string value = word.value.value_or("");
  if (!is_count(value)) {
    if (value != "-1") unknown_.push_back(note_of_unknown(word, value, kind));
    are_known_ = false;
    return;
  }
  FlagWord flag = word;
  flag.missing.clear();
  flag.is_next_word = false;
  if (word.name == "ranks") flag.name = "world-size";
  if (word.name == "tasks-per-node") {
    parsed.tasks_per_node = std::stoi(value);
  } else if (word.name == "gpus-per-node") {
    parsed.gpus_per_node = std::stoi(value);
  } else if (word.name == "ranks") {
    ranks_ = std::stoi(value);
  } else {
    take_megatron_flag(flag, parsed.launch.flags);
  }
  const bool is_recipe = kind == FlagReading::Kind::yaml || kind == FlagReading::Kind::json;
  if (is_recipe && word.name == "nproc-per-node")
    nodes_setting_ = setting_of({.name = word_of_nodes(parsed.dialect), .section = word.section});
  note_understood(word, kind, parsed);
}

void LaunchRanks::take_section(const FlagLaunch& launch, std::string_view section,
                               FlagReading::Kind kind, ParsedLaunch& parsed) {
  for (const FlagWord& word : launch.words) {
    if (word.section == section) take(word, kind, parsed);
  }
}

void LaunchRanks::take_environment(const FlagLaunch& launch, FlagReading::Kind kind,
                                   ParsedLaunch& parsed) {
  if (parsed.dialect != Dialect::swift) return;
  for (const auto& [name, word] : launch.environment) {
    FlagWord flag = word;
    flag.name = plain_flag_name(name == "NNODES" ? "nnodes" : "nproc-per-node");
    take(flag, kind, parsed);
  }
}

void LaunchRanks::settle(ParsedLaunch& parsed) const {
  MegatronFlags& flags = parsed.launch.flags;
  if (!are_known_) {
    flags.world.reset();
    flags.processes.reset();
    flags.nodes.reset();
    auto& notes = parsed.launch.notes;
    notes.insert(notes.end(), unknown_.begin(), unknown_.end());
    return;
  }
  // A recipe may leave their number to who starts it.
  if (flags.processes && !flags.nodes && !flags.world) flags.open_nodes = nodes_setting_;
  if (flags.world || flags.processes) return;
  if (ranks_) {
    flags.world = ranks_;
  } else if (parsed.tasks_per_node && parsed.tasks_per_node.value() > 1) {
    flags.processes = parsed.tasks_per_node;
  } else if (parsed.gpus_per_node && flags.nodes) {
    flags.processes = parsed.gpus_per_node;
  }
  if (!flags.processes && !flags.world) flags.nodes.reset();
}

}  // namespace stagecraft
