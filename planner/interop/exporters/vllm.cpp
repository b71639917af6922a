// vLLM's launch line: how many transformer layers each rank of the pipeline serves. A plan for
// training gives the same split as one for inference. Embedding and head are the first and the last
// rank's, whatever the plan.

#include <fmt/format.h>
#include <algorithm>

#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/even_ranks.hpp"
#include "planner/plan/layer_names.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view vllm_name = "vLLM";

std::string_view dtype(Precision precision) {
  switch (precision) {
    case Precision::bfloat16: return "bfloat16";
    case Precision::float16: return "float16";
    case Precision::float32: return "float32";
    case Precision::float64:
    case Precision::float8: break;
  }
  fail(vllm_name, " has no number format for a plan in ", to_string(precision));
}

/// Transformer layers of each stage.
std::vector<int> partition(const Plan& plan, const Model& model) {
  const LayerRange blocks = decoder_layers(model);
  std::vector<int> counts;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const LayerRange& range = plan.stages[s].layers;
    const bool has_first = s == 0 || range.first >= blocks.first;
    const bool has_last = s + 1 == plan.stages.size() || range.end <= blocks.end;
    if (!has_first || !has_last) {
      fail(vllm_name, " keeps what is ", has_first ? "behind" : "before",
           " the transformer layers on the ", has_first ? "last" : "first",
           " rank; this plan has some of it in stage ", s);
    }
    counts.push_back(
        std::max(std::min(range.end, blocks.end) - std::max(range.first, blocks.first), 0));
  }
  return counts;
}

}  // namespace

std::string export_vllm(const LoadedPlan& loaded) {
  const Plan& plan = loaded.plan;
  const Model& model = loaded.profile.model;
  if (!model.transformer) {
    fail(vllm_name, " serves transformers; the model \"", model.name, "\" is not known as one");
  }
  if (plan.schedule.virtual_stages > 1) {
    fail(vllm_name, " gives each rank one stage; this plan has ", plan.schedule.virtual_stages,
         " per device");
  }
  require_whole_layers(vllm_name, plan);
  const Degrees degrees = even_degrees(vllm_name, plan);
  std::string line = fmt::format("VLLM_PP_LAYER_PARTITION={} vllm serve \"$MODEL\"",
                                 fmt::join(partition(plan, model), ","));
  line += fmt::format(" \\\n  --pipeline-parallel-size {}", degrees.pipeline);
  line += fmt::format(" \\\n  --tensor-parallel-size {}", degrees.tensor);
  if (degrees.data > 1) line += fmt::format(" \\\n  --data-parallel-size {}", degrees.data);
  line += fmt::format(" \\\n  --dtype {}", dtype(plan.precision));
  return line + "\n";
}

}  // namespace stagecraft
