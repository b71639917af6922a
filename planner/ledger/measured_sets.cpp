#include "planner/ledger/measured_sets.hpp"

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

MeasuredRow recipe_row(const Recipe& recipe, std::string label, double seconds) {
  MeasuredRow row;
  row.label = std::move(label);
  row.shape = shape_of(recipe);
  row.seconds = seconds;
  row.predict = [recipe](const KernelConstants& constants, double factor) {
    return step_seconds(recipe, constants, factor).step;
  };
  return row;
}

KernelConstants usual_constants(std::string_view device) {
  KernelConstants constants;
  // Rounded from what the single-node measurements of vTrain give on A100.
  constants.product_rate = 0.88;
  constants.product_depth = 65;
  constants.product_outputs = 2e6;
  constants.memory_rate = 0.7;
  constants.kernel_seconds = 4.5e-6;
  constants.message_seconds = 1.7e-5;
  constants.peer_seconds = 3.6e-6;
  // Narayanan et al. 2021, section 5.9: all-reduces of replicas cross the bisection with 13 TB/s on
  // 3072 devices, 8.5 GB/s for each port of 25.
  if (device.starts_with("a100")) constants.between_rate = 0.4;
  return constants;
}

}  // namespace stagecraft
