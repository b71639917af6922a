// device_map of Hugging Face's transformers and accelerate: modules to devices. It knows no
// replicas, no tensor-parallel peers and no microbatches.

#include <nlohmann/json.hpp>

#include "planner/interop/exporters.hpp"
#include "planner/plan/layer_names.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

std::string export_device_map(const LoadedPlan& loaded) {
  const auto modules = module_names(loaded.profile.model, ModuleNames::hugging_face);
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (std::size_t s = 0; s < loaded.plan.stages.size(); ++s) {
    const Stage& stage = loaded.plan.stages[s];
    if (stage.devices.size() != 1 || stage.devices.front().size() != 1) {
      fail("a device_map has each module on one device; stage ", s, " has ", stage.devices.size(),
           " replicas of ", stage.devices.front().size(), " devices");
    }
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      for (const std::string& module : modules[static_cast<std::size_t>(layer)])
        map[module] = stage.devices.front().front();
    }
  }
  return to_text(map);
}

}  // namespace stagecraft
