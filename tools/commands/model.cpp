// stagecraft model list | show MODEL: what a model consists of.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiles/importers.hpp"
#include "profiles/operations.hpp"
#include "profiles/prediction_modules.hpp"
#include "profiles/profile.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/arguments.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ModelArguments {
  std::string what = "list";
  std::string model;
  std::int64_t sequence = 0;
  bool flops = false;
  bool without_prediction = false;
  std::int64_t batch = 1;
};

/// Without modules for multi-token prediction, which are told apart.
std::int64_t own_parameters(const Model& model) {
  return parameters(model) - prediction_parameters(model);
}

int list_models(Console& console) {
  Table table({"name", ">layers", ">parameters", ">sequence"});
  ordered_json rows = ordered_json::array();
  for (const std::string& name : builtin_models()) {
    const Model model = builtin_model(name);
    table.row({name, std::to_string(model.layers.size()), grouped(own_parameters(model)),
               model.sequence > 0 ? std::to_string(model.sequence) : "-"});
    rows.push_back(
        {{"name", name}, {"layers", model.layers.size()}, {"parameters", own_parameters(model)}});
  }
  console.print(table.text(console.unicode()));
  console.print(concat("and any config.json of Hugging Face transformers of the families ",
                       join_words(huggingface_families()), "\n"));
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
    if (!layer.steps.empty()) layers.back()["made_of"] = in_words(layer.steps);
  }
  ordered_json result{{"name", model.name}, {"parameters", own_parameters(model)}};
  if (prediction_parameters(model) > 0)
    result["prediction_parameters"] = prediction_parameters(model);
  if (model.sequence > 0) result["sequence"] = model.sequence;
  result["layers"] = std::move(layers);
  return result;
}

/// Equal neighbours in one line: a transformer fits on a screen.
std::string layer_table(const Profile& profile, bool unicode) {
  const std::vector<Layer>& layers = profile.model.layers;
  const bool stepped = std::any_of(layers.begin(), layers.end(),
                                   [](const Layer& layer) { return !layer.steps.empty(); });
  std::vector<std::string> columns{">layer",      "name",           "kind",
                                   ">parameters", ">forward GFLOP", ">output"};
  if (stepped) columns.emplace_back("made of");
  Table table(columns);
  const auto alike = [&](std::size_t a, std::size_t b) {
    return layers[a].kind == layers[b].kind && layers[a].parameters == layers[b].parameters &&
           layers[a].flops_forward == layers[b].flops_forward &&
           layers[a].steps == layers[b].steps &&
           output_bytes(profile, a) == output_bytes(profile, b);
  };
  for (std::size_t first = 0, end = 0; first < layers.size(); first = end) {
    for (end = first + 1; end < layers.size() && alike(first, end);) ++end;
    const Layer& layer = layers[first];
    const bool several = end - first > 1;
    std::vector<std::string> row{
        several ? fmt::format("{}-{}", first, end - 1) : std::to_string(first),
        several ? layer.name + " .. " + layers[end - 1].name : layer.name,
        std::string(to_string(layer.kind)),
        grouped(layer.parameters) + (several ? " each" : ""),
        readable(layer.flops_forward / 1e9),
        format_bytes(output_bytes(profile, first))};
    if (stepped) row.push_back(in_words(layer.steps));
    table.row(row);
  }
  return table.text(unicode);
}

/// Multiply-adds of a layer's forward pass for a batch: of products with weights, one for each
/// element of a norm (both as DeepSpeed's profiler counts), and of attention, which that leaves
/// out.
struct LayerMacs {
  double products = 0;
  double norms = 0;
  double attention = 0;
};

LayerMacs macs_of_operations(const Model& model, const Layer& layer, std::int64_t batch) {
  if (!model.transformer) return {.products = static_cast<double>(batch) * layer.flops_forward / 2};
  const WorkSetting setting{
      .microbatch = batch, .sequence = model.sequence, .fused_attention = false};
  LayerMacs macs;
  const auto work = layer_operations(*model.transformer, layer, setting);
  for (const Operation& operation : work.operations) {
    if (operation.pass != Pass::forward) continue;
    (operation.core_attention ? macs.attention : macs.products) += operation.flops / 2;
    if (operation.name.ends_with("norm"))
      macs.norms += operation.bytes / (2 * static_cast<double>(element_bytes(setting.precision)));
  }
  return macs;
}

/// Of a layer with steps: as above, but windows and chosen keys count as the keys in them, which
/// unfused attention would all compute; states of recurrences count as attention.
LayerMacs macs_of_steps(const Model& model, const Layer& layer, std::int64_t batch) {
  LayerMacs macs{.norms = macs_of_operations(model, layer, batch).norms};
  const auto tokens = static_cast<double>(model.sequence);
  for (const Step& step : layer.steps) {
    const double linear = static_cast<double>(batch) * linear_flops(step, tokens) / 2;
    (step.kind == StepKind::recurrence ? macs.attention : macs.products) += linear;
    macs.attention += static_cast<double>(batch) * attention_flops(step, tokens) / 2;
  }
  return macs;
}

