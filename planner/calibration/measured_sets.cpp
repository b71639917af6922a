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

}  // namespace stagecraft
