// How Megatron-LM's layers run: in what precision, over which dispatcher, graphs and loss.

#include "planner/interop/exporters/megatron_kernels.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "profiles/kernel_times.hpp"

namespace stagecraft {

namespace {

using Line = MegatronSettings;

/// What brings tokens to experts: `MoEAlltoAllTokenDispatcher` or `MoEFlexTokenDispatcher`.
void add_dispatcher(Line& line, Dispatcher dispatcher) {
  if (!sends_once(dispatcher)) return line.add("moe-token-dispatcher-type", "alltoall");
  line.add("moe-token-dispatcher-type", "flex");
  line.add("moe-flex-dispatcher-backend", to_string(dispatcher));
  line.add("moe-router-dtype", "fp32");  // of the weights that both send
}

bool recomputes_in_full(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return stage.recompute == Recompute::full ||
           std::ranges::count(stage.again, Recomputed::full) > 0;
  });
}

/// Of layers with experts a part of the graph is what comes before tokens are sent: how many come
/// is not known before.
void add_graphs_of_layers(Reasons& reasons, Line& line, const Plan& plan,
                          const std::optional<Experts>& experts) {
  line.add("cuda-graph-impl", "transformer_engine");
  if (experts) {
    const std::string_view dense = experts->dense_blocks > 0 ? " mlp" : "";
    line.add("cuda-graph-modules", fmt::format("attn{} moe_router moe_preprocess", dense));
  }
  if (recomputes_in_full(plan)) {
    reasons.add(
        " makes no CUDA graphs of layers that it recomputes in full; plan without --cuda-graphs, "
        "or with selective recomputation");
  }
}

void add_graph_of_step(Reasons& reasons, Line& line, const std::optional<Experts>& experts) {
  line.add("cuda-graph-impl", "full_iteration");
  line.on("no-check-for-nan-in-loss-and-grad");
  if (experts) {
    reasons.add(
        " makes one CUDA graph of a step with experts only where tokens are padded to a capacity, "
        "which no plan says; --set cuda-graphs=layers has what comes before they are sent");
  }
}

}  // namespace

Float8Recipe float8_recipe_in_use(Reasons& reasons, const Plan& plan, const Cluster& cluster) {
  if (plan.kernels.float8_recipe) return *plan.kernels.float8_recipe;
  std::set<Float8Recipe> recipes;
  for (const int device : used_devices(plan))
    recipes.insert(usual_float8_recipe(kind_of(cluster, device).name));
  if (recipes.size() > 1) {
    reasons.add(
        " has one fp8 recipe for all devices, and the plan's have what each kind has; plan ",
        "with --fp8-recipe ", to_string(*recipes.begin()));
  }
  return *recipes.begin();
}

void add_precision(Reasons& reasons, Line& line, const Plan& plan, const Cluster& cluster) {
  switch (plan.precision) {
    case Precision::bfloat16: return line.on("bf16");
    case Precision::float16: return line.on("fp16");
    case Precision::float32: return;
    case Precision::float64: return reasons.add(" does not train in fp64");
    case Precision::float8_with_attention:
      reasons.add(
          " starts without attention in fp8: none of its options says it, only "
          "fp8_dot_product_attention in a configuration of one's own");
      [[fallthrough]];
    case Precision::float8: {
      line.on("bf16");
      const Float8Recipe recipe = float8_recipe_in_use(reasons, plan, cluster);
      // Numbers of 32 and their scale have no need of a second format.
      line.add("fp8-format", recipe == Float8Recipe::mxfp8 ? "e4m3" : "hybrid");
      if (recipe != Float8Recipe::delayed) line.add("fp8-recipe", to_string(recipe));
      return;
    }
  }
}

void add_kernels(Reasons& reasons, Line& line, const Plan& plan,
                 const std::optional<Experts>& experts) {
  if (experts) add_dispatcher(line, plan.kernels.dispatcher);
  if (plan.kernels.router_fusion == RouterFusion::on) line.on("moe-router-fusion");
  if (plan.kernels.fused_loss != FusedLoss::none) {
    line.on("cross-entropy-loss-fusion");
    line.add("cross-entropy-fusion-impl", to_string(plan.kernels.fused_loss));
  }
  switch (plan.kernels.graphs) {
    case CudaGraphs::none: return;
    case CudaGraphs::layers: return add_graphs_of_layers(reasons, line, plan, experts);
    case CudaGraphs::step: return add_graph_of_step(reasons, line, experts);
  }
}

/// As megatron/core/transformer/transformer_config.py refuses them.
void require_recompute_modules(Reasons& reasons, const Plan& plan, const Cluster& cluster) {
  const LayerModules modules = modules_again(plan);
  if (modules.empty()) return;
  using enum LayerModule;
  if (modules.has(experts) && plan.kernels.graphs == CudaGraphs::layers) {
    reasons.add(" does not do experts again whose router is in a CUDA graph; plan without ",
                "--cuda-graphs, or with other --recompute-modules than moe");
  }
  if (!is_float8(plan.precision) || !(modules.has(norms) || modules.has(expert_activation))) return;
  Reasons unheard(reasons);  // the recipe's own are said elsewhere
  if (float8_recipe_in_use(unheard, plan, cluster) != Float8Recipe::delayed) return;
  reasons.add(" does not do layernorm or moe_act again under delayed scaling of fp8; plan with ",
              "--fp8-recipe tensorwise, or other --recompute-modules");
}

namespace {

/// As transformer_config.py has it.
void add_overlap_of_experts(Reasons& reasons, Line& line, const Plan& plan) {
  line.on("overlap-moe-expert-parallel-comm");
  const auto refuse = [&](std::string_view what) {
    reasons.add(" sends tokens to experts beside another microbatch's work ", what,
                ", or without --overlap experts");
  };
  const auto stages = static_cast<int>(plan.stages.size());
  if (stages > 1 && plan.schedule.virtual_stages == 1)
    refuse("in interleaved pipelines alone; plan with --vpp 2");
  if (recomputes_in_full(plan)) refuse("without full recomputation; plan with --recompute none");
  if (modules_again(plan).has(LayerModule::experts))
    refuse("where experts are not done again; plan with other --recompute-modules");
  if (plan.precision == Precision::float32) refuse("in bf16 or fp16; plan with --precision bf16");
}

}  // namespace

void add_overlap(Reasons& reasons, Line& line, const Plan& plan) {
  const MessageOverlap& overlap = plan.kernels.overlap;
  if (overlap.tensor && tensor_degree(plan) > 1) {
    line.on("tp-comm-overlap");
    if (!plan.parallelism.sequence) {
      reasons.add(" sends messages of tensor-parallel peers beside products with sequence ",
                  "parallelism alone; plan with --sequence-parallel on");
    }
  }
  if (exchanges_beside(plan)) add_overlap_of_experts(reasons, line, plan);
}

void require_arguments(Reasons& reasons, const Plan& plan) {
  if (plan.kernels.fused_loss == FusedLoss::te) {
    reasons.add(" refuses Transformer Engine's fused loss; plan with --fused-loss native, or for ",
                "megatron-bridge");
  }
}

}  // namespace stagecraft
