#include "planner/calibration/measured_sets.hpp"

#include "profiles/devices.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

std::vector<MeasuredSet> read_measured(const Json& json) {
  if (!json.is_object()) return {};
  for (const SetFormat& format : set_formats) {
    if (format.looks_like(json)) return format.read(json);
  }
  return {};
}

std::string shape_of(const Recipe& recipe) {
  const WorkSetting& work = recipe.work;
  std::string text = concat("hidden ", recipe.transformer.hidden, ", tensor ", work.tensor_parallel,
                            ", microbatch ", work.microbatch);
  if (work.context_parallel > 1)
    text += concat(", sequence ", work.sequence, " over ", work.context_parallel);
  if (recipe.transformer.experts) text += concat(", experts over ", work.expert_parallel);
  return text;
}

std::string prediction_in_words(const Recipe& recipe) {
  const WorkSetting& work = recipe.work;
  const bool torch = work.framework == Framework::torch;
  std::string text = concat("closed form; ", torch ? "PyTorch's" : "Megatron-LM's", " kernels, ",
                            work.fused_attention ? "fused" : "unfused", " attention, ",
                            work.fused_loss == FusedLoss::te       ? "fused"
                            : work.fused_loss == FusedLoss::native ? "compiled"
                                                                   : "unfused",
                            " loss, ", to_string(work.precision));
  if (recipe.transformer.experts)
    text +=
        sends_once(work.dispatcher) ? ", a token to each peer once" : ", a token to each expert";
  if (work.router_fusion == RouterFusion::on) text += ", a fused router";
  if (recipe.transformer.experts && is_float8(work.precision))
    text += concat(", scaled ", to_string(work.float8_recipe));
  if (recipe.float8_gathers) text += ", gathers in 8 bits";
  if (recipe.graphs == CudaGraphs::layers) text += ", layers as CUDA graphs";
  if (recipe.graphs == CudaGraphs::step) text += ", the step a CUDA graph";
  if (!recipe.again.empty()) text += concat(", again ", to_string(recipe.again));
  if (!recipe.layers.empty()) text += "; layers step by step";
  struct Overlap {
    bool there;
    std::string_view name;
  };
  std::string overlaps;
  for (const Overlap& each :
       {Overlap{recipe.overlapped_gradients, "gradients"},
        Overlap{recipe.overlapped_parameters, "gathers"},
        Overlap{recipe.overlapped_messages, "messages of tensor-parallel peers"},
        Overlap{recipe.overlapped_transfers, "messages between stages"},
        Overlap{recipe.overlapped_exchanges, "messages between experts"}}) {
    if (each.there) overlaps += concat(overlaps.empty() ? "" : ", ", each.name);
  }
  return text + (overlaps.empty() ? "; overlaps nothing" : "; overlaps " + overlaps);
}

MeasuredRow recipe_row(const Recipe& recipe, std::string label, double seconds) {
  MeasuredRow row;
  row.label = std::move(label);
  row.shape = shape_of(recipe);
  row.predicted_by = prediction_in_words(recipe);
  row.in_8_bits = is_float8(recipe.work.precision);
  row.seconds = seconds;
  row.predict = [recipe](const KernelConstants& constants, double factor) {
    return step_seconds(recipe, constants, factor).step;
  };
  return row;
}

}  // namespace stagecraft
