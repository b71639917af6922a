// Megatron-Bridge's launch of a plan (0.6.2): scripts/training/run_recipe.py with a recipe, and
// overrides behind it, a word each. They are Megatron-LM's settings under the names of the classes
// in megatron/bridge/training/config.py; what a recipe may have set otherwise is set back.

#include <algorithm>
#include <array>
#include <numeric>

#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/megatron.hpp"
#include "planner/interop/exporters/megatron_kernels.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view bridge_name = "Megatron-Bridge";

/// A flag by the member that says the same; a switch is true.
struct BridgeName {
  std::string_view flag;
  std::string_view member;
  std::string_view otherwise = {};  ///< the value where the plan has no such flag; empty: none
};

/// The model itself and its data are the recipe's.
constexpr std::array bridge_names{
    BridgeName{"num-layers", "model.num_layers"},
    BridgeName{"pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
    BridgeName{"num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size",
               "null"},
    BridgeName{"account-for-embedding-in-pipeline-split",
               "model.account_for_embedding_in_pipeline_split", "false"},
    BridgeName{"account-for-loss-in-pipeline-split", "model.account_for_loss_in_pipeline_split",
               "false"},
    BridgeName{"decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage",
               "null"},
    BridgeName{"decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage",
               "null"},
    BridgeName{"pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout", "null"},
    BridgeName{"mtp-num-layers", "model.mtp_num_layers"},
    BridgeName{"tensor-model-parallel-size", "model.tensor_model_parallel_size"},
    BridgeName{"sequence-parallel", "model.sequence_parallel", "false"},
    BridgeName{"context-parallel-size", "model.context_parallel_size", "1"},
    BridgeName{"expert-model-parallel-size", "model.expert_model_parallel_size", "1"},
    BridgeName{"expert-tensor-parallel-size", "model.expert_tensor_parallel_size", "null"},
    BridgeName{"moe-router-num-groups", "model.moe_router_num_groups"},
    BridgeName{"moe-router-group-topk", "model.moe_router_group_topk"},
    BridgeName{"microbatch-group-size-per-virtual-pipeline-stage",
               "model.microbatch_group_size_per_vp_stage"},
    BridgeName{"micro-batch-size", "train.micro_batch_size"},
    BridgeName{"global-batch-size", "train.global_batch_size"},
    BridgeName{"seq-length", "model.seq_length"},
    BridgeName{"recompute-granularity", "model.recompute_granularity", "null"},
    BridgeName{"recompute-modules", "model.recompute_modules", "null"},
    BridgeName{"recompute-method", "model.recompute_method", "null"},
    BridgeName{"recompute-num-layers", "model.recompute_num_layers", "null"},
    BridgeName{"optimizer", "optimizer.optimizer"},
    BridgeName{"use-distributed-optimizer", "optimizer.use_distributed_optimizer", "false"},
    BridgeName{"use-megatron-fsdp", "dist.use_megatron_fsdp", "false"},
    BridgeName{"data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy"},
    BridgeName{"ckpt-format", "checkpoint.ckpt_format"},
    BridgeName{"tp-comm-overlap", "model.tp_comm_overlap", "false"},
    BridgeName{"overlap-moe-expert-parallel-comm", "model.overlap_moe_expert_parallel_comm",
               "false"},
    BridgeName{"moe-grouped-gemm", "model.moe_grouped_gemm"},
    BridgeName{"moe-token-dispatcher-type", "model.moe_token_dispatcher_type"},
    BridgeName{"moe-flex-dispatcher-backend", "model.moe_flex_dispatcher_backend"},
    BridgeName{"moe-router-dtype", "model.moe_router_dtype"},
    BridgeName{"moe-router-fusion", "model.moe_router_fusion", "false"},
    BridgeName{"cuda-graph-impl", "model.cuda_graph_impl", "none"},
    BridgeName{"cuda-graph-modules", "model.cuda_graph_scope"},
    BridgeName{"cross-entropy-loss-fusion", "model.cross_entropy_loss_fusion", "false"},
    BridgeName{"cross-entropy-fusion-impl", "model.cross_entropy_fusion_impl"},
    BridgeName{"overlap-grad-reduce", "ddp.overlap_grad_reduce", "false"},
    BridgeName{"ddp-bucket-size", "ddp.bucket_size"},
};

/// Members that have to say the same as another one.
constexpr std::array also_said{
    BridgeName{"optimizer.use_distributed_optimizer", "ddp.use_distributed_optimizer"},
    BridgeName{"dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"},
    BridgeName{"model.seq_length", "dataset.seq_length"},
};

/// Words as a list of an override.
std::string as_list(std::string words) {
  std::ranges::replace(words, ' ', ',');
  return concat("'[", words, "]'");
}

std::string_view float8_recipe_of(Reasons& reasons, const Plan& plan, const Cluster& cluster) {
  switch (float8_recipe_in_use(reasons, plan, cluster)) {
    case Float8Recipe::delayed: break;
    case Float8Recipe::tensorwise: return "bf16_with_fp8_current_scaling_mixed";
    case Float8Recipe::blockwise: return "bf16_with_fp8_subchannel_scaling_mixed";
    case Float8Recipe::mxfp8: return "bf16_with_mxfp8_mixed";
  }
  return "bf16_with_fp8_delayed_scaling_mixed";
}

std::string_view recipe_of(Reasons& reasons, const Plan& plan, const Cluster& cluster) {
  switch (plan.precision) {
    case Precision::bfloat16: return "bf16_mixed";
    case Precision::float16: return "fp16_mixed";
    case Precision::float8:
    case Precision::float8_with_attention: return float8_recipe_of(reasons, plan, cluster);
    case Precision::float32: return "null";
    case Precision::float64: reasons.add(" does not train in fp64");
  }
  return "";
}

bool is_list(std::string_view flag) {
  return flag == "cuda-graph-modules" || flag == "recompute-modules";
}

/// A recipe of Megatron-Bridge (megatron/bridge/recipes) for a model that is built in here.
struct BridgeRecipe {
  std::string_view model, recipe;
};
constexpr std::array bridge_recipes{
    BridgeRecipe{"llama2-7b", "llama2_7b_pretrain_2gpu_h100_bf16_config"},
    BridgeRecipe{"llama3-8b", "llama3_8b_pretrain_2gpu_h100_bf16_config"},
    BridgeRecipe{"llama3-70b", "llama3_70b_pretrain_32gpu_h100_bf16_config"},
    BridgeRecipe{"llama3-405b", "llama31_405b_pretrain_256gpu_h100_bf16_config"},
    BridgeRecipe{"llama3.2-1b", "llama32_1b_pretrain_1gpu_h100_bf16_config"},
    BridgeRecipe{"llama3.2-3b", "llama32_3b_pretrain_1gpu_h100_bf16_config"},
    BridgeRecipe{"qwen2-0.5b", "qwen2_500m_pretrain_1gpu_h100_bf16_config"},
    BridgeRecipe{"qwen2-7b", "qwen2_7b_pretrain_2gpu_h100_bf16_config"},
    BridgeRecipe{"gpt3-175b", "gpt3_175b_pretrain_32gpu_h100_bf16_config"},
    BridgeRecipe{"deepseek-v2-lite", "deepseek_v2_lite_pretrain_8gpu_h100_bf16_config"},
    BridgeRecipe{"deepseek-v2", "deepseek_v2_pretrain_128gpu_h100_bf16_config"},
    BridgeRecipe{"deepseek-v3", "deepseek_v3_pretrain_256gpu_h100_bf16_32nodes_config"},
};

/// Its recipe runner, which overrides follow; what starts it on each node.
std::string launch_of_bridge(const Plan& plan, const Model& model, const Cluster& cluster) {
  const int used = static_cast<int>(used_devices(plan).size());
  const int per_node = cluster.levels.empty() ? used : cluster.levels.back().count;
  const int processes = std::gcd(used, per_node);
  const int nodes = used / processes;
  const auto known = std::ranges::find(bridge_recipes, model.name, &BridgeRecipe::model);
  const bool is_known = known != bridge_recipes.end();
  std::string text =
      concat("#!/usr/bin/env bash\n", "# In a checkout of Megatron-Bridge 0.6.2, on mock data; ",
             nodes == 1 ? "here: " : "",
             nodes == 1 ? "bash FILE\n"
                        : concat("export MASTER_ADDR, the first node's\n# name; then srun --nodes ",
                                 nodes, " --ntasks-per-node 1 bash FILE\n"));
  if (!is_known)
    text += concat("# export RECIPE, the name of a recipe that trains ", model.name, "\n");
  return concat(text, "torchrun --nnodes ", nodes, " --nproc-per-node ", processes,
                nodes > 1 ? " --rdzv-backend c10d --rdzv-endpoint \"$MASTER_ADDR:29500\"" : "",
                " \\\n  scripts/training/run_recipe.py --recipe ",
                is_known ? known->recipe : std::string_view("\"$RECIPE\""),
                " --mode pretrain --dataset mock");
}

std::string bridge_overrides(Reasons& reasons, const Plan& plan, const Model& model,
                             const Cluster& cluster) {
  const MegatronSettings settings = megatron_settings(reasons, plan, model, cluster);
  std::string text = launch_of_bridge(plan, model, cluster);
  const auto add = [&](std::string_view member, std::string_view value) {
    text += concat(" \\\n  ", member, '=', value);
  };
  for (const BridgeName& name : bridge_names) {
    const auto found = std::ranges::find(settings.all(), name.flag, &MegatronSetting::flag);
    const bool is_there = found != settings.all().end();
    if (!is_there && name.otherwise.empty()) continue;
    const std::string value = !is_there              ? std::string(name.otherwise)
                              : found->value.empty() ? "true"
                                                     : found->value;
    add(name.member, is_there && is_list(name.flag) ? as_list(value) : value);
    for (const BridgeName& also : also_said) {
      if (also.flag == name.member) add(also.member, value);
    }
  }
  add("mixed_precision", recipe_of(reasons, plan, cluster));
  return text + "\n";
}

}  // namespace

std::vector<std::string> reasons_against_megatron_bridge(const Plan& plan, const Model& model,
                                                         const Cluster& cluster) {
  Reasons reasons(bridge_name);
  bridge_overrides(reasons, plan, model, cluster);
  return reasons.sentences();
}

std::string export_megatron_bridge(const LoadedPlan& loaded) {
  Reasons reasons(bridge_name);
  std::string text = bridge_overrides(reasons, loaded.plan, loaded.profile.model, loaded.cluster);
  reasons.require_none();
  return text;
}

}  // namespace stagecraft
