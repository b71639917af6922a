// Do the options fit the schedule? Everything later relies on the answer.

#include <algorithm>
#include <string>

#include "profiles/error.hpp"
#include "simulator/lowering/passes.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft::lowering {

namespace {

/// Memory figures above this (4 PiB) are mistakes, and sums of them could overflow.
constexpr Bytes most_bytes = Bytes{1} << 52;

template <class Table>
void require_one_per_stage(const Table& table, std::string_view what, int stages) {
  if (table.empty() || table.size() == index(stages)) return;
  fail("lower: ", what, " lists ", table.size(), " stages; the schedule has ", stages);
}

void require_bytes(Bytes bytes, std::string_view what, int stage) {
  if (bytes >= 0 && bytes <= most_bytes) return;
  fail("lower: ", what, " of stage ", stage, " is ", bytes, " bytes; expected 0 to ", most_bytes);
}

int replica_count(const LowerOptions& options, int stage) {
  return options.replicas.empty() ? 1 : static_cast<int>(options.replicas[index(stage)].size());
}

/// Stages of one pipeline device share their replicas, and no two pipeline devices share a program
/// device.
void require_replicas(const Schedule& schedule, const LowerOptions& options) {
  if (options.replicas.empty()) return;
  std::vector<int> owner;  // pipeline device of each program device, -1: none yet
  std::vector<int> first_stage(schedule.devices.size(), -1);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const std::vector<int>& replicas = options.replicas[index(stage)];
    if (replicas.empty()) fail("lower: stage ", stage, " has no device");
    const int home = schedule.device_of_stage[index(stage)];
    int& first = first_stage[index(home)];
    if (first >= 0) {
      if (replicas == options.replicas[index(first)]) continue;
      fail("lower: stages ", first, " and ", stage,
           " share a pipeline device, but not their devices");
    }
    first = stage;
    for (const int device : replicas) {
      if (device < 0) fail("lower: stage ", stage, " is on device ", device);
      if (index(device) >= owner.size()) owner.resize(index(device) + 1, -1);
      if (owner[index(device)] >= 0) fail("lower: device ", device, " is used twice");
      owner[index(device)] = home;
    }
  }
}

void require_rows(const Schedule& schedule, const LowerOptions& options) {
  if (options.rows < 1) fail("lower: a microbatch needs at least one row, not ", options.rows);
  if (options.replica_policy != ReplicaPolicy::split) return;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int replicas = replica_count(options, stage);
    if (replicas <= options.rows) continue;
    fail("lower: stage ", stage, " splits microbatches over ", replicas,
         " replicas, but a microbatch has ", options.rows, " rows");
  }
}

void require_memory(const Schedule& schedule, const LowerOptions& options) {
  require_one_per_stage(options.memory, "memory", schedule.stages);
  require_one_per_stage(options.boundary, "boundary", schedule.stages);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (!options.boundary.empty()) {
      require_bytes(options.boundary[index(stage)], "boundary", stage);
    }
    if (options.memory.empty()) continue;
    const std::vector<ChunkMemory>& replicas = options.memory[index(stage)];
    if (replicas.size() != index(replica_count(options, stage))) {
      fail("lower: memory of stage ", stage, " lists ", replicas.size(), " replicas; it has ",
           replica_count(options, stage));
    }
    for (const ChunkMemory& memory : replicas) {
      for (const Bytes bytes :
           {memory.parameters, memory.gradients, memory.optimizer, memory.saved,
            memory.saved_for_weight, memory.input, memory.output, memory.workspace,
            memory.saved_throughout, memory.past, memory.past_gradients,
            memory.forward_alone.value_or(0), memory.experts.parameters, memory.experts.gradients,
            memory.experts.optimizer}) {
        require_bytes(bytes, "memory", stage);
      }
    }
  }
}

void require_ties(const Schedule& schedule, const LowerOptions& options) {
  for (const StageTie& tie : options.ties) {
    for (const int stage : {tie.owner, tie.user}) {
      if (stage < 0 || stage >= stages_per_pipe(schedule)) {
        fail("lower: a tie names stage ", stage, " of ", stages_per_pipe(schedule));
      }
    }
    if (tie.owner == tie.user) fail("lower: stage ", tie.owner, " is tied to itself");
    require_bytes(tie.bytes, "tied weights", tie.owner);
  }
}

