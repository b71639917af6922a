#include "planner/interop/importers/torchtitan/stages.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/plan/layer_names.hpp"
#include "profiles/cluster.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// One for each rank, or two, unless layers per stage say otherwise.
int count_titan_stages(const TitanSettings& settings, const ScheduleKind& schedule, int pipeline,
                       int effective_layers) {
  const bool is_single = schedule.placement == StagePlacement::linear;
  const TomlSetting* each = settings.parallelism("pipeline_parallel_layers_per_stage");
  if (each == nullptr) return pipeline * (is_single ? 1 : 2);
  const auto layers = static_cast<int>(settings.number(each, 1, 1, most_devices));
  const int stages = (effective_layers + layers - 1) / layers;
  if (stages % pipeline != 0) {
    settings.refuse(each, concat(stages, " stages of ", layers, " layers are no multiple of ",
                                 pipeline, " pipeline ranks"));
  }
  if (is_single != (stages == pipeline)) {
    settings.refuse(each, concat(schedule.name, is_single ? " has one stage" : " has two or more",
                                 " on each rank; ", stages, " stages of ", layers, " layers are ",
                                 stages / pipeline, " on each of ", pipeline));
  }
  return stages;
}

/// Embedding and head weigh so many layers; what is left over goes to the first stages.
std::vector<std::vector<std::string>> divided_by_titan(const TitanSettings& settings,
                                                       const ScheduleKind& schedule, int pipeline,
                                                       int layers) {
  const auto weight = [&](std::string_view key) {
    return static_cast<int>(settings.number(settings.parallelism(key), 1, 0, most_devices));
  };
  const int first = weight("pipeline_parallel_first_stage_less_layers");
  const int last = weight("pipeline_parallel_last_stage_less_layers");
  const int effective = layers + first + last;
  const int stages = count_titan_stages(settings, schedule, pipeline, effective);
  const int each = effective / stages;
  if (each < std::max({first, last, 1})) {
    settings.refuse(settings.parallelism("pipeline_parallel_degree"),
                    concat(layers, " layers are too few for ", stages, " stages"));
  }
  std::vector<std::vector<std::string>> names(static_cast<std::size_t>(stages));
  int next = 0;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::string>& own = names[static_cast<std::size_t>(stage)];
    int count = each + (stage < effective % stages ? 1 : 0);
    if (stage == 0) {
      own.emplace_back("tok_embeddings");
      count -= first;
    } else if (stage == stages - 1) {
      count -= last;
    }
    for (; count > 0 && next < layers; --count) own.push_back(concat("layers.", next++));
  }
  for (const char* name : {"norm", "output"}) names.back().emplace_back(name);
  return names;
}

}  // namespace

nlohmann::ordered_json titan_stages(const TitanSettings& settings, const ScheduleKind& schedule,
                                    const TitanMesh& mesh, const Model& model) {
  nlohmann::ordered_json json;
  const TomlSetting* parts = settings.parallelism("module_fqns_per_model_part");
  const TomlSetting* points = settings.parallelism("pipeline_parallel_split_points");
  if (parts != nullptr) {
    const auto* lists = std::get_if<std::vector<std::vector<std::string>>>(&parts->value);
    if (lists == nullptr) settings.fail_at(*parts, "expected a list of lists of modules' names");
    json["stages"] = *lists;
    return json;
  }
  if (points != nullptr) {
    const auto* names = std::get_if<std::vector<std::string>>(&points->value);
    if (names == nullptr) settings.fail_at(*points, "expected a list of modules' names");
    if (!names->empty()) {
      json["split_points"] = *names;
      return json;
    }
  }
  auto names = divided_by_titan(settings, schedule, mesh.pipeline, decoder_layers(model).size());
  for (int layer = decoder_layers(model).end; layer < transformer_layers(model).end; ++layer)
    names.back().push_back(model.layers[static_cast<std::size_t>(layer)].name);
  json["stages"] = names;
  return json;
}

}  // namespace stagecraft
