// A model as a JSON value, for the profile that contains it.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "profiles/model.hpp"

namespace stagecraft {

nlohmann::ordered_json model_to_json(const Model& model);

}  // namespace stagecraft
