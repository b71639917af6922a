#include "planner/baselines/portfolio.hpp"

#include "planner/baselines/compatibility.hpp"
#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "planner/space/downsets.hpp"
#include "planner/space/space.hpp"
#include "planner/space/workers.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr double most_work = 2.5e8;  // nanoseconds

constexpr double nanoseconds_per_step = 10;

/// A search with a given effort spends at most a quarter of it on each.
constexpr double part_of_effort = nanoseconds_per_step / 4;

/// Without the wishes that other planners refuse.
Problem without_limits(Problem problem) {
  problem.max_stages.reset();
  problem.fixed.clear();
  problem.other_parallelism.clear();  // others know none
  problem.min_layers_per_stage = 1;
  return problem;
}

double states_in(const Problem& problem, const Space& space) {
  try {
    const StateLimit limit{"portfolio", "it", most_sized_states};
    return states_of(problem, space, largest_microbatch(space), limit).size();
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

ProblemSize size_of(const Problem& problem) {
  const Space space(problem);
  const Model& model = problem.profile.model;
  ProblemSize size{.layers = static_cast<double>(space.layers()),
                   .devices = static_cast<double>(devices_of(problem))};
  const std::vector<Level>& levels = problem.cluster.levels;
  for (std::size_t level = 1; level < levels.size(); ++level) {
    size.servers *= levels[level - 1].count;
    size.nested += static_cast<double>(levels[level].count) * levels[level].count;
  }
  for (const Setting& setting : space.settings()) {
    const double devices = space.devices(setting);
    if (setting.schedule.virtual_stages != 1) continue;
    size.instructions += 2.0 * setting.microbatches * devices;
  }
  const auto downsets = count_downsets({space.layers(), model.edges}, most_sized_downsets);
  if (downsets) size.downsets = static_cast<double>(*downsets);
  size.states = states_in(problem, space);
  return size;
}

bool is_quick(const Strategy& strategy, const ProblemSize& size) {
  return strategy.work != nullptr && strategy.work(size) <= most_work;
}

std::vector<Candidate> portfolio(const Problem& problem, const SearchControl& control) {
  if (!problem.excluded.empty()) return {};  // they take the first devices, whichever they are
  const Problem free = without_limits(problem);
  const ProblemSize size = size_of(free);
  const double most =
      control.effort ? std::min(most_work, part_of_effort * static_cast<double>(*control.effort))
                     : most_work;
  std::vector<const Strategy*> quick;
  for (const Strategy& strategy : baselines) {
    if (!is_quick(strategy, size) || strategy.work(size) > most) continue;
    // It would only find what nobody asked for.
    const bool knows_degrees = (strategy.obeys & wish::tensor_parallel) != 0;
    if (!knows_degrees && asks_for_tensor_parallel(free)) continue;
    quick.push_back(&strategy);
  }
  // What the problem's size does not tell.
  const auto effort = static_cast<std::int64_t>(most / nanoseconds_per_step);
  std::vector<std::optional<Candidate>> choices(quick.size());
  Workers(control.threads).run(static_cast<int>(quick.size()), [&](int, int i) {
    const auto own = static_cast<std::size_t>(i);
    if (control.stop.stop_requested()) return;
    const SearchControl short_one{.stop = control.stop, .effort = effort};
    choices[own] = choice_of([&] { return quick[own]->search(free, short_one); });
  });
  std::vector<Candidate> candidates;
  for (std::optional<Candidate>& choice : choices) {
    if (choice) candidates.push_back(*std::move(choice));
  }
  return candidates;
}

}  // namespace stagecraft
