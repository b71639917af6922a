#include "tools/completion/choices.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "executor/transports/transport.hpp"
#include "planner/analysis/change_kinds.hpp"
#include "planner/analysis/risk.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/importers.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategies.hpp"
#include "planner/targets/targets.hpp"
#include "profiles/cluster.hpp"
#include "profiles/cluster_importers.hpp"
#include "profiles/devices.hpp"
#include "profiles/importers.hpp"
#include "profiles/model.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/values/program.hpp"
#include "tools/options/schedule_argument.hpp"
#include "tools/schemas/schemas.hpp"

namespace stagecraft {

namespace {

/// A description's first line, short enough for a terminal.
std::string one_line(std::string_view text) {
  constexpr std::size_t most = 110;
  std::string line(text.substr(0, text.find('\n')));
  if (line.size() <= most) return line;
  line.resize(line.rfind(' ', most));
  return line + " …";
}

// --- Tables as words
// ------------------------------------------------------------------------------

template <class Rows, class Name>
std::vector<Choice> rows_as_words(const Rows& rows, Name name) {
  std::vector<Choice> words;
  for (const auto& row : rows)
    words.push_back({std::string(row.*name), one_line(std::string(row.summary))});
  return words;
}

std::vector<Choice> plain(const std::vector<std::string>& names) {
  std::vector<Choice> words;
  for (const std::string& name : names) words.push_back({name, ""});
  return words;
}

/// The values of an enumeration by their names.
template <class Value, std::size_t count>
std::vector<Choice> named(const std::array<Value, count>& values) {
  std::vector<Choice> words;
  for (const Value value : values) words.push_back({std::string(to_string(value)), ""});
  return words;
}

std::vector<Choice> operator+(std::vector<Choice> all, const std::vector<Choice>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// What is between a word and its value.
std::vector<Choice> with_equals(std::vector<Choice> words) {
  for (Choice& choice : words) choice.word += '=';
  return words;
}

/// Names alone: who looks for an alias has typed it.
std::vector<Choice> schedule_words() {
  return rows_as_words(schedule_kinds, &ScheduleKind::name);
}

std::vector<Choice> framework_words() {
  std::vector<Choice> words;
  for (const Target* target : newest_targets())
    words.push_back({std::string(target->name), concat(target->system, " ", target->version)});
  return words;
}

/// Devices of a cluster, and whole clusters.
std::vector<Choice> cluster_words() {
  return plain(builtin_device_kinds()) + plain(builtin_clusters());
}

/// What `plan --set` knows without a number in it.
std::vector<Choice> change_words() {
  std::vector<Choice> words;
  for (const ChangeKind& kind : change_kinds()) {
    std::string key(kind.key);
    if (const std::size_t number = key.find('N'); number != std::string::npos)
      key.replace(number, 1, "0");
    words.push_back({key, std::string(kind.summary)});
  }
  return words;
}

std::vector<Choice> import_words() {
  std::vector<Choice> words = rows_as_words(importers, &Importer::name) +
                              rows_as_words(plan_importers, &PlanImporter::name) +
                              rows_as_words(cluster_importers, &ClusterImporter::name);
  // One name may stand for a profile and for a plan.
  std::vector<Choice> once;
  for (const Choice& choice : words) {
    if (std::ranges::find(once, choice.word, &Choice::word) == once.end()) once.push_back(choice);
  }
  return once;
}

std::vector<Choice> risk_words() {
  std::vector<Choice> words;
  for (const RiskLevel& level : risk_levels) words.push_back({std::string(level.name), ""});
  return words;
}

std::vector<Choice> transport_words() {
  return rows_as_words(transport_makers, &TransportMaker::name);
}

constexpr std::array all_precisions{Precision::float32,
                                    Precision::bfloat16,
                                    Precision::float16,
                                    Precision::float8,
                                    Precision::float8_with_attention,
                                    Precision::float64};
constexpr std::array all_optimizers{OptimizerKind::adamw, OptimizerKind::sgd};
constexpr std::array all_objectives{ObjectiveKind::step, ObjectiveKind::throughput,
                                    ObjectiveKind::latency, ObjectiveKind::cost};
constexpr std::array all_norms{GradientNorm::none, GradientNorm::global,
                               GradientNorm::post_validated};

// --- Which table a place reads
// --------------------------------------------------------------------

/// By what help texts call a value.
struct ByValue {
  std::string_view value;
  Choices (*choices)();
};

const std::vector<ByValue>& by_value() {
  static const std::vector<ByValue> rows{
      {"MODEL", [] { return Choices{.words = plain(builtin_models()), .files = true}; }},
      {"MODEL|links",
       [] {
         return Choices{
             std::vector<Choice>{{"links", "copies, messages and sums"}} + plain(builtin_models()),
             true};
       }},
      {"CLUSTER", [] { return Choices{.words = cluster_words(), .files = true, .counted = true}; }},
      {"SCHEDULE", [] { return Choices{.words = schedule_words(), .files = true}; }},
      {"PLAN|SCHEDULE", [] { return Choices{.words = schedule_words(), .files = true}; }},
      {"SCHEMA", [] { return Choices{rows_as_words(schemas(), &Schema::name)}; }},
      {"A,B|auto",
       [] {
         return Choices{
             .words = std::vector<Choice>{{"auto", "those worth trying"}} + schedule_words(),
             .is_list = true};
       }},
      {"A,B",
       [] {
         return Choices{.words = plain({"memory", "throughput"}), .is_list = true};
       }},
      {"KEY=VALUE", [] { return Choices{with_equals(change_words())}; }},
      {"NAMES", [] { return Choices{.words = change_words(), .is_list = true}; }},
      {"KIND", [] { return Choices{plain(builtin_device_kinds())}; }},
      {"KIND=P/h", [] { return Choices{with_equals(plain(builtin_device_kinds()))}; }},
      {"LEVEL", [] { return Choices{risk_words()}; }},
      {"F",
       [] {
         return Choices{plain({schedule_formats.begin(), schedule_formats.end()})};
       }},
      {"DEVICE",
       [] {
         return Choices{plain({"cpu", "cuda:0"})};
       }},
      {"N|auto", [] { return Choices{plain({"auto"})}; }},
      {"DIR", [] { return Choices{.folders = true}; }},
  };
  return rows;
}

/// By the option, where several values are called alike.
struct ByOption {
  std::string_view option;
  Choices (*choices)();
};

const std::vector<ByOption>& by_option() {
  static const std::vector<ByOption> rows{
      {"--for", [] { return Choices{framework_words()}; }},
      {"--strategy", [] { return Choices{rows_as_words(strategies, &Strategy::name)}; }},
      {"--schedule",
       [] { return Choices{.words = schedule_words(), .files = true, .is_list = true}; }},
      {"--precision", [] { return Choices{named(all_precisions)}; }},
      {"--optimizer", [] { return Choices{named(all_optimizers)}; }},
      {"--sharding", [] { return Choices{named(shardings)}; }},
      {"--objective", [] { return Choices{named(all_objectives)}; }},
      {"--norm", [] { return Choices{named(all_norms)}; }},
      {"--backend",
       [] {
         return Choices{plain({"cpu", "cuda", "sleep"})};
       }},
      {"--transport", [] { return Choices{transport_words()}; }},
  };
  return rows;
}

/// In these values any file may stand.
bool is_file(std::string_view value) {
  constexpr std::array words{"FILE", "PLAN", "TRACE", "MEASURED", "SCRIPT"};
  return std::ranges::any_of(
      words, [&](std::string_view word) { return value.find(word) != std::string_view::npos; });
}

/// "{a,b}" in what CLI11 says of a value that must be one of a set.
std::vector<Choice> set_in(const std::string& type) {
  const std::size_t open = type.find(":{");
  if (open == std::string::npos || type.back() != '}') return {};
  return plain(split(std::string_view(type).substr(open + 2, type.size() - open - 3), ','));
}

Choices choices_for(std::string_view verb, const std::vector<std::string>& names,
                    const std::string& type) {
  if (auto words = set_in(type); !words.empty())
    return {.words = std::move(words), .is_closed = true};
  const std::string value = type.substr(0, type.find(':'));
  if (value == "FORMAT") {
    return {.words = verb == "import" ? import_words() : rows_as_words(exporters, &Exporter::name)};
  }
  for (const ByValue& row : by_value()) {
    if (row.value == value) return row.choices();
  }
  for (const ByOption& row : by_option()) {
    if (std::ranges::find(names, row.option) != names.end()) return row.choices();
  }
  return {.files = is_file(value)};
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name(true));
  return names;
}

OptionWords option_words(std::string_view verb, const CLI::Option& option) {
  OptionWords words{.names = names_of(option), .help = one_line(option.get_description())};
  if (option.get_items_expected_max() == 0) return words;
  const std::string type = option.get_type_name();
  words.value = type.substr(0, type.find(':'));
  words.type = type.find(":INT") != std::string::npos ? "integer"
               : type.find(":FLOAT") != std::string::npos || type.find(":POSITIVE") != type.npos
                   ? "number"
                   : "text";
  words.is_repeated = option.get_expected_max() > 1;
  words.is_required = option.get_required();
  words.choices = choices_for(verb, words.names, type);
  return words;
}

}  // namespace

VerbWords words_of(std::string_view verb, std::string_view help, const CLI::App& app) {
  VerbWords words{.name = std::string(verb), .help = std::string(help)};
  for (const CLI::Option* option : app.get_options()) {
    (option->get_positional() ? words.arguments : words.options)
        .push_back(option_words(verb, *option));
  }
  return words;
}

}  // namespace stagecraft
