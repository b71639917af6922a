#include "planner/search/heuristics/warm_starts.hpp"

#include <algorithm>

#include "planner/baselines/portfolio.hpp"
#include "planner/search/heuristics/usual_choices.hpp"

namespace stagecraft {

namespace {

/// A search with less effort has no time to improve plans outside its space.
constexpr std::int64_t small_effort = 100'000'000;

bool has_wanted_degrees(const Space& space, const Plan& plan, const Stage& stage) {
  const std::vector<int>& degrees = space.problem().tensor_parallel;
  return std::all_of(stage.devices.begin(), stage.devices.end(), [&](const auto& peers) {
    const int degree = tensor_degree(plan.parallelism, peers.size());
    return std::find(degrees.begin(), degrees.end(), degree) != degrees.end();
  });
}

/// Number of tensor-parallel peers that share the layer's parameters; 0 if no stage has the layer.
std::size_t peers_of(const Plan& plan, int layer) {
  const auto found = std::find(plan.order.begin(), plan.order.end(), layer);
  const auto place = plan.order.empty() ? layer : static_cast<int>(found - plan.order.begin());
  for (const Stage& stage : plan.stages) {
    if (stage.layers.first <= place && place < stage.layers.end)
      return stage.devices.front().size();
  }
  return 0;
}

/// Whether stages that share parameters split them into equal parts, so that their gradients can be
/// summed.
bool has_alike_ties(const Space& space, const Plan& plan) {
  const std::vector<Tie>& ties = space.problem().profile.model.ties;
  return std::all_of(ties.begin(), ties.end(), [&](const Tie& tie) {
    return peers_of(plan, tie.owner) == peers_of(plan, tie.user);
  });
}

}  // namespace

bool is_wanted(const Space& space, const Plan& plan) {
  const int stages = static_cast<int>(plan.stages.size());
  if (!space.uses_enough(plan) || !space.allows_stages(stages)) return false;
  if (!space.against_question(plan).empty()) return false;
  if (!space.has_usable_devices(plan) || !has_alike_ties(space, plan)) return false;
  for (int stage = 0; stage < stages; ++stage) {
    const Stage& here = plan.stages[static_cast<std::size_t>(stage)];
    if (space.problem().straight && here.devices.size() > 1) return false;
    if (!space.allows(stage, here.layers) || !space.allows(here.recompute)) return false;
    if (!has_wanted_degrees(space, plan, here)) return false;
  }
  // Fixed stages refer to the model's own order of layers.
  return plan.order.empty() || space.problem().fixed.empty();
}

bool lies_in_space(const Space& space, const Plan& plan) {
  const auto degree = static_cast<int>(plan.stages.front().devices.front().size());
  const auto& settings = space.settings();
  const auto setting = std::find_if(settings.begin(), settings.end(), [&](const Setting& other) {
    return other.peers == degree && space.is_of(other, plan);
  });
  if (setting == settings.end() || plan.order != space.problem().order) return false;
  int next = 0;
  for (int s = 0; s < pipeline_devices(plan); ++s) {
    for (const std::vector<int>& replica : plan.stages[static_cast<std::size_t>(s)].devices) {
      if (next == space.devices(*setting) || replica != space.peers(*setting, next++)) return false;
    }
  }
  return true;
}

std::vector<Candidate> starting_plans(const Space& space, const SearchControl& control) {
  std::vector<Candidate> plans =
      usual_choices(space.problem(), control.stop, control.worth.value_or(Duration::max()));
  for (Candidate& plan : portfolio(space.problem(), control)) plans.push_back(std::move(plan));
  const bool is_small = control.effort && *control.effort < small_effort;
  std::erase_if(plans, [&](const Candidate& candidate) {
    return !candidate.prediction || !candidate.prediction->fits ||
           !is_wanted(space, candidate.plan) || (is_small && !lies_in_space(space, candidate.plan));
  });
  return plans;
}

}  // namespace stagecraft
