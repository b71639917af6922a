// Conversion of values of Megatron-LM's flags to those of plans.

#pragma once

#include <optional>
#include <string_view>

#include "profiles/framework.hpp"

namespace stagecraft {

/// Reads --moe-token-dispatcher-type ("alltoall", "flex") and --moe-flex-dispatcher-backend;
/// backends other than "hybridep" count as "deepep".
Dispatcher dispatcher_in_megatron(std::string_view type, std::string_view backend);

/// Reads --fp8-recipe; nothing for recipes that plans do not have ("custom"). Empty: Megatron-LM's
/// default, "delayed".
std::optional<Float8Recipe> float8_recipe_in_megatron(std::string_view name);

/// Reads --cuda-graph-impl, and the scope by which older releases asked for a whole step:
/// "full_iteration" as either of them. A scope alone, or an empty implementation, means no graphs.
CudaGraphs graphs_in_megatron(std::string_view way, std::string_view scope);

}  // namespace stagecraft
