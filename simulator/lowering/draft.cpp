#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

int add_work(Draft& draft, Instruction instruction, int chunk) {
  draft.program.work.push_back(
      {.instruction = instruction, .chunk = chunk, .lane = lane_of(instruction.op)});
  return static_cast<int>(draft.program.work.size()) - 1;
}

bool takes_part(const Draft& draft, const Chunk& chunk, int microbatch) {
  return draft.options.replica_policy == ReplicaPolicy::split ||
         microbatch / draft.program.sequence_chunks % chunk.replicas == chunk.replica;
}

std::vector<int> chunks_of_copies(const Draft& draft, int stage) {
  const int stages = draft.program.stages / draft.program.pipes;
  std::vector<int> chunks;
  for (int copy = stage % stages; copy < draft.program.stages; copy += stages) {
    const std::vector<int>& replicas = draft.chunks_of_stage[index(copy)];
    chunks.insert(chunks.end(), replicas.begin(), replicas.end());
  }
  return chunks;
}

bool is_message(const Draft& draft, const Wait& wait) {
  const Work& receive = draft.program.work[index(wait.work)];
  const Work& send = draft.program.work[index(wait.on)];
  return is_receive(receive.instruction.op) && is_send(send.instruction.op) &&
         receive.channel == send.channel;
}

int updates(const Program& program) {
  return program.trains ? program.microbatches / update_interval(program) : 0;
}

int update_interval(const Program& program) {
  return program.weights == WeightPolicy::flush ? program.microbatches : program.update_every;
}

bool same_device(const Schedule& schedule, int stage, int other) {
  return schedule.device_of_stage[index(stage)] == schedule.device_of_stage[index(other)];
}

Grouped group_by_key(const std::vector<KeyedValue>& rows, std::size_t keys) {
  Grouped grouped;
  grouped.ranges.resize(keys);
  for (const KeyedValue& row : rows) ++grouped.ranges[index(row.key)].end;
  int first = 0;
  for (IndexRange& range : grouped.ranges) {
    const int size = range.end;
    range = {first, first};
    first += size;
  }
  grouped.values.resize(rows.size());
  for (const KeyedValue& row : rows) {
    grouped.values[index(grouped.ranges[index(row.key)].end++)] = row.value;
  }
  return grouped;
}

}  // namespace stagecraft::lowering
