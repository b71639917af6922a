#include "planner/interop/exporters/even_ranks.hpp"

#include "planner/costs/stage_recompute.hpp"
#include "planner/plan/plan_fault.hpp"

namespace stagecraft {

namespace {

/// Replica by replica, all peers.
std::vector<int> devices_of(const Stage& stage) {
  std::vector<int> devices;
  for (const auto& peers : stage.devices) {
    devices.insert(devices.end(), peers.begin(), peers.end());
  }
  return devices;
}

}  // namespace

Degrees even_degrees(Reasons& reasons, const Plan& plan) {
  const Stage& first = plan.stages.front();
  const Degrees degrees{.pipeline = pipeline_devices(plan),
                        .data = static_cast<int>(first.devices.size()),
                        .tensor = tensor_degree(plan.parallelism, first.devices.front().size()),
                        .context = plan.parallelism.context};
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (static_cast<int>(stage.devices.size()) != degrees.data) {
      reasons.add(" gives every stage as many replicas: stage 0 has ", degrees.data, ", stage ", s,
                  " has ", stage.devices.size());
      return degrees;
    }
    for (const auto& peers : stage.devices) {
      if (static_cast<int>(peers.size()) == degrees.peers()) continue;
      reasons.add(" splits every stage over as many tensor-parallel peers: stage 0 over ",
                  degrees.tensor, ", stage ", s, " over ",
                  tensor_degree(plan.parallelism, peers.size()));
      return degrees;
    }
    const int device = pipeline_device_of(plan, static_cast<int>(s));
    const std::vector<int> expected = ranks_of(degrees, device);
    if (devices_of(stage) == expected) continue;
    reasons.add(" numbers ranks stage by stage: stage ", s, " would be on devices ",
                expected.front(), " to ", expected.back(), ", the plan has it elsewhere");
    return degrees;
  }
  return degrees;
}

std::int64_t samples_per_replica(Reasons& reasons, const Plan& plan, int replicas) {
  if (replicas > 1 && plan.replicas == ReplicaPolicy::round_robin) {
    reasons.add(
        " gives every replica a part of each microbatch; the plan's replicas take turns "
        "(\"round_robin\")");
    return plan.batch.microbatch;
  }
  if (plan.batch.microbatch % replicas == 0) return plan.batch.microbatch / replicas;
  reasons.add(" gives every replica as many samples: a microbatch of ", plan.batch.microbatch,
              " does not divide over ", replicas, " replicas");
  return 1;
}

Recompute same_recompute(Reasons& reasons, const Plan& plan) {
  const Recompute first = plan.stages.front().recompute;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (recompute_in_words(plan.stages[s]) != "none" && !plan.stages[s].again.empty()) {
      reasons.add(" recomputes whole stages; of stage ", s, " the plan recomputes ",
                  recompute_in_words(plan.stages[s]));
      break;
    }
    if (plan.stages[s].recompute == first) continue;
    reasons.add(" recomputes in all stages or in none: stage 0 is \"", to_string(first),
                "\", stage ", s, " \"", to_string(plan.stages[s].recompute), "\"");
    break;
  }
  return first;
}

void require_whole_layers(Reasons& reasons, const Plan& plan) {
  const Parallelism& parallelism = plan.parallelism;
  if (parallelism.context > 1) {
    reasons.add(" has no words for the plan's context parallelism; megatron and torch have");
  }
  if (parallelism.expert > 1 || parallelism.expert_tensor > 0) {
    reasons.add(" has no words for the plan's expert parallelism; megatron and torch have");
  }
}

void require_usual_launching(Reasons& reasons, const Plan& plan) {
  if (sends_once(plan.kernels.dispatcher)) {
    reasons.add(" is exported with the dispatcher alltoall alone, and the plan has ",
                to_string(plan.kernels.dispatcher), "; megatron has it");
  }
  if (plan.kernels.graphs != CudaGraphs::none)
    reasons.add(" is exported without CUDA graphs, which the plan has; megatron has them");
  if (plan.kernels.fused_loss != FusedLoss::none)
    reasons.add(" is exported without Megatron-LM's fused loss, which the plan has");
  if (plan.kernels.router_fusion == RouterFusion::on)
    reasons.add(" is exported without Megatron-LM's fused router, which the plan has");
  if (!plan.kernels.overlap.empty()) {
    reasons.add(" is exported without messages beside kernels, and the plan has overlap ",
                to_string(plan.kernels.overlap), "; megatron has it");
  }
  if (!modules_again(plan).empty()) {
    reasons.add(" does not recompute by Megatron-LM's modules, as the plan does (",
                to_string(modules_again(plan)), ")");
  }
  if (plan.kernels.float8_recipe) {
    reasons.add(" is exported without an fp8 recipe, and the plan has ",
                to_string(*plan.kernels.float8_recipe), "; megatron has it");
  }
}

void require_plain(Reasons& reasons, const Plan& plan) {
  if (!plan.order.empty()) {
    reasons.add(" cuts a model in its own order of layers; this plan has another");
  }
  if (plan.weights != WeightPolicy::flush) {
    reasons.add(" flushes weights after each batch; this plan has \"", to_string(plan.weights),
                "\"");
  }
  if (!plan.schedule.warm_up.empty()) {
    reasons.add(" has its own number of forwards ahead; this plan says another (\"warm_up\")");
  }
}

}  // namespace stagecraft
