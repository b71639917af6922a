// torchtitan: transformers over torch.distributed.pipelining, with activation checkpoints around
// each block or none (torchtitan/distributed/activation_checkpoint.py).

#include "planner/targets/rules.hpp"
#include "planner/targets/torchtitan_models.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array recompute_in_torchtitan{RecomputeEverywhere::none,
                                             RecomputeEverywhere::blocks};

constexpr std::array precisions_of_torchtitan{Precision::bfloat16, Precision::float32};
constexpr std::array optimizers_of_torchtitan{OptimizerKind::adamw};

std::vector<std::string> against_model_of_torchtitan(const Model& model) {
  const Transformer& transformer = *model.transformer;
  if (transformer.position != Transformer::Position::rotary || !transformer.causal) {
    return {concat("has models that are causal and have rotary positions; \"", model.name,
                   "\" is none of them")};
  }
  if (find_titan_model(model) == nullptr) {
    return {concat("has no configuration of the model \"", model.name, "\"; 0.3.0 has ",
                   titan_models_in_words(), "; plan it --for torch, which cuts any model")};
  }
  if (transformer.prediction_modules > 0) {
    return {
        concat("has no multi-token prediction in pipelines, and none in its configuration of \"",
               model.name, "\"; stagecraft model show MODEL --without-prediction -o FILE ",
               "writes the model that it trains")};
  }
  return {};
}

std::string torchtitan_refuses(const TargetPipeline& pipeline) {
  std::string why = torch_refuses(pipeline);
  return why.empty() ? torchtitan_shards_otherwise(pipeline) : why;
}

}  // namespace

std::string torchtitan_shards_otherwise(const TargetPipeline& pipeline) {
  const Sharding sharding = pipeline.sharding;
  if (pipeline.devices > 1 && shards_gradients(sharding)) {
    return concat("torchtitan sums gradients of a pipeline once, behind the last backward, as ",
                  "zero1 does; the plan has ", to_string(sharding));
  }
  if (pipeline.devices == 1 && pipeline.microbatches > 1 && sharding == Sharding::zero1) {
    return concat("torchtitan scatters gradients in each microbatch where there is no pipeline, ",
                  "as zero2 does; the plan has zero1");
  }
  return {};
}

const Target torchtitan_target{.name = "torchtitan",
                               .version = "0.3.0",
                               .system = "torchtitan",
                               .format = "torch",
                               .schedules = torch_schedules,
                               .recompute = recompute_in_torchtitan,
                               .only_transformers = true,
                               .sharding = any_sharding,
                               .precision = precisions_of_torchtitan,
                               .optimizers = optimizers_of_torchtitan,
                               .kernels = Framework::torch,
                               .against_model = against_model_of_torchtitan,
                               .refuses = torchtitan_refuses};

}  // namespace stagecraft
