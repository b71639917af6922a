#include "planner/search/remedies.hpp"

#include <algorithm>
#include <cmath>

#include "planner/costs/device_memory.hpp"
#include "planner/layouts/tightest_plan.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/room.hpp"
#include "planner/space/schedule_choices.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// The remedies found so far.
class Remedies {
 public:
  Remedies(const Problem& problem, const std::stop_token& stop) : problem_(problem), stop_(stop) {}

  const Problem& problem() const { return problem_; }
  /// Whether the changed problem has a plan that fits, found in a way that the full search would
  /// also find.
  bool helps(const Problem& changed, std::int64_t effort = tight_effort / 2) const {
    if (stop_.stop_requested()) return false;
    try {
      const Space space(changed);
      if (lacks_room_for_one_copy(space)) return false;
      return tight_plan_that_fits(space, {effort, stop_}).has_value();
    } catch (const Error&) {
      return false;  // no costs for the changed problem, so it has no plan
    }
  }
  void add(std::string words) { words_.push_back(std::move(words)); }
  void try_out(const Problem& changed, std::string words) {
    if (helps(changed)) add(std::move(words));
  }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  const Problem& problem_;
  std::stop_token stop_;
  std::vector<std::string> words_;
};

std::int64_t least_microbatch(const Problem& problem) {
  return *std::ranges::min_element(problem.microbatches);
}

void try_smaller_microbatch(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  const std::int64_t now = least_microbatch(problem);
  for (std::int64_t size = now / 2; size >= 1; size /= 2) {
    if (problem.global_batch % size != 0) continue;
    Problem changed = problem;
    changed.microbatches = {size};
    if (!remedies.helps(changed)) continue;
    remedies.add(concat("--microbatch ", size, " (now ", now, ")"));
    return;
  }
}

/// Tries a larger batch for schedules that never drain: these need at least twice as many
/// microbatches as devices, so that an iteration reaches the memory of the steady state.
void try_larger_batch(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  const bool drains = std::ranges::all_of(problem.schedules, [](const ScheduleChoice& choice) {
    return find_schedule(choice.name).weights == WeightPolicy::flush;
  });
  Problem changed = problem;
  const auto devices = static_cast<std::int64_t>(devices_in_use(problem).size());
  changed.global_batch = 2 * devices * least_microbatch(problem);
  if (drains || changed.global_batch <= problem.global_batch) return;
  changed.microbatches = {least_microbatch(problem)};
  remedies.try_out(changed,
                   concat("--batch ", changed.global_batch, " (now ", problem.global_batch, ")"));
}

void try_recomputation(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  if (!problem.recompute_everywhere.empty())
    return;  // the problem already has the choice of least
             // memory
  const auto& allowed = problem.recompute;
  Problem changed = problem;
  changed.recompute = {Recompute::none, Recompute::full};
  if (std::find(allowed.begin(), allowed.end(), Recompute::full) == allowed.end()) {
    remedies.try_out(changed, "--recompute auto");
  }
  changed.recompute_layers = {Recomputed::selective, Recomputed::full};
  if (problem.recompute_layers != changed.recompute_layers) {
    remedies.try_out(changed, "--recompute layers");
  }
}

void try_more_devices(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  const int available = available_devices(problem);
  const int now = std::min(problem.devices.value_or(available), available);
  const auto do_help = [&](int count) {
    Problem changed = problem;
    changed.devices = count;
    return remedies.helps(changed);
  };
  if (now == available || !do_help(available)) return;
  int too_few = now, enough = available;
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (do_help(middle) ? enough : too_few) = middle;
  }
  remedies.add(concat("--devices ", enough, " (now ", now, ")"));
}

/// Whether all of these were tried.
bool are_tried(const std::vector<ScheduleChoice>& schedules, const Problem& problem) {
  return std::ranges::all_of(schedules, [&](const ScheduleChoice& choice) {
    return std::ranges::find(problem.schedules, choice) != problem.schedules.end();
  });
}

