// A layer's steps in stagecraft-model/1: members at their default are left out.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "profiles/json.hpp"
#include "profiles/steps.hpp"

namespace stagecraft {

Step read_step(const Json& json);
nlohmann::ordered_json write_step(const Step& step);

}  // namespace stagecraft
