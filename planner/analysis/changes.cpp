#include "planner/analysis/changes.hpp"

#include "planner/analysis/changes/cluster.hpp"
#include "planner/analysis/changes/stages.hpp"
#include "planner/analysis/changes/training.hpp"
#include "planner/analysis/changes/wishes.hpp"

namespace stagecraft {

ChangedPlan changed(LoadedPlan loaded, const std::vector<Change>& changes, bool balance) {
  const what_if::Wishes wishes(changes);
  const Change* layers = wishes.find("layers");
  if (layers != nullptr && layers->value == "balanced") balance = true;
  if (layers != nullptr && layers->value != "balanced" && balance) {
    fail_usage("--replan looks for the layers of each stage itself; leave out --set layers=",
               layers->value);
  }
  ChangedPlan result{.loaded = std::move(loaded), .slow = {}, .notes = {}};
  Plan& plan = result.loaded.plan;
  plan.predicted.reset();
  plan.search.reset();
  what_if::set_cluster(wishes, result);
  what_if::set_training(wishes, result.loaded.profile, plan);
  what_if::set_recompute(wishes, result.loaded.profile.model, plan);
  what_if::set_stages(wishes, balance, result);
  if (!serves(plan)) plan.requests.reset();
  what_if::set_batch(wishes, plan);
  what_if::require_overlap(wishes, plan);
  try {
    validate(plan, result.loaded.profile.model, result.loaded.cluster);
  } catch (const Error& error) {
    throw Error(error.kind(), concat("--set ", to_string(changes), ": ", error.message()), {},
                error.help());
  }
  return result;
}

}  // namespace stagecraft