LayerMacs layer_macs(const Model& model, const Layer& layer, std::int64_t batch) {
  return layer.steps.empty() ? macs_of_operations(model, layer, batch)
                             : macs_of_steps(model, layer, batch);
}

/// Parameters, multiply-adds and operations, layer by layer.
void show_flops(Console& console, const Model& model, std::int64_t batch) {
  Table table({"layer", "kind", ">parameters", ">GMACs", ">attention GMACs", ">forward GFLOP"});
  ordered_json rows = ordered_json::array();
  LayerMacs sum;
  constexpr double giga = 1e9;
  for (const Layer& layer : model.layers) {
    const LayerMacs macs = layer_macs(model, layer, batch);
    const double counted = macs.products + macs.norms;
    table.row({layer.name, std::string(to_string(layer.kind)), grouped(layer.parameters),
               fmt::format("{:.2f}", counted / giga), fmt::format("{:.2f}", macs.attention / giga),
               fmt::format("{:.2f}", 2 * (counted + macs.attention) / giga)});
    rows.push_back({{"name", layer.name},
                    {"kind", to_string(layer.kind)},
                    {"parameters", layer.parameters},
                    {"macs", counted},
                    {"attention_macs", macs.attention},
                    {"flops_forward", 2 * (counted + macs.attention)}});
    sum.products += counted;
    sum.attention += macs.attention;
  }
  table.row({"all", "", grouped(parameters(model)), fmt::format("{:.2f}", sum.products / giga),
             fmt::format("{:.2f}", sum.attention / giga),
             fmt::format("{:.2f}", 2 * (sum.products + sum.attention) / giga)});
  console.print(
      fmt::format("{}: forward pass of {} sample{}{}\n", model.name, batch, batch == 1 ? "" : "s",
                  model.sequence > 0 ? fmt::format(" of {} tokens", model.sequence) : ""));
  console.print(table.text(console.unicode()));
  console.print("products and norms as DeepSpeed's profiler counts; scores of attention apart\n");
  console.result({{"name", model.name},
                  {"parameters", parameters(model)},
                  {"batch", batch},
                  {"sequence", model.sequence},
                  {"macs", sum.products},
                  {"attention_macs", sum.attention},
                  {"flops_forward", 2 * (sum.products + sum.attention)},
                  {"layers", std::move(rows)}});
}

int show(Console& console, const ModelArguments& arguments) {
  if (arguments.model.empty())
    fail_usage("model show needs a MODEL: a built-in name (stagecraft model list) or a file");
  LoadedProfile loaded = load_profile(arguments.model);
  console.input(loaded.path, loaded.hash);
  if (arguments.sequence > 0)
    loaded.profile.model = with_sequence(loaded.profile.model, arguments.sequence);
  if (arguments.without_prediction && prediction_parameters(loaded.profile.model) == 0) {
    fail_usage("--without-prediction: ", arguments.model,
               " has no modules for multi-token prediction");
  }
  if (arguments.without_prediction) loaded.profile.model = without_prediction(loaded.profile.model);
  const Model& model = loaded.profile.model;
  console.artefact(write_model(model));
  if (arguments.flops) {
    show_flops(console, model, arguments.batch);
    return 0;
  }
  for (const std::string& warning : loaded.profile.warnings) console.note(warning);
  const std::int64_t of_prediction = prediction_parameters(model);
  console.print(fmt::format(
      "{}: {}, {} parameters{}{}\n", model.name, number_of(std::ssize(model.layers), "layer"),
      grouped(own_parameters(model)), model.ties.empty() ? "" : " (tied weights counted once)",
      of_prediction > 0
          ? fmt::format(", and {} of modules for multi-token prediction", grouped(of_prediction))
          : ""));
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
  app.add_option("model", arguments->model, "Built-in name or file of a model")->type_name("MODEL");
  in_thousands(app.add_option("--sequence", arguments->sequence,
                              "Tokens per sample, 32k for 32768 (the model's)"))
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  app.add_flag("--flops", arguments->flops,
               "Count the multiply-adds and operations of the forward pass");
  app.add_flag("--without-prediction", arguments->without_prediction,
               "Leave out modules for multi-token prediction; -o writes the model without them");
  app.add_option("--batch", arguments->batch, "Number of samples for --flops")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  return [arguments, &app](Console& console) {
    if (arguments->what == "list") refuse_beside_list(app);
    if (!arguments->flops) refuse_given(app, {"--batch"}, "goes with --flops");
    return arguments->what == "list" ? list_models(console) : show(console, *arguments);
  };
}

}  // namespace stagecraft
