// The closest plan is the one of minimum memory. A remedy is named only if a plan that fits was
// found with it.

#include "planner/search/infeasible.hpp"

#include <algorithm>

#include "planner/costs/device_limits.hpp"
#include "planner/layouts/tightest_plan.hpp"
#include "planner/search/remedies.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// The program device that exceeds its limit the most.
std::size_t fullest_device(const Prediction& prediction) {
  std::size_t fullest = 0;
  const auto excess = [&](std::size_t d) {
    return prediction.peaks[d].bytes - prediction.memory_limits[d];
  };
  for (std::size_t d = 1; d < prediction.peaks.size(); ++d) {
    if (excess(d) > excess(fullest)) fullest = d;
  }
  return fullest;
}

std::vector<int> stages_on(const Plan& plan, int device) {
  std::vector<int> stages;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const auto& peers : plan.stages[s].devices) {
      if (peers.front() == device) stages.push_back(static_cast<int>(s));
    }
  }
  return stages;
}

/// "stage 0 needs", "stages 0, 2 and 4 need".
std::string who_needs(const std::vector<int>& stages) {
  if (stages.size() == 1) return concat("stage ", stages.front(), " needs ");
  std::string who = "stages ";
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const char* separator = i + 1 < stages.size() ? ", " : " and ";
    who += concat(i == 0 ? "" : separator, stages[i]);
  }
  return who + " need ";
}

std::string memory_reason(const Candidate& closest) {
  const Prediction& prediction = *closest.prediction;
  const std::size_t fullest = fullest_device(prediction);
  const int device = lead_devices(closest.plan)[fullest];
  const std::vector<int> stages = stages_on(closest.plan, device);
  bool recomputes = true;
  for (const int stage : stages) {
    const auto& what = closest.plan.stages[static_cast<std::size_t>(stage)];
    recomputes = recomputes && what.recompute == Recompute::full;
  }
  return concat("nothing fits: ", who_needs(stages),
                needed_of(prediction.peaks[fullest].bytes, prediction.memory_limits[fullest]),
                recomputes ? " with every layer recomputed" : "");
}

/// The reason if no plan has the shape that was asked for.
std::string shape_reason(const Space& space) {
  const std::string none = "no plan has the shape asked for";
  if (space.settings().empty()) return none + ": there is no microbatch size or schedule to try";
  const Setting& setting = space.settings().front();
  const int stages = setting.schedule.virtual_stages;
  const int needed = space.has_empty_stages() ? std::min(stages, 2)
                                              : stages * space.problem().min_layers_per_stage;
  if (space.layers() < needed) {
    return concat(none, ": ", space.layers(), " layers are fewer than the ", needed,
                  " that a single device's stages must hold");
  }
  return space.refusal().empty() ? none : concat(none, ": ", space.refusal());
}

}  // namespace

Infeasible explain_infeasible(const Problem& problem, const Space& space,
                              const std::stop_token& stop, std::optional<Candidate> closest) {
  Infeasible infeasible;
  if (!closest) closest = tightest_plan(space, stop);
  if (!closest && stop.stop_requested()) {
    infeasible.reason = "nothing fits; there was no time to find out why";
    return infeasible;
  }
  infeasible.reason = closest ? memory_reason(*closest) : shape_reason(space);
  if (closest) infeasible.short_by = std::max<Bytes>(shortfall(*closest->prediction), 0);
  infeasible.remedies = verified_remedies(problem, closest, stop);
  return infeasible;
}

}  // namespace stagecraft
