// A link as JSON, for the files that hold one; the example in cluster_json.cpp shows it.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "profiles/cluster.hpp"

namespace stagecraft {

Link read_link(const class Json& json);
nlohmann::ordered_json write_link(const Link& link);

}  // namespace stagecraft
