// stagecraft model list | show MODEL: what a model consists of.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "profiles/profile.hpp"
#include "tools/commands.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ModelArguments {
  std::string what = "list";
  std::string model;
  std::int64_t sequence = 0;
};

int list(Console& console) {
  Table table({"name", ">layers", ">parameters", ">sequence"});
  ordered_json rows = ordered_json::array();
  for (const std::string& name : builtin_models()) {
    const Model model = builtin_model(name);
    table.row({name, std::to_string(model.layers.size()), grouped(parameters(model)),
               model.sequence > 0 ? std::to_string(model.sequence) : "-"});
    rows.push_back(
        {{"name", name}, {"layers", model.layers.size()}, {"parameters", parameters(model)}});
  }
  console.print(table.text(console.unicode()));
  console.result({{"models", std::move(rows)}});
  return 0;
}

/// Bytes of a layer's output for one sample: as measured, or bf16 where nothing was.
Bytes output_bytes(const Profile& profile, std::size_t layer) {
  if (!profile.entries.empty()) return profile.entries.front().layers.at(layer).output;
  return profile.model.layers[layer].output_elements * element_bytes(Precision::bfloat16);
}

ordered_json model_json(const Profile& profile) {
  const Model& model = profile.model;
  ordered_json layers = ordered_json::array();
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    layers.push_back({{"name", layer.name},
                      {"kind", to_string(layer.kind)},
                      {"parameters", layer.parameters},
                      {"flops_forward", layer.flops_forward},
                      {"output_bytes", output_bytes(profile, i)}});
  }
  ordered_json result{{"name", model.name}, {"parameters", parameters(model)}};
  if (model.sequence > 0) result["sequence"] = model.sequence;
  result["layers"] = std::move(layers);
  return result;
}

/// Equal neighbours in one line: a transformer fits on a screen.
std::string layer_table(const Profile& profile, bool unicode) {
  Table table({">layer", "name", "kind", ">parameters", ">forward GFLOP", ">output"});
  const std::vector<Layer>& layers = profile.model.layers;
  const auto alike = [&](std::size_t a, std::size_t b) {
    return layers[a].kind == layers[b].kind && layers[a].parameters == layers[b].parameters &&
           layers[a].flops_forward == layers[b].flops_forward &&
           output_bytes(profile, a) == output_bytes(profile, b);
  };
  for (std::size_t first = 0, end = 0; first < layers.size(); first = end) {
    for (end = first + 1; end < layers.size() && alike(first, end);) ++end;
    const Layer& layer = layers[first];
    const bool several = end - first > 1;
    table.row({several ? fmt::format("{}-{}", first, end - 1) : std::to_string(first),
               several ? layer.name + " .. " + layers[end - 1].name : layer.name,
               std::string(to_string(layer.kind)),
               grouped(layer.parameters) + (several ? " each" : ""),
               fmt::format("{:.4g}", layer.flops_forward / 1e9),
               format_bytes(output_bytes(profile, first))});
  }
  return table.text(unicode);
}

int show(Console& console, const ModelArguments& arguments) {
  if (arguments.model.empty())
    fail_usage("model show needs a MODEL: a built-in name (stagecraft model list) or a file");
  LoadedProfile loaded = load_profile(arguments.model);
  console.input(loaded.path, loaded.hash);
  if (arguments.sequence > 0)
    loaded.profile.model = with_sequence(loaded.profile.model, arguments.sequence);
  const Model& model = loaded.profile.model;
  console.artefact(write_model(model));
  console.print(fmt::format("{}: {} layers, {} parameters{}\n", model.name, model.layers.size(),
                            grouped(parameters(model)),
                            model.ties.empty() ? "" : " (tied weights counted once)"));
  console.print(layer_table(loaded.profile, console.unicode()));
  console.result(model_json(loaded.profile));
  return 0;
}

}  // namespace

Action declare_model(CLI::App& app) {
  auto arguments = std::make_shared<ModelArguments>();
  app.add_option("what", arguments->what, "list or show")
      ->type_name("list|show")
      ->check(CLI::IsMember({"list", "show"}));
  app.add_option("model", arguments->model, "A built-in name or a file")->type_name("MODEL");
  app.add_option("--sequence", arguments->sequence, "Tokens per sample, instead of the model's own")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  return [arguments](Console& console) {
    return arguments->what == "list" ? list(console) : show(console, *arguments);
  };
}

}  // namespace stagecraft
