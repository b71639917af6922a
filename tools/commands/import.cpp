// stagecraft import FORMAT FILE: somebody else's file as ours: a model or profile, a cluster, or,
// with --model and --cluster, a plan.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/calibration/script_model.hpp"
#include "planner/interop/importers.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/profile.hpp"
#include "profiles/text.hpp"
#include "simulator/values/measured_steps.hpp"
#include "simulator/views/kineto_run.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/cluster_import.hpp"
#include "tools/inputs/measured_trace.hpp"
#include "tools/options/plan_options.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view trace_format = "\"stagecraft-trace/1\"";

struct ImportArguments {
  std::string format;
  std::string file;
  std::string device;
  PlanFlags plan;
};

/// The row of a table by its name, or nullptr.
template <class Row, std::size_t count>
const Row* find_row(const std::array<Row, count>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

[[noreturn]] void fail_unknown_format(const std::string& name) {
  std::vector<std::string> known;
  for (const Importer& importer : importers) known.emplace_back(importer.name);
  for (const PlanImporter& importer : plan_importers) {
    if (find_row(importers, std::string(importer.name)) == nullptr)
      known.emplace_back(importer.name);
  }
  for (const std::string& format : cluster_import_names()) known.push_back(format);
  fail_unknown("import format", name, known);
}

/// Ours for what was imported: a profile where costs came along, else a model.
std::string as_our_file(const Profile& profile) {
  return profile.entries.empty() ? write_model(profile.model) : write_profile(profile);
}

Duration total_time(const std::vector<LayerCost>& costs) {
  Duration sum{0};
  for (const LayerCost& cost : costs) sum += cost.forward + cost.backward();
  return sum;
}

int show_profile(Console& console, const Profile& profile) {
  for (const std::string& warning : profile.warnings) console.note(warning);
  const Model& model = profile.model;
  const std::string file = as_our_file(profile);
  const bool written = console.artefact(file);
  // Without -o the file itself is the result, for `stagecraft import … > model.json`.
  if (!written && !console.person_reads_output()) {
    console.print(file);
  } else {
    console.print(fmt::format(
        "{}: {}, {} parameters{}\n", model.name, number_of(std::ssize(model.layers), "layer"),
        grouped(parameters(model) - prediction_parameters(model)),
        profile.entries.empty()
            ? ", no costs"
            : fmt::format(", forward and backward {} per {}",
                          format_duration(total_time(profile.entries.front().layers)),
                          to_string(profile.entries.front().setting))));
  }
  console.result({{"name", model.name},
                  {"layers", model.layers.size()},
                  {"edges", model.edges.size()},
                  {"parameters", parameters(model) - prediction_parameters(model)},
                  {"has_costs", !profile.entries.empty()},
                  {"source", profile.source}});
  return 0;
}

int import_profile(Console& console, const Importer& importer, const std::string& content,
                   const std::string& path) {
  return show_profile(console, importer.import(content, path));
}

/// The model that a launch of Megatron-LM describes; nothing where it describes none.
std::optional<int> import_model_of_script(Console& console, const std::string& content,
                                          const std::string& path) {
  const auto script = model_of_script(content, path, {});
  if (!script) return {};
  console.note(concat("this is the model of the launch; with --cluster CLUSTER it is the plan"));
  if (!script->builtin.empty())
    console.note(concat("its flags are those of the built-in model ", script->builtin));
  if (!script->has_vocabulary)
    console.note("the launch has no --vocab-size; GPT-2's is taken, as Megatron-LM does");
  return show_profile(console, {.model = script->model, .entries = {}, .source = path});
}

/// MODEL as the flags say, or what the file names, or the file itself where it has layers beside
/// its stages.
PlanFlags with_model(const PlanImporter& plans, PlanFlags flags, const std::string& content,
                     const std::string& path) {
  if (!flags.model.empty()) return flags;
  flags.model = model_in_file(plans, content, path, flags);
  if (!flags.model.empty()) return flags;
  for (const Importer& importer : importers) {
    if (importer.recognise(content) && path != "-") flags.model = path;
  }
  if (!flags.model.empty()) return flags;
  std::vector<std::string> missing{"--model MODEL"};
  if (flags.cluster.empty()) missing.emplace_back("--cluster CLUSTER");
  const std::string open =
      plans.open_flag == nullptr || flags.batch > 0 ? "" : plans.open_flag(content, path);
  if (!open.empty()) missing.push_back(open);
  const std::string last = missing.back();
  missing.pop_back();
  fail_usage("the file is a plan and has no layers of its own; add ",
             fmt::format("{}", fmt::join(missing, ", ")), missing.empty() ? "" : " and ", last);
}

/// What of the file did not go into the plan: a line each on standard error.
void warn_of_rest(Console& console, const ImportedPlan& imported) {
  const auto warn = [&](std::string_view what, const std::vector<ReadText>& texts) {
    for (const ReadText& text : texts) {
      std::string place = text.place.file;
      if (text.place.line > 0) place += concat(":", text.place.line);
      console.warn(concat(what, ": ", text.text, " (", place, ")"));
    }
  };
  warn("not modelled", imported.not_modelled);
  warn("not known", imported.unknown);
}

nlohmann::ordered_json texts_json(const std::vector<ReadText>& texts) {
  auto json = nlohmann::ordered_json::array();
  for (const ReadText& text : texts) {
    json.push_back({{"text", text.text}, {"file", text.place.file}, {"line", text.place.line}});
  }
  return json;
}

int import_stages(Console& console, const PlanImporter& importer, const std::string& content,
                  const ImportArguments& arguments) {
  const std::string& path = arguments.file;
  const PlanFlags flags = with_model(importer, arguments.plan, content, path);
  const PlanQuestion question = question_from(console, flags);
  const ImportedPlan imported = import_plan(importer, content, path, question);
  for (const OtherFile& other : imported.others)
    console.input(other.path, content_hash(other.content));
  for (const std::string& note : imported.notes) console.note(note);
  warn_of_rest(console, imported);
  const std::string file = write_plan(imported.plan);
  const bool written = console.artefact(file);
  if (!written && !console.person_reads_output()) {
    console.print(file);
  } else {
    const Model model = in_plan_order(question.profile, imported.plan).model;
    console.print(plan_words(imported.plan, model, console.unicode()) + "\n");
  }
  console.result({{"plan", nlohmann::ordered_json::parse(file)},
                  {"stages", imported.plan.stages.size()},
                  {"uses_devices", used_devices(imported.plan).size()},
                  {"understood", texts_json(imported.understood)},
                  {"not_modelled", texts_json(imported.not_modelled)},
                  {"unknown", texts_json(imported.unknown)}});
  return 0;
}

/// Whether the file is a run, as programs of `stagecraft.torch` record them with --kineto or
/// --profile, rather than the trace of a model's layers.
bool is_run(const ImportArguments& arguments) {
  if (arguments.format != "kineto") return false;
  if (fs::is_directory(arguments.file)) return true;
  if (!fs::is_regular_file(arguments.file)) return false;
  const std::string content = read_file(arguments.file);
  return is_kineto_run(content) || content.find(trace_format) != std::string::npos;
}

/// The run's timeline as our own file, for compare, calibrate and report.
int import_run(Console& console, const ImportArguments& arguments) {
  if (arguments.plan.any()) {
    fail_usage(
        "an import of a run is a timeline; flags of plans, such as --cluster, have no place ",
        "there");
  }
  const Trace trace = read_measured_trace(console, arguments.file).trace;
  const Timeline& timeline = trace.timeline;
  int steps = 0;
  for (const Span& span : timeline.spans) steps = std::max(steps, span.iteration + 1);
  const Duration step = step_time(median_iteration(timeline));
  const std::string file = write_trace(trace);
  const bool written = console.artefact(file);
  if (!written && !console.person_reads_output()) {
    console.print(file);
  } else {
    console.print(fmt::format("{}, {} microbatches, {} processes: {}, median {}\n",
                              number_of(timeline.stages, "stage"), timeline.microbatches,
                              timeline.devices, number_of(steps, "step"), format_duration(step)));
  }
  console.result({{"steps", steps},
                  {"processes", timeline.devices},
                  {"stages", timeline.stages},
                  {"microbatches", timeline.microbatches},
                  {"step_ns", step.count()}});
  return 0;
}

/// Of flags of plans, only --cluster says something about a cluster.
int import_machine_file(Console& console, const ImportArguments& arguments) {
  PlanFlags others = arguments.plan;
  others.cluster.clear();
  if (others.any()) {
    fail_usage("an import of ", arguments.format,
               " is a cluster; flags of models and plans have no place there");
  }
  return import_cluster(console, {.format = arguments.format,
                                  .file = arguments.file,
                                  .device = arguments.device,
                                  .cluster = arguments.plan.cluster});
}

int import_file(Console& console, const ImportArguments& arguments) {
  if (imports_cluster(arguments.format)) return import_machine_file(console, arguments);
  if (!arguments.device.empty())
    fail_usage("--device is for imports of clusters: ", join_words(cluster_import_names()));
  if (is_run(arguments)) return import_run(console, arguments);
  const Importer* profiles = find_row(importers, arguments.format);
  const PlanImporter* plans = find_row(plan_importers, arguments.format);
  if (profiles == nullptr && plans == nullptr) fail_unknown_format(arguments.format);
  if (plans == nullptr && arguments.plan.any()) {
    fail_usage("an import of ", arguments.format,
               " is a model or a profile; flags of plans, such as --cluster, have no place there");
  }
  const std::string content = read_file(arguments.file);
  console.input(arguments.file, content_hash(content));
  const bool has_profile = profiles != nullptr && !arguments.plan.any() &&
                           (profiles->recognise(content) || !plans || !plans->recognise(content));
  if (arguments.format == "megatron" && !arguments.plan.any()) {
    if (const auto code = import_model_of_script(console, content, arguments.file)) return *code;
  }
  return has_profile ? import_profile(console, *profiles, content, arguments.file)
                     : import_stages(console, *plans, content, arguments);
}

}  // namespace

Action declare_import(CLI::App& app) {
  auto arguments = std::make_shared<ImportArguments>();
  std::string formats;
  for (const Importer& importer : importers)
    formats += concat(formats.empty() ? "" : "; ", importer.name, ": ", importer.summary);
  for (const PlanImporter& importer : plan_importers)
    formats += concat("; ", importer.name, ": ", importer.summary);
  formats += cluster_import_summaries();
  app.add_option("format", arguments->format, formats)->type_name("FORMAT")->required();
  app.add_option("file", arguments->file, "File to import; - is standard input")
      ->type_name("FILE")
      ->required();
  app.add_option("--device", arguments->device,
                 "With clusters: device kind, if the file does not name it")
      ->type_name("KIND");
  declare_plan_flags(app, arguments->plan);
  return [arguments](Console& console) { return import_file(console, *arguments); };
}

}  // namespace stagecraft
