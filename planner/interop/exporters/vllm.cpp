// vLLM's launch line, or lines of a script that each node runs where there are several: how many
// transformer layers each rank of the pipeline serves, and which requests. A plan for
// training gives the same split as one for inference. Embedding and head are the first and the last
// rank's, whatever the plan.

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/costs/request_room.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/even_ranks.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/problem/asked_requests.hpp"
#include "profiles/served_costs.hpp"

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

/// vLLM starts only where as much memory is free as it may use, which its own context takes a part
/// of (`request_memory` of vllm/v1/worker/utils.py).
void require_free_memory(Reasons& reasons, const Plan& plan, const Cluster& cluster) {
  if (!plan.requests) return;
  for (const int device : used_devices(plan)) {
    const DeviceKind& kind = kind_of(cluster, device);
    if (kind.memory_unlimited) continue;
    const auto memory = static_cast<double>(kind.memory);
    const double free = static_cast<double>(usable_memory(kind)) / memory;
    if (requests_of(plan).memory <= free) continue;
    return reasons.add(" starts where as much memory is free as it may use, and ",
                       format_bytes(kind.reserve), " of each ", kind.name, "'s ",
                       format_bytes(kind.memory), " are not; plan with --mem-limit ",
                       std::floor(free * 100), "% at most");
  }
}

/// Requests as the plan has them: how long they are, how many there is room for on each replica,
/// what a pass computes and which part of the memory is used. No more requests at once than a pass
/// has tokens (`verify_max_model_len` of vllm/config/scheduler.py).
std::string words_for_requests(Reasons& reasons, const LoadedPlan& loaded) {
  const Plan& plan = loaded.plan;
  const bool has_some = plan.requests && serves(plan) && reasons.sentences().empty();
  if (!has_some) return "";
  const Requests& requests = *plan.requests;
  const std::int64_t tokens = plan.batch.sequence + requests.output;
  std::string words = fmt::format(" \\\n  --max-model-len {}", tokens);
  const auto room = room_for_requests(of_one_replica(plan), loaded.profile, loaded.cluster);
  if (room && room->requests == 0)
    reasons.add(" has no room for a request of ", tokens, " tokens on device ", room->device);
  if (room)
    words += fmt::format(" \\\n  --max-num-seqs {}", std::min(room->requests, requests.chunk));
  if (reads_in_chunks(loaded.profile.model))
    words += fmt::format(" \\\n  --max-num-batched-tokens {}", requests.chunk);
  return words + fmt::format(" \\\n  --gpu-memory-utilization {}", requests.memory);
}

std::string vllm_line(Reasons& reasons, const Plan& plan, const Model& model,
                      const Cluster& cluster, const std::string& words_for_requests = "") {
  if (!model.transformer) {
    reasons.add(" serves transformers; the model \"", model.name, "\" is not known as one");
  }
  if (plan.schedule.virtual_stages > 1) {
    reasons.add(" gives each rank one stage; this plan has ", plan.schedule.virtual_stages,
                " per device");
  }
  require_whole_layers(reasons, plan);
  require_usual_launching(reasons, plan);
  require_free_memory(reasons, plan, cluster);
  const Degrees degrees = even_degrees(reasons, plan);
  const int nodes = nodes_of(plan, cluster);
  std::string line = heading_of(nodes);
  line += fmt::format("VLLM_PP_LAYER_PARTITION={} vllm serve \"$MODEL\"",
                      fmt::join(partition(reasons, plan, model), ","));
  line += fmt::format(" \\\n  --pipeline-parallel-size {}", degrees.pipeline);
  line += fmt::format(" \\\n  --tensor-parallel-size {}", degrees.tensor);
  if (degrees.data > 1) line += fmt::format(" \\\n  --data-parallel-size {}", degrees.data);
  line += fmt::format(" \\\n  --dtype {}", dtype(reasons, plan.precision));
  line += words_for_requests;
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
  vllm_line(reasons, loaded.plan, loaded.profile.model, loaded.cluster);
  const std::string words = words_for_requests(reasons, loaded);
  reasons.require_none();
  return vllm_line(reasons, loaded.plan, loaded.profile.model, loaded.cluster, words);
}

std::vector<std::string> notes_on_vllm(const LoadedPlan& loaded) {
  std::vector<std::string> notes{requests_beyond_positions(loaded.plan, loaded.profile.model)};
  std::erase(notes, "");
  return notes;
}

}  // namespace stagecraft
