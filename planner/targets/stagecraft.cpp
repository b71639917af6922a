// Our own executor: any schedule that passes its check, stages with replicas and peers of their
// own. What it does not carry out, executor/training/training.cpp and executor/driver/execute.cpp
// refuse; `reasons_against_stagecraft` says the same of a plan beforehand.

#include <algorithm>
#include <array>

#include "planner/targets/targets.hpp"
#include "profiles/error.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

constexpr std::array sharding_of_executor{Sharding::none, Sharding::zero1};
constexpr std::array precisions_of_executor{Precision::bfloat16, Precision::float32,
                                            Precision::float64};

std::vector<std::string> against_model_of_executor(const Model& model) {
  for (const Layer& layer : model.layers) {
    const std::string reason = reason_against_training(model, layer);
    if (!reason.empty())
      return {concat("does not train layer \"", layer.name, "\" of ", model.name, ": ", reason)};
  }
  return {};
}

std::string against_peers_of_executor(const Model& model, int peers) {
  if (!model.transformer) return "";
  for (const Layer& layer : model.layers) {
    const std::string reason = reason_against_dividing(*model.transformer, layer, peers);
    if (!reason.empty()) {
      return concat("stagecraft run does not divide layer \"", layer.name, "\" of ", model.name,
                    " among ", peers, " tensor-parallel devices: ", reason);
    }
  }
  return "";
}

}  // namespace

const Target stagecraft_target{.name = "stagecraft",
                               .version = "0.1.0",
                               .system = "stagecraft run",
                               .format = {},
                               .equal_stages = false,
                               .context_parallel = false,
                               .expert_parallel = false,
                               .sequence_parallel = false,
                               .empty_stages = true,
                               .sharding = sharding_of_executor,
                               .precision = precisions_of_executor,
                               .against_model = against_model_of_executor,
                               .against_peers = against_peers_of_executor};

std::vector<std::string> reasons_against_stagecraft(const Plan& plan, const Model& model) {
  std::vector<std::string> reasons;
  const auto refuse = [&](const auto&... what) {
    reasons.push_back(concat("stagecraft run does not carry out ", what...));
  };
  const Parallelism& parallelism = plan.parallelism;
  if (parallelism.context > 1) refuse("context parallelism; plan with --context-parallel 1");
  if (parallelism.expert > 1 || parallelism.expert_tensor > 0)
    refuse("expert parallelism; plan with --expert-parallel 1");
  if (parallelism.sequence && tensor_degree(plan) > 1)
    refuse("sequence parallelism; plan with --sequence-parallel off");
  if (std::ranges::find(sharding_of_executor, plan.optimizer.sharding) ==
      sharding_of_executor.end()) {
    refuse("sharding \"", to_string(plan.optimizer.sharding), "\"; plan with --sharding zero1");
  }
  if (sends_once(plan.kernels.dispatcher))
    refuse("the dispatcher ", to_string(plan.kernels.dispatcher), "; plan without --dispatcher");
  if (plan.kernels.graphs != CudaGraphs::none) {
    refuse("CUDA graphs of ", plan.kernels.graphs == CudaGraphs::step ? "a step" : "layers",
           "; plan without --cuda-graphs, and see run --graphs");
  }
  if (plan.kernels.fused_loss != FusedLoss::none)
    refuse("Megatron-LM's fused loss; plan without --fused-loss");
  if (plan.kernels.router_fusion == RouterFusion::on)
    refuse("Megatron-LM's fused router; plan without --router-fusion");
  if (!plan.kernels.overlap.empty())
    refuse("messages of layers beside kernels; plan without --overlap");
  if (!modules_again(plan).empty())
    refuse("recomputation by Megatron-LM's modules; plan without --recompute-modules");
  if (plan.optimizer.gradient_bucket > 0)
    refuse("sums of gradients beside the last backward; plan without --gradient-bucket");
  if (std::ranges::find(precisions_of_executor, plan.precision) == precisions_of_executor.end())
    refuse("training in ", to_string(plan.precision), "; plan with --precision fp32");
  if (model.transformer) {
    for (const std::string& why : against_model_of_executor(model))
      reasons.push_back(concat("stagecraft run ", why));
  }
  const std::string against_peers = against_peers_of_executor(model, tensor_degree(plan));
  if (!against_peers.empty()) reasons.push_back(against_peers);
  return reasons;
}

}  // namespace stagecraft
