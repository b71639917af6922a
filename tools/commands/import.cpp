// stagecraft import FORMAT FILE: somebody else's file as ours.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/profile.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

struct ImportArguments {
  std::string format;
  std::string file;
};

const Importer& find_importer(const std::string& name) {
  std::vector<std::string> known;
  for (const Importer& importer : importers) {
    if (importer.name == name) return importer;
    known.emplace_back(importer.name);
  }
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

int import_file(Console& console, const ImportArguments& arguments) {
  const Importer& importer = find_importer(arguments.format);
  const std::string content = read_file(arguments.file);
  console.input(arguments.file, content_hash(content));
  const Profile profile = importer.import(content, arguments.file);
  for (const std::string& warning : profile.warnings) console.note(warning);
  const Model& model = profile.model;
  const std::string file = as_our_file(profile);
  const bool written = console.artefact(file);
  // Without -o the file itself is the result, for `stagecraft import … > model.json`.
  if (!written && !console.person_reads_output()) {
    console.print(file);
  } else {
    console.print(
        fmt::format("{}: {} layers, {} parameters{}\n", model.name, model.layers.size(),
                    grouped(parameters(model)),
                    profile.entries.empty()
                        ? ", no costs"
                        : fmt::format(", forward and backward {} per {}",
                                      format_duration(total_time(profile.entries.front().layers)),
                                      to_string(profile.entries.front().setting))));
  }
  console.result({{"name", model.name},
                  {"layers", model.layers.size()},
                  {"edges", model.edges.size()},
                  {"parameters", parameters(model)},
                  {"has_costs", !profile.entries.empty()},
                  {"source", profile.source}});
  return 0;
}

}  // namespace

Action declare_import(CLI::App& app) {
  auto arguments = std::make_shared<ImportArguments>();
  std::string formats;
  for (const Importer& importer : importers)
    formats += concat(formats.empty() ? "" : "; ", importer.name, ": ", importer.summary);
  app.add_option("format", arguments->format, formats)->type_name("FORMAT")->required();
  app.add_option("file", arguments->file, "The file; - is standard input")
      ->type_name("FILE")
      ->required();
  return [arguments](Console& console) { return import_file(console, *arguments); };
}

}  // namespace stagecraft
