#include "planner/analysis/serving_choices.hpp"

#include <algorithm>

#include "planner/analysis/changes.hpp"
#include "planner/problem/defaults.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// A plan's batch has no bearing on what it serves: each replica has a request.
std::vector<Change> changes_for(const ServingChoice& choice) {
  const std::string replicas = std::to_string(choice.replicas);
  return {{"tp", std::to_string(choice.tensor)},
          {"pp", std::to_string(choice.pipeline)},
          {"dp", replicas},
          {"batch", replicas},
          {"mbs", "1"}};
}

/// Whether there is a plan of these degrees at all; the choice is put where it belongs.
void try_choice(const LoadedPlan& loaded, ServingChoice choice, ServingChoices& choices) {
  try {
    const LoadedPlan other = changed(loaded, changes_for(choice)).loaded;
    const auto shape = request_shape(other.plan, other.profile.model);
    if (!shape) return;
    auto table = serving_table(other.plan, other.profile, other.cluster, *shape);
    if (!table) return choices.too_large.push_back(std::move(choice));
    choice.table = *std::move(table);
    choices.fit.push_back(std::move(choice));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;  // else its layers cannot be divided so
  }
}

}  // namespace

ServingChoices serving_choices(const LoadedPlan& loaded, int devices, const std::stop_token& stop) {
  ServingChoices choices;
  const bool is_mixed = kinds_in_use(loaded.cluster, devices).size() > 1;
  if (!serves(loaded.plan) || is_mixed || !estimates_kernels(loaded.profile)) return choices;
  LoadedPlan base = loaded;
  const int replicas = replicas_of_stages(base.plan).front();
  // Whatever number of replicas is tried first, their microbatches divide the batch.
  base.plan.batch.microbatch = replicas;
  base.plan.batch.microbatches = devices;
  base.plan.batch.global = base.plan.batch.microbatch * devices;
  const auto& levels = loaded.cluster.levels;
  const int width = std::min(levels.empty() ? 1 : levels.back().count, devices);
  const int context = loaded.plan.parallelism.context;
  int widest = 1;
  while (2 * widest <= width) widest *= 2;
  const int layers = static_cast<int>(loaded.profile.model.layers.size());
  for (int tensor = widest; tensor >= 1; tensor /= 2) {
    if (devices % (tensor * context) != 0) continue;
    const int left = devices / (tensor * context);
    for (int pipeline = 1; pipeline <= std::min(left, layers); ++pipeline) {
      if (stop.stop_requested()) return choices;
      if (left % pipeline == 0)
        try_choice(base, {.tensor = tensor, .pipeline = pipeline, .replicas = left / pipeline},
                   choices);
    }
  }
  return choices;
}

}  // namespace stagecraft
