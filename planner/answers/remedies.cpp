#include "planner/answers/remedies.hpp"

#include <algorithm>

#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

using Remedies = std::vector<std::string>;

void try_remedy(Remedies& remedies, const Problem& changed, const std::string& words) {
  if (find_plan(changed)) remedies.push_back(words);
}

void try_smaller_microbatch(Remedies& remedies, const Problem& problem) {
  const std::int64_t now = smallest(problem).microbatches.front();
  for (std::int64_t size = now / 2; size >= 1; size /= 2) {
    if (problem.global_batch % size != 0) continue;
    Problem changed = problem;
    changed.microbatches = {size};
    if (!find_plan(changed)) continue;
    remedies.push_back(concat("--microbatch ", size, " (now ", now, ")"));
    return;
  }
}

void try_recomputation(Remedies& remedies, const Problem& problem) {
  const auto& allowed = problem.recompute;
  Problem changed = problem;
  changed.recompute = {Recompute::none, Recompute::full};
  if (std::find(allowed.begin(), allowed.end(), Recompute::full) == allowed.end()) {
    try_remedy(remedies, changed, "--recompute auto");
  }
  changed.recompute_layers = {Recomputed::selective, Recomputed::full};
  if (problem.recompute_layers != changed.recompute_layers) {
    try_remedy(remedies, changed, "--recompute layers");
  }
}

void try_more_devices(Remedies& remedies, const Problem& problem) {
  const int available = available_devices(problem);
  const int now = std::min(problem.devices.value_or(available), available);
  for (int count = now + 1; count <= available; ++count) {
    Problem changed = problem;
    changed.devices = count;
    if (!find_plan(changed)) continue;
    remedies.push_back(concat("--devices ", count, " (now ", now, ")"));
    return;
  }
}

/// Whether all of these were tried.
bool are_tried(const std::vector<ScheduleChoice>& schedules, const Problem& problem) {
  return std::ranges::all_of(schedules, [&](const ScheduleChoice& choice) {
    return std::ranges::find(problem.schedules, choice) != problem.schedules.end();
  });
}

/// The first of these that helps: with less in flight than others, with finer stages, with less in
/// flight at the price of a bubble (controllable memory, Qi et al. 2024).
void try_other_schedule(Remedies& remedies, const Problem& problem) {
  const bool infers =
      std::any_of(problem.schedules.begin(), problem.schedules.end(),
                  [](const ScheduleChoice& choice) { return choice.name == "inference"; });
  if (infers) return;
  for (const std::string_view name : {"1f1b", "auto", "v-half", "v-min"}) {
    Problem changed = problem;
    changed.schedules = name == "auto" ? all_schedule_choices() : schedule_choices(name);
    if (are_tried(changed.schedules, problem) || !find_plan(changed)) continue;
    remedies.push_back(concat("--schedule ", name));
    return;
  }
}

void try_sharding(Remedies& remedies, const Problem& problem) {
  if (problem.optimizer.sharding != Sharding::none) return;
  Problem changed = problem;
  changed.optimizer.sharding = Sharding::zero1;
  try_remedy(remedies, changed, "--sharding zero1");
}

void try_sgd(Remedies& remedies, const Problem& problem) {
  if (problem.optimizer.kind == OptimizerKind::sgd) return;
  Problem changed = problem;
  changed.optimizer.kind = OptimizerKind::sgd;
  try_remedy(remedies, changed, "--optimizer sgd");
}

void try_fewer_demands(Remedies& remedies, const Problem& problem) {
  Problem changed = problem;
  changed.max_stages.reset();
  if (problem.max_stages) try_remedy(remedies, changed, "without --max-stages");
  changed = problem;
  changed.straight = false;
  if (problem.straight) try_remedy(remedies, changed, "without --straight");
  changed = problem;
  changed.fixed.clear();
  if (!problem.fixed.empty()) try_remedy(remedies, changed, "without --fix");
  changed = problem;
  changed.excluded.clear();
  if (!problem.excluded.empty()) try_remedy(remedies, changed, "without --exclude");
  changed = problem;
  changed.min_layers_per_stage = 1;
  if (problem.min_layers_per_stage > 1) {
    try_remedy(remedies, changed, "without --min-layers-per-stage");
  }
}

