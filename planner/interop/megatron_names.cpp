#include "planner/interop/megatron_names.hpp"

namespace stagecraft {

Dispatcher dispatcher_in_megatron(std::string_view type, std::string_view backend) {
  if (type != "flex") return Dispatcher::alltoall;
  return backend == "hybridep" ? Dispatcher::hybridep : Dispatcher::deepep;
}

CudaGraphs graphs_in_megatron(std::string_view way, std::string_view scope) {
  constexpr std::string_view whole = "full_iteration";
  if (way.empty() || way == "none") return CudaGraphs::none;
  const bool is_step = way == whole || scope.find(whole) != std::string_view::npos;
  return is_step ? CudaGraphs::step : CudaGraphs::layers;
}

}  // namespace stagecraft
