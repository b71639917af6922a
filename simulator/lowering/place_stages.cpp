// Which chunk computes what: stages and their replicas take their devices.
//
// Under `split`, replica i of r owns rows [rows i / r, rows (i + 1) / r) of every microbatch:
// shares differ by at most one row and never depend on anything else. Under `round_robin` it owns
// whole microbatches i, i + r, i + 2r, …

#include <algorithm>

#include "simulator/lowering/passes.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft::lowering {

namespace {

std::vector<std::vector<int>> devices_of_stages(const Schedule& schedule,
                                                const LowerOptions& options) {
  if (!options.replicas.empty()) return options.replicas;
  std::vector<std::vector<int>> devices;
  for (const int device : schedule.device_of_stage) devices.push_back({device});
  return devices;
}

IndexRange rows_of(const LowerOptions& options, int replica, int replicas) {
  if (options.replica_policy == ReplicaPolicy::round_robin) return {0, options.rows};
  const auto boundary = [&](int i) {
    return static_cast<int>(std::int64_t{options.rows} * i / replicas);
  };
  return {boundary(replica), boundary(replica + 1)};
}

void add_chunks(Draft& draft, const std::vector<std::vector<int>>& devices) {
  for (int stage = 0; stage < draft.program.stages; ++stage) {
    auto& chunks = draft.chunks_of_stage.emplace_back();
    const int replicas = static_cast<int>(devices[index(stage)].size());
    const auto& passes_on = draft.options.passes_on;
    for (int replica = 0; replica < replicas; ++replica) {
      chunks.push_back(static_cast<int>(draft.program.chunks.size()));
      draft.program.chunks.push_back({.stage = stage,
                                      .device = devices[index(stage)][index(replica)],
                                      .replica = replica,
                                      .replicas = replicas,
                                      .rows = rows_of(draft.options, replica, replicas),
                                      .passes_on = !passes_on.empty() && passes_on[index(stage)]});
    }
  }
}

/// Per stage: the schedule's, or rounds where replicas take turns.
std::vector<int> update_intervals(const Draft& draft) {
  std::vector<int> intervals;
  if (draft.schedule.weights == WeightPolicy::flush) return intervals;
  for (const std::vector<int>& replicas : draft.chunks_of_stage) {
    intervals.push_back(update_interval(draft.schedule, draft.options.replica_policy,
                                        static_cast<int>(replicas.size())));
  }
  return intervals;
}

void note(Passage& passage, Op op, int work) {
  if (op == Op::forward) passage.forward = work;
  if (op == Op::recompute) passage.recompute = work;
  if (op == Op::backward || op == Op::backward_input) passage.backward = work;
  if (op == Op::backward_weight) passage.weight = work;
}

void add_compute(Draft& draft, const Instruction& instruction) {
  if (!is_compute(instruction.op)) return;
  for (const int chunk : working_chunks(draft, instruction.stage, instruction.microbatch)) {
    const Chunk& place = draft.program.chunks[index(chunk)];
    const int work = add_work(draft, instruction, chunk);
    draft.compute[index(place.device)].push_back(work);
    note(passage(draft, chunk, instruction.microbatch), instruction.op, work);
  }
}

/// The pair's work on each device that computes both halves. (In turn, replicas may get one half
/// each.)
void fuse(Draft& draft, const Instruction& forward, const Instruction& backward) {
  for (const int one : draft.chunks_of_stage[index(forward.stage)]) {
    for (const int other : draft.chunks_of_stage[index(backward.stage)]) {
      const auto first = passage(draft, one, forward.microbatch).forward;
      const auto second = passage(draft, other, backward.microbatch).backward;
      const std::vector<Chunk>& chunks = draft.program.chunks;
      if (chunks[index(one)].device != chunks[index(other)].device || !first || !second) continue;
      draft.program.work[index(*first)].fused_with = second;
      draft.program.work[index(*second)].fused_with = first;
    }
  }
}

}  // namespace

Draft place_stages(const Schedule& schedule, const LowerOptions& options) {
  Draft draft{.schedule = schedule, .options = options};
  Program& program = draft.program;
  program.stages = schedule.stages;
  program.microbatches = schedule.microbatches;
  program.pipes = schedule.pipes;
  program.sequence_chunks = schedule.sequence_chunks;
  program.trains = schedule.trains;
  program.feedback = schedule.feedback;
  program.weights = schedule.weights;
  if (program.trains) program.sharding = options.sharding;
  program.columns = options.columns;
  if (program.trains) program.norm = options.norm;
  add_chunks(draft, devices_of_stages(schedule, options));
  program.update_every = update_intervals(draft);
  program.devices = static_cast<int>(schedule.devices.size());
  if (!options.replicas.empty()) program.devices = 0;
  for (const Chunk& chunk : program.chunks) {
    program.devices = std::max(program.devices, chunk.device + 1);
  }
  draft.compute.resize(index(program.devices));
  draft.passages.resize(program.chunks.size() * index(program.microbatches));
  for (const auto& order : schedule.devices) {
    for (const Instruction& instruction : order) add_compute(draft, instruction);
  }
  for (std::size_t device = 0; device < schedule.fused.size(); ++device) {
    for (const int first : schedule.fused[device]) {
      const auto pair = schedule.devices[device].begin() + first;
      fuse(draft, pair[0], pair[1]);
    }
  }
  return draft;
}

}  // namespace stagecraft::lowering
