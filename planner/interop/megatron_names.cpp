#include "planner/interop/megatron_names.hpp"

namespace stagecraft {

Dispatcher dispatcher_in_megatron(std::string_view type, std::string_view backend) {
  if (type != "flex") return Dispatcher::alltoall;
  return backend == "hybridep" ? Dispatcher::hybridep : Dispatcher::deepep;
}

std::optional<Float8Recipe> float8_recipe_in_megatron(std::string_view name) {
  using enum Float8Recipe;
  if (name.empty()) return delayed;
  for (const Float8Recipe each : {delayed, tensorwise, blockwise, mxfp8})
    if (to_string(each) == name) return each;
  return {};
}

CudaGraphs graphs_in_megatron(std::string_view way, std::string_view scope) {
  constexpr std::string_view whole = "full_iteration";
  if (way.empty() || way == "none") return CudaGraphs::none;
  const bool is_step = way == whole || scope.find(whole) != std::string_view::npos;
  return is_step ? CudaGraphs::step : CudaGraphs::layers;
}

}  // namespace stagecraft
