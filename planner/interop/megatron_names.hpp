// How Megatron-LM's flags name what plans have other names for.

#pragma once

#include <optional>
#include <string_view>

#include "profiles/framework.hpp"

namespace stagecraft {

/// --moe-token-dispatcher-type ("alltoall", "flex") and --moe-flex-dispatcher-backend, whose others
/// than "hybridep" send as "deepep" does.
Dispatcher dispatcher_in_megatron(std::string_view type, std::string_view backend);

/// --fp8-recipe; none for what plans do not have ("custom"). Empty: its own default, "delayed".
std::optional<Float8Recipe> float8_recipe_in_megatron(std::string_view name);

/// --cuda-graph-impl, and the scope that older releases had for a whole step: "full_iteration" as
/// either. A scope alone starts none; neither does an empty way.
CudaGraphs graphs_in_megatron(std::string_view way, std::string_view scope);

}  // namespace stagecraft