/// What updates on the way do not go together with.
void require_flush(const Schedule& schedule, const LowerOptions& options) {
  if (schedule.weights == WeightPolicy::flush) return;
  if (options.norm != GradientNorm::none) {
    fail("lower: there is no norm of all gradients, since ", schedule.name,
         " updates each stage at a time of its own; use a schedule that flushes, or norm \"none\"");
  }
  if (!options.ties.empty()) {
    fail("lower: stages ", options.ties.front().owner, " and ", options.ties.front().user,
         " share weights, but ", schedule.name,
         " updates them at different times; use a schedule that flushes");
  }
}

/// Where updates come on the way, each replica that takes turns has its part in all of them.
void require_turns(const Schedule& schedule, const LowerOptions& options) {
  if (options.replica_policy == ReplicaPolicy::split) return;
  std::vector<int> replicas;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    replicas.push_back(replica_count(options, stage));
  }
  if (const auto fault = find_turns_fault(schedule, replicas)) {
    fail("lower: ", fault->what, "; ", fault->remedy);
  }
}

void require_columns(const LowerOptions& options) {
  if (options.columns < 1) fail("lower: ", options.columns, " columns; expected at least 1");
  for (const int holders : options.expert_holders) {
    if (holders < 1) fail("lower: ", holders, " hold each expert; expected at least 1");
  }
  if (options.columns > 1 && options.norm != GradientNorm::none) {
    fail("lower: a norm is of all columns; lower them all, or leave the norm out");
  }
}

/// Tied weights are summed shard by shard, each pipe alike.
void require_shards_in_line(const Schedule& schedule, const LowerOptions& options) {
  if (options.sharding == Sharding::none || schedule.pipes == 1) return;
  for (const StageTie& tie : options.ties) {
    for (int stage = 0; stage < schedule.stages; stage += stages_per_pipe(schedule)) {
      const int owners = replica_count(options, tie.owner + stage);
      const int users = replica_count(options, tie.user + stage);
      if (owners == users) continue;
      fail("lower: shards of the tied weights do not line up: stage ", tie.owner + stage, " has ",
           owners, " replicas and stage ", tie.user + stage, " has ", users,
           "; give both as many, or do not shard the optimizer");
    }
  }
}

/// Partners have as many replicas, so that each has its own; and what they keep exists.
void require_partners(const Schedule& schedule, const LowerOptions& options) {
  for (int device = 0; device < static_cast<int>(schedule.devices.size()); ++device) {
    for (const Instruction& instruction : schedule.devices[index(device)]) {
      if (instruction.op != Op::evict) continue;
      const int stage = instruction.stage;
      const auto& homes = schedule.device_of_stage;
      const auto home = std::find(homes.begin(), homes.end(), partner_of(schedule, device));
      const int partner = static_cast<int>(home - homes.begin());
      if (replica_count(options, stage) != replica_count(options, partner)) {
        fail("lower: stage ", stage, " has ", replica_count(options, stage),
             " replicas, but stage ", partner, ", which is to keep its activations, has ",
             replica_count(options, partner));
      }
      if (!options.recompute.empty() && options.recompute[index(stage)] == Recompute::full) {
        fail("lower: stage ", stage, " recomputes, so it has no activations to evict; use 1f1b");
      }
    }
  }
}

}  // namespace

void require_fitting(const Schedule& schedule, const LowerOptions& options) {
  validate(schedule);
  require_one_per_stage(options.replicas, "replicas", schedule.stages);
  require_one_per_stage(options.recompute, "recompute", schedule.stages);
  require_replicas(schedule, options);
  require_rows(schedule, options);
  require_memory(schedule, options);
  require_ties(schedule, options);
  require_flush(schedule, options);
  require_turns(schedule, options);
  require_shards_in_line(schedule, options);
  require_partners(schedule, options);
  require_columns(options);
  require_one_per_stage(options.expert_holders, "expert_holders", schedule.stages);
}

}  // namespace stagecraft::lowering
