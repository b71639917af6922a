// vLLM's launch line, or lines of a script that each node runs where there are several: how many
// transformer layers each rank of the pipeline serves. A plan for
// training gives the same split as one for inference. Embedding and head are the first and the last
// rank's, whatever the plan.

#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/even_ranks.hpp"
#include "planner/plan/layer_names.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view vllm_name = "vLLM";

std::string_view dtype(Reasons& reasons, Precision precision) {
  switch (precision) {
    case Precision::bfloat16: return "bfloat16";
    case Precision::float16: return "float16";
    case Precision::float32: return "float32";
    case Precision::float64:
    case Precision::float8:
    case Precision::float8_with_attention: break;
  }
  reasons.add(" has no number format for a plan in ", to_string(precision));
  return "auto";
}

/// Transformer layers of each stage.
std::vector<int> partition(Reasons& reasons, const Plan& plan, const Model& model) {
  const LayerRange blocks = decoder_layers(model);
  std::vector<int> counts;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const LayerRange& range = plan.stages[s].layers;
    const bool has_first = s == 0 || range.first >= blocks.first;
    const bool has_last = s + 1 == plan.stages.size() || range.end <= blocks.end;
    if (!has_first || !has_last) {
      reasons.add(" keeps what is ", has_first ? "behind" : "before",
                  " the transformer layers on the ", has_first ? "last" : "first",
                  " rank; this plan has some of it in stage ", s);
    }
    counts.push_back(
        std::max(std::min(range.end, blocks.end) - std::max(range.first, blocks.first), 0));
  }
  return counts;
}

/// With as many devices on each.
int nodes_of(const Plan& plan, const Cluster& cluster) {
  const int used = static_cast<int>(used_devices(plan).size());
  const int per_node = cluster.levels.empty() ? used : cluster.levels.back().count;
  return used / std::gcd(used, per_node);
}

/// Every node runs the script, and the first one takes requests (vLLM's "Running vLLM with
/// MultiProcessing").
std::string heading_of(int nodes) {
  if (nodes == 1) return "";
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# On each of {} nodes, with their number from 0 in NODE_RANK, the first one's address in\n"
      "# MASTER_ADDR and the model in MODEL: bash FILE\n"
      "HEADLESS=\n"
      "if [ \"$NODE_RANK\" -ne 0 ]; then HEADLESS=--headless; fi\n",
      nodes);
}

std::string meeting_of(int nodes, const Degrees& degrees) {
  if (nodes == 1) return "";
  return fmt::format(
      " \\\n  --nnodes {} --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\"{} $HEADLESS",
      nodes, degrees.data > 1 ? " --data-parallel-address \"$MASTER_ADDR\"" : "");
}

std::string vllm_line(Reasons& reasons, const Plan& plan, const Model& model,
                      const Cluster& cluster) {
  if (!model.transformer) {
    reasons.add(" serves transformers; the model \"", model.name, "\" is not known as one");
  }
  if (plan.schedule.virtual_stages > 1) {
    reasons.add(" gives each rank one stage; this plan has ", plan.schedule.virtual_stages,
                " per device");
  }
  require_whole_layers(reasons, plan);
  require_usual_launching(reasons, plan);
  const Degrees degrees = even_degrees(reasons, plan);
  const int nodes = nodes_of(plan, cluster);
  std::string line = heading_of(nodes);
  line += fmt::format("VLLM_PP_LAYER_PARTITION={} vllm serve \"$MODEL\"",
                      fmt::join(partition(reasons, plan, model), ","));
  line += fmt::format(" \\\n  --pipeline-parallel-size {}", degrees.pipeline);
  line += fmt::format(" \\\n  --tensor-parallel-size {}", degrees.tensor);
  if (degrees.data > 1) line += fmt::format(" \\\n  --data-parallel-size {}", degrees.data);
  line += fmt::format(" \\\n  --dtype {}", dtype(reasons, plan.precision));
  line += meeting_of(nodes, degrees);
  return line + "\n";
}

}  // namespace

std::vector<std::string> reasons_against_vllm(const Plan& plan, const Model& model,
                                              const Cluster& cluster) {
  Reasons reasons(vllm_name);
  vllm_line(reasons, plan, model, cluster);
  return reasons.sentences();
}

std::string export_vllm(const LoadedPlan& loaded) {
  Reasons reasons(vllm_name);
  std::string line = vllm_line(reasons, loaded.plan, loaded.profile.model, loaded.cluster);
  reasons.require_none();
  return line;
}

}  // namespace stagecraft