void try_all_memory(Remedies& remedies, const Problem& problem) {
  if (problem.memory_fraction >= 1) return;
  Problem changed = problem;
  changed.memory_fraction = 1;
  try_remedy(remedies, changed, "--mem-limit 100%");
}

/// As much as the closest plan needs, in whole units.
void try_more_memory(Remedies& remedies, const Problem& problem, const Candidate& closest) {
  Bytes most = 0;
  // What is given may be used: none of it is the framework's.
  for (const MemoryPeak& peak : closest.prediction->peaks) {
    most = std::max(most, peak.bytes - peak.use[static_cast<std::size_t>(MemoryCategory::reserve)]);
  }
  const Bytes gibibyte = Bytes{1} << 30;
  const Bytes unit = most >= 8 * gibibyte ? gibibyte : gibibyte >> 10;
  const Bytes whole =
      (static_cast<Bytes>(static_cast<double>(most) / problem.memory_fraction) + unit) / unit *
      unit;
  Problem changed = problem;
  for (DeviceKind& kind : changed.cluster.kinds) {
    kind.memory = std::max(usable_memory(kind), whole);
    kind.reserve = 0;
  }
  try_remedy(remedies, changed, concat("--memory ", exact_bytes(whole)));
}

/// Degrees beyond those tried, as far as the innermost links reach.
void try_tensor_parallelism(Remedies& remedies, const Problem& problem) {
  if (problem.tensor_parallel.empty() || problem.cluster.levels.empty()) return;
  const auto& tried = problem.tensor_parallel;
  const int width = problem.cluster.levels.back().count;
  for (int degree = 2; degree <= width; degree *= 2) {
    if (std::find(tried.begin(), tried.end(), degree) != tried.end()) continue;
    Problem changed = problem;
    changed.tensor_parallel = {degree};
    if (!find_plan(changed)) continue;
    remedies.push_back(concat("--tensor-parallel ", degree));
    return;
  }
}

/// Costs of other lengths are only known where they are estimated.
void try_shorter_sequence(Remedies& remedies, const Problem& problem) {
  if (!problem.profile.entries.empty()) return;
  for (std::int64_t length = problem.sequence / 2; length >= problem.sequence / 8 && length > 0;
       length /= 2) {
    Problem changed = problem;
    changed.sequence = length;
    if (!find_plan(changed)) continue;
    remedies.push_back(concat("--sequence ", length, " (now ", problem.sequence, ")"));
    return;
  }
}

/// Adds the same devices again, those excluded among them.
void double_cluster(Problem& problem) {
  std::vector<int>& devices = problem.cluster.devices;
  const std::vector<int> again = devices;
  const int count = device_count(problem.cluster);
  devices.insert(devices.end(), again.begin(), again.end());
  problem.cluster.levels.front().count *= 2;
  const std::vector<int> excluded = problem.excluded;
  for (const int device : excluded) problem.excluded.push_back(count + device);
}

/// The cluster with its outermost level twice, four times … as large.
void try_larger_cluster(Remedies& remedies, const Problem& problem) {
  constexpr int most = 32;  // devices: each try takes a while
  const int now = available_devices(problem);
  if (problem.devices.value_or(now) < now || problem.cluster.levels.empty()) return;
  Problem larger = problem;
  larger.devices.reset();
  while (available_devices(larger) <= most / 2) {
    double_cluster(larger);
    if (!find_plan(larger)) continue;
    remedies.push_back(concat(available_devices(larger), " such devices",
                              problem.excluded.empty() ? "" : " that may be used", " (now ", now,
                              ")"));
    return;
  }
}

}  // namespace

Remedies verified_remedies(const Problem& problem, const std::optional<Candidate>& closest) {
  Remedies remedies;
  if (!problem.microbatches.empty()) try_smaller_microbatch(remedies, problem);
  try_recomputation(remedies, problem);
  try_more_devices(remedies, problem);
  try_larger_cluster(remedies, problem);
  try_other_schedule(remedies, problem);
  try_tensor_parallelism(remedies, problem);
  try_shorter_sequence(remedies, problem);
  try_fewer_demands(remedies, problem);
  try_all_memory(remedies, problem);
  try_sharding(remedies, problem);
  try_sgd(remedies, problem);
  if (closest) try_more_memory(remedies, problem, *closest);
  return remedies;
}

}  // namespace stagecraft
