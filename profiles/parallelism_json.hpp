// {"sequence": true, "context": 2, "expert": 8, "expert_tensor": 1, "expert_load": 1.1,
// "expert_nodes": 4}: what is left out has its default (profiles/parallelism.hpp).

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "profiles/json.hpp"
#include "profiles/parallelism.hpp"

namespace stagecraft {

/// Throws Error (input) with the place of a degree below 1 or a load below 1.
Parallelism read_parallelism(const Json& json);
/// Without what has its default.
nlohmann::ordered_json parallelism_value(const Parallelism& parallelism);

}  // namespace stagecraft
