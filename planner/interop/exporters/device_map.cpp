// device_map of Hugging Face's transformers and accelerate: modules to devices. It knows no
// replicas, no tensor-parallel peers and no microbatches.

#include <nlohmann/json.hpp>

#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/reasons.hpp"
#include "planner/plan/layer_names.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view device_map_name = "a device_map";

std::vector<std::vector<std::string>> modules_of(Reasons& reasons, const Model& model,
                                                 std::string_view architecture) {
  try {
    return hugging_face_modules(model, architecture);
  } catch (const Error& error) {
    reasons.add(" names modules of Hugging Face's transformers: ", error.message());
  }
  return std::vector<std::vector<std::string>>(model.layers.size());
}

nlohmann::ordered_json device_map(Reasons& reasons, const Plan& plan, const Model& model,
                                  std::string_view architecture) {
  const auto modules = modules_of(reasons, model, architecture);
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (stage.devices.size() != 1 || stage.devices.front().size() != 1) {
      reasons.add(" has each module on one device; stage ", s, " has ", stage.devices.size(),
                  " replicas of ", stage.devices.front().size(), " devices");
      return map;
    }
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      for (const std::string& module : modules[static_cast<std::size_t>(layer)])
        map[module] = stage.devices.front().front();
    }
  }
  return map;
}

}  // namespace

std::vector<std::string> reasons_against_device_map(const Plan& plan, const Model& model,
                                                    const Cluster& /*cluster*/) {
  Reasons reasons(device_map_name);
  device_map(reasons, plan, model, "");
  return reasons.sentences();
}

std::string export_device_map(const LoadedPlan& loaded) {
  Reasons reasons(device_map_name);
  const auto map = device_map(reasons, loaded.plan, loaded.profile.model, loaded.architecture);
  reasons.require_none();
  return to_text(map);
}

}  // namespace stagecraft