/// Tries other schedules, and names the first that helps: fewer microbatches in flight, finer
/// stages, or fewer in flight at the price of a bubble (controllable memory, Qi et al. 2024).
void try_other_schedule(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  const bool infers =
      std::any_of(problem.schedules.begin(), problem.schedules.end(),
                  [](const ScheduleChoice& choice) { return choice.name == "inference"; });
  if (infers) return;
  for (const std::string_view name : {"1f1b", "auto", "v-half", "v-min"}) {
    Problem changed = problem;
    changed.schedules = name == "auto" ? usual_schedule_choices(problem) : schedule_choices(name);
    std::erase_if(changed.schedules, [&](const ScheduleChoice& choice) {
      return problem.target != nullptr && !has_schedule(*problem.target, choice.name);
    });
    if (changed.schedules.empty()) continue;
    if (are_tried(changed.schedules, problem) || !remedies.helps(changed)) continue;
    remedies.add(concat("--schedule ", name));
    return;
  }
}

/// Tries to shard more of the states, in the ways that the framework offers, and names the first
/// that helps.
void try_sharding(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  for (const Sharding sharding : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    if (sharding <= problem.optimizer.sharding) continue;
    if (problem.target != nullptr &&
        std::ranges::find(problem.target->sharding, sharding) == problem.target->sharding.end())
      continue;
    Problem changed = problem;
    changed.optimizer.sharding = sharding;
    if (!remedies.helps(changed)) continue;
    remedies.add(concat("--sharding ", to_string(sharding)));
    return;
  }
}

/// Tries SGD. Not for transformers, which SGD trains poorly (Zhang et al. 2020, Why are adaptive
/// methods good for attention models?).
void try_sgd(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  const bool attends = std::ranges::any_of(problem.profile.model.layers, is_block);
  if (problem.optimizer.kind == OptimizerKind::sgd || attends) return;
  Problem changed = problem;
  changed.optimizer.kind = OptimizerKind::sgd;
  remedies.try_out(changed, "--optimizer sgd");
}

/// The flags that fix the degrees of all stages, as "--pp and --dp".
std::string pins_of(const Problem& problem) {
  std::vector<std::string> flags;
  if (problem.pinned.pipeline) flags.emplace_back("--pp");
  if (problem.pinned.replicas) flags.emplace_back("--dp");
  if (problem.pinned.samples_per_replica) flags.emplace_back("--mbs");
  return join_words(flags);
}

void try_fewer_demands(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  Problem changed = problem;
  changed.max_stages.reset();
  if (problem.max_stages) remedies.try_out(changed, "without --max-stages");
  changed = problem;
  changed.pinned = {};
  if (problem.pinned.any()) remedies.try_out(changed, concat("without ", pins_of(problem)));
  changed = problem;
  changed.straight = false;
  if (problem.straight) remedies.try_out(changed, "without --straight");
  changed = problem;
  changed.fixed.clear();
  if (!problem.fixed.empty()) remedies.try_out(changed, "without --fix");
  changed = problem;
  changed.excluded.clear();
  if (!problem.excluded.empty()) remedies.try_out(changed, "without --exclude");
  changed = problem;
  changed.min_layers_per_stage = 1;
  if (problem.min_layers_per_stage > 1) {
    remedies.try_out(changed, "without --min-layers-per-stage");
  }
}

void try_all_memory(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  if (problem.memory_fraction >= 1) return;
  Problem changed = problem;
  changed.memory_fraction = 1;
  remedies.try_out(changed, "--mem-limit 100%");
}

/// Tries a memory limit of what the closest plan needs, or a little more: the search for plans that
/// fit may end at another plan than the search for the closest one.
std::optional<std::string> more_memory(const Remedies& remedies, const Candidate& closest) {
  const Problem& problem = remedies.problem();
  Bytes most = 0;
  for (const MemoryPeak& peak : closest.prediction->peaks) most = std::max(most, peak.bytes);
  const double needed = static_cast<double>(most) / problem.memory_fraction;
  std::string before;
  for (const double times : {1.0, 1.01, 1.03}) {
    const std::string size = rounded_up(static_cast<Bytes>(std::ceil(needed * times)));
    if (size == before) continue;
    Problem changed = problem;
    give_memory(changed.cluster, parse_bytes(size));
    if (remedies.helps(changed, tight_effort)) return concat("--memory ", size);
    before = size;
  }
  return {};
}

