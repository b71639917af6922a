// Megatron-LM over Megatron Core. Layers go where a layout string puts them
// (--pipeline-model-parallel-layout): any split, as long as the embedding comes with or before the
// first block and head and loss stay together. Recomputation is one choice for all stages
// (megatron/core/transformer/transformer_block.py). Gradients and parameters are sharded by
// Megatron-FSDP (--use-megatron-fsdp), whose parameters only the schedule without a pipeline
// gathers anew behind an evaluation (megatron/core/pipeline_parallel/schedules.py).

#include <cmath>

#include "planner/targets/rules.hpp"
#include "profiles/error.hpp"
#include "profiles/trained_form.hpp"

namespace stagecraft {

namespace {

std::string fsdp_refuses(const TargetPipeline& pipeline) {
  if (pipeline.devices < 2 || !shards_gradients(pipeline.sharding)) return {};
  return concat("Megatron-FSDP, which ", to_string(pipeline.sharding),
                " stands for, is for pipelines of one rank, and the plan's have ",
                pipeline.devices);
}

/// What numbers of the transformer nothing in megatron/training/arguments.py says.
std::string beyond_numbers(const Transformer& transformer) {
  const Arithmetic& arithmetic = transformer.arithmetic;
  const bool is_gated = transformer.activation == Transformer::FeedForward::swiglu;
  for (const char* word : {"ALiBi", "softcapping"}) {
    if (transformer.untrainable.find(word) != std::string::npos) return transformer.untrainable;
  }
  if (transformer.embedding_norm) return "its embedding has a norm";
  if (arithmetic.parallel_residual) return "attention and feed-forward are of the same input";
  if (transformer.streams > 1)
    return concat("blocks hand on ", transformer.streams, " states of a token side by side");
  if (arithmetic.embedding_scale != 1) return "its words' rows are multiplied";
  if (arithmetic.score_width > 0 &&
      arithmetic.score_width != static_cast<double>(transformer.head_width))
    return "its scores are divided by another root than that of a head's width";
  if (is_gated && arithmetic.activation == Arithmetic::Activation::tanh_gelu)
    return "the gate of its feed-forward is GELU";
  return "";
}

std::string beyond_layer(const Transformer& transformer, const Layer& layer) {
  for (const Step& step : layer.steps) {
    if (layer.kind == LayerKind::embedding && step.kind == StepKind::norm)
      return "its embedding has a norm";
    if (step.kind == StepKind::recurrence) return "its layers have recurrences";
  }
  const auto form = trained_form(transformer, layer);
  if (!form) return "";
  if (form->norms_behind) return "its norms stand behind attention and feed-forward";
  if (form->relu) return "its activation is relu";
  if (form->query_key_norm == QueryKeyNorm::together)
    return "its queries and keys are normed over all heads together";
  return "";
}

/// The first thing about the model that no argument says, as a clause; empty: there is none.
std::string beyond_arguments(const Model& model) {
  std::string clause = beyond_numbers(*model.transformer);
  for (const Layer& layer : model.layers) {
    if (clause.empty()) clause = beyond_layer(*model.transformer, layer);
  }
  return clause;
}

}  // namespace

std::vector<std::string> against_model_of_megatron(const Model& model) {
  const Transformer& transformer = *model.transformer;
  std::vector<std::string> reasons;
  if (transformer.patches || transformer.token_types || !transformer.causal) {
    reasons.push_back(
        concat("has another program than pretrain_gpt.py for ",
               transformer.patches ? "vision transformers" : "models that are not causal"));
  }
  if (transformer.output_bias != transformer.feed_forward_bias ||
      (transformer.output_bias && !transformer.attention_bias)) {
    reasons.push_back(concat("has biases in all products, in those of queries, keys and values, ",
                             "or in none; the model has others"));
  }
  if (transformer.position == Transformer::Position::rotary &&
      std::round(transformer.rotary_base) != transformer.rotary_base) {
    reasons.push_back(
        concat("takes whole numbers for --rotary-base; the model's is ", transformer.rotary_base));
  }
  if (transformer.prediction_modules > 0 && transformer.position == Transformer::Position::learned)
    reasons.push_back("has no multi-token prediction with learned positions");
  return reasons;
}

/// megatron/core/pipeline_parallel/schedules.py: groups of microbatches as long as the pipeline
/// divide a step's, and there is somebody to interleave with.
std::string megatron_refuses(const TargetPipeline& pipeline) {
  if (std::string why = fsdp_refuses(pipeline); !why.empty()) return why;
  if (pipeline.exchanges_beside && pipeline.devices > 1 && pipeline.schedule.virtual_stages == 1) {
    return "Megatron Core sends tokens to experts beside another microbatch's work in interleaved "
           "pipelines, or without pipelines";
  }
  if (pipeline.schedule.name != "interleaved") return {};
  if (pipeline.devices < 2) return "Megatron Core interleaves pipelines of two or more ranks";
  const int group = pipeline.schedule.group.value_or(pipeline.devices);
  const int last = pipeline.microbatches % group;
  if (last == 0 || last >= pipeline.devices) return {};
  return concat("Megatron Core interleaves groups of ", group,
                " microbatches, which do not divide ", "the ", pipeline.microbatches, " of a step");
}

std::vector<std::string> against_arguments_of_megatron(const Model& model) {
  std::vector<std::string> reasons = against_model_of_megatron(model);
  const std::string clause = beyond_arguments(model);
  if (clause.empty()) return reasons;
  reasons.push_back(concat("has no arguments for the model \"", model.name, "\": ", clause,
                           "; it would train another one"));
  return reasons;
}

namespace {

Target megatron_by_arguments() {
  Target target = over_megatron_core("megatron", "0.19.2", "Megatron-LM", FusedLoss::native);
  target.against_model = against_arguments_of_megatron;
  return target;
}

}  // namespace

const Target megatron_target = megatron_by_arguments();

}  // namespace stagecraft
