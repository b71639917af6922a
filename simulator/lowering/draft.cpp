#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

int add_work(Draft& draft, Instruction instruction, int chunk) {
  draft.program.work.push_back(
      {.instruction = instruction, .chunk = chunk, .lane = lane_of(instruction.op)});
  return static_cast<int>(draft.program.work.size()) - 1;
}

bool takes_part(const Draft& draft, const Chunk& chunk, int microbatch) {
  return draft.options.replica_policy == ReplicaPolicy::split ||
         microbatch % chunk.replicas == chunk.replica;
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