/// Tries higher tensor-parallel degrees, up to the devices that the innermost links join.
void try_tensor_parallelism(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  if (problem.tensor_parallel.empty() || problem.cluster.levels.empty()) return;
  const auto& tried = problem.tensor_parallel;
  const int width = problem.cluster.levels.back().count;
  for (int degree = 2; degree <= width; degree *= 2) {
    if (std::find(tried.begin(), tried.end(), degree) != tried.end()) continue;
    Problem changed = problem;
    changed.tensor_parallel = {degree};
    if (!remedies.helps(changed)) continue;
    remedies.add(concat("--tensor-parallel ", degree));
    return;
  }
}

/// Tries higher expert-parallel degrees, if experts are most of the parameters.
void try_expert_parallelism(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  const auto& transformer = problem.profile.model.transformer;
  if (!transformer || !transformer->experts) return;
  const std::vector<Parallelism> tried = parallelism_choices(problem);
  for (int degree = 2; degree <= transformer->experts->count; degree *= 2) {
    if (transformer->experts->count % degree != 0) continue;
    if (std::ranges::find(tried, degree, &Parallelism::expert) != tried.end()) continue;
    Problem changed = problem;
    changed.parallelism.expert = degree;
    changed.other_parallelism.clear();
    if (!remedies.helps(changed)) continue;
    remedies.add(concat("--expert-parallel ", degree));
    return;
  }
}

/// Tries shorter sequences. Only for estimated costs, which are known for every length.
void try_shorter_sequence(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  if (!problem.profile.entries.empty()) return;
  for (std::int64_t length = problem.sequence / 2; length >= problem.sequence / 8 && length > 0;
       length /= 2) {
    Problem changed = problem;
    changed.sequence = length;
    if (!remedies.helps(changed)) continue;
    remedies.add(concat("--sequence ", length, " (now ", problem.sequence, ")"));
    return;
  }
}

/// The problem with `parts` parts at the cluster's outermost level, each like the present ones,
/// with the same devices excluded.
Problem with_outermost(const Problem& problem, int parts) {
  Problem changed = problem;
  changed.devices.reset();
  Level& outermost = changed.cluster.levels.front();
  const int now = device_count(problem.cluster);
  const int devices = now / outermost.count * parts;
  outermost.count = parts;
  for (int device = now; device < devices; ++device) {
    changed.cluster.devices.push_back(problem.cluster.devices[index(device % now)]);
    if (std::ranges::find(problem.excluded, device % now) != problem.excluded.end())
      changed.excluded.push_back(device);
  }
  return changed;
}

/// Tries clusters whose outermost level is twice, four times … as large, or three quarters of that.
void try_larger_cluster(Remedies& remedies) {
  const Problem& problem = remedies.problem();
  constexpr int most = 1024;  // devices, since each try takes a while
  const int now = available_devices(problem);
  if (problem.devices.value_or(now) < now || problem.cluster.levels.empty()) return;
  int parts = problem.cluster.levels.front().count;
  for (int devices = now; devices <= most / 2; devices *= 2) {
    parts *= 2;
    if (!remedies.helps(with_outermost(problem, parts))) continue;
    const int fewer = parts / 4 * 3;
    if (parts % 4 == 0 && remedies.helps(with_outermost(problem, fewer))) parts = fewer;
    remedies.add(concat(available_devices(with_outermost(problem, parts)), " such devices",
                        problem.excluded.empty() ? "" : " that may be used", " (now ", now, ")"));
    return;
  }
}

}  // namespace

std::vector<std::string> verified_remedies(const Problem& problem,
                                           const std::optional<Candidate>& closest,
                                           const std::stop_token& stop) {
  Remedies remedies(problem, stop);
  // More memory is tried first, since a stop may end the list early.
  const std::optional<std::string> memory =
      closest ? more_memory(remedies, *closest) : std::nullopt;
  if (!problem.microbatches.empty()) {
    try_smaller_microbatch(remedies);
    try_larger_batch(remedies);
  }
  for (const auto& try_one :
       {try_recomputation, try_more_devices, try_larger_cluster, try_other_schedule,
        try_tensor_parallelism, try_expert_parallelism, try_shorter_sequence, try_fewer_demands,
        try_all_memory, try_sharding, try_sgd}) {
    try_one(remedies);
  }
  if (memory) remedies.add(*memory);
  return remedies.take();
}

}  // namespace stagecraft
