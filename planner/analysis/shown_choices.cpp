#include "planner/analysis/shown_choices.hpp"

#include <algorithm>

#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "planner/baselines/portfolio.hpp"
#include "planner/search/column_search.hpp"
#include "planner/search/heuristics/usual_choices.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view alone = "one device";
constexpr std::string_view released = "pipedream-released";

bool has(const std::vector<Candidate>& candidates, std::string_view name) {
  return std::ranges::any_of(
      candidates, [&](const Candidate& candidate) { return candidate.name.starts_with(name); });
}

/// The whole model on the first device, which no schedule makes faster: a few microbatch sizes.
std::optional<Candidate> on_one_device(Problem problem, const std::stop_token& stop) {
  constexpr std::size_t most_sizes = 3;
  problem.devices = 1;
  problem.tensor_parallel = {1};
  problem.parallelism = {};
  problem.schedules = schedule_choices("1f1b");
  problem.max_stages.reset();
  problem.fixed.clear();
  if (problem.microbatches.size() > most_sizes) problem.microbatches.resize(most_sizes);
  try {
    for (Candidate& candidate : usual_choices(problem, stop)) {
      if (candidate.name.starts_with(alone)) return std::move(candidate);
    }
  } catch (const Error&) {
    // No costs of whole layers.
  }
  return {};
}

/// Its choice where that and our simulation of it are quick, else that it was not tried.
Candidate by_pipedream(const Problem& problem) {
  Candidate candidate{
      .name = std::string(released), .plan = {}, .prediction = {}, .objective = {}, .rejected = {}};
  Problem plain = problem;
  plain.straight = false;
  plain.other_parallelism.clear();
  plain.schedules = plain_choices(plain.schedules);
  const Strategy& strategy = *choose_strategy(released).strategy;
  if (!is_quick(strategy, size_of(plain))) {
    candidate.rejected = concat(not_tried, "its plan has no equal pipelines, and takes long to ",
                                "simulate on so many devices; --strategy ", released, " tries it");
    return candidate;
  }
  if (auto choice = pipedream_choice(plain)) return *std::move(choice);
  candidate.rejected = concat("it has no plan for this network, or none of one device per peer");
  return candidate;
}

}  // namespace

std::vector<Candidate> shown_choices(const Problem& problem, const std::stop_token& stop) {
  std::vector<Candidate> choices = usual_choices(problem, stop);
  // On few devices these are among them, as far as there are any.
  if (device_count(problem.cluster) <= most_devices_walked || serves(problem)) return choices;
  if (!has(choices, alone) && !stop.stop_requested()) {
    if (auto choice = on_one_device(problem, stop)) choices.push_back(*std::move(choice));
  }
  const bool may_ask = problem.excluded.empty() && !has(choices, released);
  if (may_ask && !stop.stop_requested()) choices.push_back(by_pipedream(problem));
  return choices;
}

}  // namespace stagecraft
