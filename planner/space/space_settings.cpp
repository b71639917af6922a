// The settings of a space: microbatch sizes, peers, degrees of parallelism, schedules, columns.

#include <algorithm>

#include "planner/costs/columns.hpp"
#include "planner/plan/parallelism_fault.hpp"
#include "planner/space/setting_kinds.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

int microbatches_of(std::int64_t global_batch, std::int64_t microbatch) {
  if (microbatch < 1 || global_batch % microbatch != 0) {
    fail_usage("a microbatch of ", microbatch, " samples does not divide the batch of ",
               global_batch);
  }
  constexpr std::int64_t most = 10'000'000;
  if (global_batch / microbatch > most) {
    fail_usage("a batch of ", global_batch, " in microbatches of ", microbatch, " makes ",
               global_batch / microbatch, " of them; expected at most ", most);
  }
  return static_cast<int>(global_batch / microbatch);
}

/// Throws Error (input) if sums of times or bytes could overflow.
void require_plausible(const CostTable& table, const LayerRange& all, int microbatches,
                       int devices) {
  const double time = seconds(table.forward(all) + table.backward(all)) * microbatches;
  if (time > 1e8 || time / devices > 1e6) {
    fail("a step takes ", static_cast<std::int64_t>(time / devices / 86400), " days on ", devices,
         devices == 1 ? " device" : " devices", "; expected at most 11: look at the units of the ",
         "layers' times, or use a smaller --batch");
  }
  const ChunkMemory memory = table.memory(all, OptimizerKind::adamw);
  const double bytes = static_cast<double>(memory.saved) + static_cast<double>(memory.input) +
                       static_cast<double>(memory.output);
  if (bytes * microbatches > 1e18) {
    fail("a batch of ", microbatches,
         " microbatches needs more than 1000 PB; look at the units "
         "of the layers' memory, or use a smaller --batch");
  }
}

/// Whether every device kind in use has costs for this microbatch and tensor-parallel degree; if
/// not, `missing` gets the reason.
bool has_costs(CostBook& book, const std::vector<int>& kinds, int devices, std::int64_t microbatch,
               int microbatches, int degree, std::optional<Error>& missing) {
  const LayerRange all{0, static_cast<int>(book.profile().model.layers.size())};
  try {
    for (const int kind : kinds) {
      require_plausible(book.table(kind, microbatch, microbatch, degree), all, microbatches,
                        devices);
    }
    return true;
  } catch (const Error& error) {
    if (!missing) missing = error;
    return false;
  }
}

}  // namespace

/// Adds settings of every microbatch size and tensor-parallel degree; if these degrees are one of
/// several choices, only settings that a plan may have.
void Space::add_settings(int choice, bool are_some, std::optional<Error>& missing) {
  const Parallelism& parallelism = parallelism_[static_cast<std::size_t>(choice)];
  CostBook& book = *books_[static_cast<std::size_t>(choice)];
  for (const std::int64_t microbatch : problem_.microbatches) {
    for (const int degree : problem_.tensor_parallel) {
      const int peers = degree * parallelism.context;
      if (!has_groups(degree, parallelism.context)) continue;
      const int microbatches = microbatches_of(problem_.global_batch, microbatch);
      if (are_some && !may_share(parallelism, microbatch, degree)) continue;
      if (is_another_name(choice, degree)) continue;
      if (has_costs(book, kinds_, devices_, microbatch, microbatches, peers, missing)) {
        add_settings(microbatch, peers, choice);
      }
    }
  }
}

/// Whether this choice names the same plans as one of the choices without an expert-tensor degree,
/// since it divides experts like the other layers.
bool Space::is_another_name(int choice, int tensor) const {
  Parallelism as_all_else = parallelism_[static_cast<std::size_t>(choice)];
  if (choice == 0 || as_all_else.expert_tensor != tensor) return false;
  as_all_else.expert_tensor = 0;
  return std::ranges::find(parallelism_, as_all_else) != parallelism_.end();
}

/// Whether some plan with `tensor` tensor-parallel peers may have these degrees.
bool Space::may_share(const Parallelism& parallelism, std::int64_t microbatch, int tensor) const {
  const std::int64_t tokens =
      problem_.sequence > 0 ? problem_.sequence : problem_.profile.model.sequence;
  const std::int64_t parts =
      std::int64_t{parallelism.context} * (parallelism.sequence ? tensor : 1);
  if (tokens % parts != 0) return false;
  const int peers = tensor * parallelism.context;
  const int replicas = replicas_of_experts(parallelism, peers);
  if (problem_.straight) return replicas == 1;
  return microbatch % replicas == 0 && replicas <= groups(peers);
}

