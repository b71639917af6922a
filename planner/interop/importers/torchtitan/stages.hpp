// Where torchtitan cuts a model (torchtitan/distributed/pipeline_parallel.py of 0.2).

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/interop/importers/torchtitan/mesh.hpp"
#include "profiles/model.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// Each part's modules, as the file lists them, or as torchtitan divides the model: "stages" or
/// "split_points" of what the importer of torch's stages reads.
nlohmann::ordered_json titan_stages(const TitanSettings& settings, const ScheduleKind& schedule,
                                    const TitanMesh& mesh, const Model& model);

}  // namespace stagecraft
