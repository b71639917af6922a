// stagecraft export FORMAT PLAN: a plan in another system's format.

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "planner/analysis/frameworks.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/load_plan.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/timeline_files.hpp"

namespace stagecraft {
namespace {

struct ExportArguments {
  std::string format;
  std::string plan;
};

void print_notes(Console& console, const Exporter& exporter, const LoadedPlan& loaded) {
  if (exporter.notes == nullptr) return;
  for (const std::string& note : exporter.notes(loaded)) console.note(note);
}

/// The newest framework that reads the format; null where it is no framework's.
const Target* framework_of(const Exporter& exporter) {
  for (const Target* target : newest_targets()) {
    if (target->name == exporter.name) return target;
  }
  for (const Target* target : newest_targets()) {
    if (target->format == exporter.name) return target;
  }
  return nullptr;
}

/// What leads on from a plan that a framework does not run: a plan for it, and where this one runs.
std::vector<std::string> remedies_for(const Target& target, const LoadedPlan& loaded) {
  std::vector<std::string> help;
  const Plan& plan = loaded.plan;
  const Model& model = loaded.profile.model;
  const bool has_model = reasons_against_model(target, model).empty() &&
                         (model.transformer.has_value() || !target.only_transformers);
  if (has_model) {
    help.push_back(concat("stagecraft plan ", plan.model, " ", plan.cluster, " --batch ",
                          plan.batch.global, " --for ", target.name, " -o FILE plans what ",
                          target.system, " runs"));
  }
  std::vector<std::string> others;
  bool is_for_us = false;
  for (const Target* other : frameworks_of(loaded)) {
    if (other->format.empty()) {
      is_for_us = true;
    } else {
      others.emplace_back(other->name);
    }
  }
  if (!others.empty())
    help.push_back(concat("it runs in ", join_words(others), ": stagecraft export ", others.front(),
                          " ", loaded.path));
  if (is_for_us) help.push_back(concat("stagecraft run ", loaded.path, " carries it out"));
  return help;
}

/// Writes it; where the plan does not run in the format's framework, the error says what does.
template <class Write>
auto written(const Exporter& exporter, const LoadedPlan& loaded, Write write) {
  try {
    return write(loaded);
  } catch (const Error& error) {
    const Target* target = framework_of(exporter);
    const bool runs =
        target == nullptr ||
        reasons_against(exporter, loaded.plan, loaded.profile.model, loaded.cluster).empty();
    if (runs || error.kind() != ErrorKind::input || !error.help().empty()) throw;
    throw Error(error.kind(), error.message(), error.place(), remedies_for(*target, loaded));
  }
}

int export_files(Console& console, const Exporter& exporter, const LoadedPlan& loaded) {
  const std::string& name = console.options().output;
  if (name == "-")
    fail_usage("-o -: ", exporter.name, " takes several files; give a name for them");
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  const std::vector<ExportedFile> files = written(exporter, loaded, exporter.write_files);
  print_notes(console, exporter, loaded);
  for (const ExportedFile& file : files) {
    write_file(name + file.suffix, file.content);
    names.push_back(name + file.suffix);
  }
  const auto first = names.front().get<std::string>();
  const auto last = names.back().get<std::string>();
  console.print(names.size() == 1 ? concat(first, "\n")
                                  : concat(first, " … ", last, ": ", names.size(), " files\n"));
  console.result({{"format", exporter.name}, {"files", names}});
  return 0;
}

/// By the file's ending; a large plan's goes to a file of another name in the format that is a
/// tenth as large.
bool wants_native(const Console& console, const Plan& plan) {
  const std::string& name = console.options().output;
  if (is_native_trace(name)) return true;
  if (name.empty() || name.ends_with(".json")) return false;
  std::int64_t passes = 0;
  for (const Stage& stage : plan.stages)
    passes += std::ssize(stage.devices) * plan.batch.microbatches;
  constexpr std::int64_t many = 2'000;
  return passes > many;
}

int export_plan(Console& console, const ExportArguments& arguments) {
  const Exporter& exporter = find_exporter(arguments.format);
  if (exporter.write_files != nullptr && console.options().output.empty())
    fail_usage("export ", exporter.name, " writes several files; say with -o NAME how they begin");
  const LoadedPlan loaded = load_plan(arguments.plan);
  console.input(loaded.path, loaded.hash);
  if (exporter.write_files != nullptr) return export_files(console, exporter, loaded);
  if (exporter.write == export_perfetto && wants_native(console, loaded.plan)) {
    console.artefact(export_perfetto_native(loaded));
    console.result({{"format", exporter.name}, {"file", console.options().output}});
    return 0;
  }
  const std::string text = written(exporter, loaded, exporter.write);
  print_notes(console, exporter, loaded);
  if (!console.artefact(text)) console.print(text);
  console.result({{"format", exporter.name}, {"text", text}});
  return 0;
}

}  // namespace

Action declare_export(CLI::App& app) {
  auto arguments = std::make_shared<ExportArguments>();
  std::string formats;
  for (const Exporter& exporter : exporters)
    formats += concat(formats.empty() ? "" : "; ", exporter.name, ": ", exporter.summary);
  app.add_option("format", arguments->format, formats)->type_name("FORMAT")->required();
  app.add_option("plan", arguments->plan, "Plan file; - is standard input")
      ->type_name("PLAN")
      ->required();
  return [arguments](Console& console) { return export_plan(console, *arguments); };
}

}  // namespace stagecraft