/// Adds settings of every schedule, with split and round-robin replicas.
void Space::add_settings(std::int64_t microbatch, int degree, int choice) {
  const int microbatches = microbatches_of(problem_.global_batch, microbatch);
  for (const ScheduleChoice& schedule : problem_.schedules) {
    const ScheduleKind& kind = find_schedule(schedule.name);
    settings_.push_back({.schedule = schedule,
                         .microbatch = microbatch,
                         .microbatches = microbatches,
                         .replicas = ReplicaPolicy::split,
                         .peers = degree,
                         .choice = choice,
                         .placement = kind.placement,
                         .splits_backward = kind.splits_backward,
                         .trains = kind.generate != inference,
                         .drains = kind.weights == WeightPolicy::flush});
    if (!may_take_turns(settings_.back())) continue;
    settings_.push_back(settings_.back());
    settings_.back().replicas = ReplicaPolicy::round_robin;
  }
}

bool Space::may_take_turns(const Setting& setting) const {
  if (problem_.straight || has_equal_stages(problem_) || devices(setting) == 1) return false;
  // With vertical sync, replicas in rounds of different lengths have no weight version in common.
  if (find_schedule(setting.schedule.name).weights == WeightPolicy::vertical_sync) return false;
  return !needs_equal_shares(parallelism(setting), problem_.optimizer.sharding);
}

/// Whether blocks of `columns` groups are equal, each of one kind of device.
bool Space::has_columns(const Setting& setting, int columns) const {
  Setting column = setting;
  column.columns = columns;
  if (devices(column) == 0) return false;
  if (columns % replicas_of_experts(parallelism(setting), setting.peers) != 0) return false;
  if (!has_alike_blocks(cluster_, columns * setting.peers)) return false;
  if (kinds_.size() == 1) return true;
  const auto kind = [&](int group) {
    return cluster_.devices[static_cast<std::size_t>(lead_of(column, group))];
  };
  for (int group = 1; group < devices(column) * columns; ++group) {
    if (group % columns != 0 && kind(group) != kind(group - 1)) return false;
  }
  return true;
}

bool Space::has_asked_microbatch(const Setting& setting) const {
  const auto& sizes = problem_.microbatches;
  return std::ranges::find(sizes, setting.whole()) != sizes.end();
}

std::vector<Setting> Space::copies(const Setting& setting) const {
  std::vector<Setting> settings;
  const bool has_some = problem_.microbatch_per_copy && !problem_.straight && setting.trains &&
                        setting.drains && setting.replicas == ReplicaPolicy::split;
  if (!has_some) return settings;
  for (int columns = 2; columns <= groups(setting.peers); ++columns) {
    if (setting.microbatches % columns != 0 || !has_columns(setting, columns)) continue;
    Setting copy = setting;
    copy.columns = columns;
    copy.microbatches /= columns;
    if (problem_.pinned.samples_per_replica || !has_asked_microbatch(copy))
      settings.push_back(copy);
  }
  return settings;
}

std::vector<Setting> Space::columns_in_turns(const Setting& setting) const {
  const int most = groups(setting.peers);
  const auto is_unlimited = [&](int kind) {
    return cluster_.kinds[static_cast<std::size_t>(kind)].memory_unlimited;
  };
  // Their only advantage is memory.
  const bool has_limits = !std::ranges::all_of(kinds_, is_unlimited);
  if (!has_limits || most > most_devices_walked || is_chain(setting)) return {};
  if (!setting.trains || !setting.drains) return {};
  std::vector<Setting> settings;
  for (int columns = 2; columns <= most; ++columns) {
    if (setting.microbatches % columns != 0 || !has_columns(setting, columns)) continue;
    settings.push_back(setting);
    settings.back().replicas = ReplicaPolicy::split;
    settings.back().in_turns = true;
    settings.back().columns = columns;
    settings.back().microbatches /= columns;
  }
  return settings;
}

std::vector<Setting> Space::columns(const Setting& setting) const {
  if (setting.replicas != ReplicaPolicy::split) return of_every_depth(columns_in_turns(setting));
  std::vector<Setting> all = copies(setting);
  const int most = problem_.straight ? 1 : groups(setting.peers);
  for (int columns = 1; columns <= most; ++columns) {
    if (setting.microbatch % columns != 0 || !has_columns(setting, columns)) continue;
    if (problem_.pinned.samples_per_replica && columns > 1) continue;  // `copies` has these
    all.push_back(setting);
    all.back().columns = columns;
    all.back().microbatch /= columns;
  }
  return of_every_depth(std::move(all));
}

std::vector<Setting> Space::of_every_depth(std::vector<Setting> columns) const {
  std::vector<Setting> settings;
  const PinnedDegrees& pinned = problem_.pinned;
  for (Setting& column : columns) {
    if (column.columns != pinned.replicas.value_or(column.columns)) continue;
    const int deepest = most_filled_devices(column);
    for (int depth = 1; depth <= deepest; ++depth) {
      if (depth != pinned.pipeline.value_or(depth)) continue;
      if (!may_end_at(column, depth) || !allows_stages(depth * column.schedule.virtual_stages)) {
        continue;
      }
      if (!against_pipeline(column, depth).empty()) continue;
      column.depth = depth;
      settings.push_back(column);
    }
  }
  return settings;
}

}  // namespace stagecraft
