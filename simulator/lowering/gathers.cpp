// Updated parameters collected from their shards (P), once for each update.
//
//   … B0.7 │ GS │ U0.7 │ P │        F0.0 of the next iteration waits for P: a carried wait
//
// P runs beside whatever the device computes; of several on one device that of the first stage
// comes first, as its forward does. Where weights are updated on the way, the first
// forward that reads a version waits for its P, and the update after it, too: it writes the shard
// that P reads.

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

/// Of one chunk: P of version v at [v - 1].
using Gathers = std::vector<int>;

Bytes parameter_bytes(const Draft& draft, int stage) {
  return draft.options.memory.empty() ? 0 : draft.options.memory[index(stage)].front().parameters;
}

/// P after each update of the chunk. Its updates come in order.
Gathers add_members(Draft& draft, int group, int chunk) {
  Gathers gathers;
  const std::vector<int>& compute = draft.compute[index(draft.program.chunks[index(chunk)].device)];
  for (const int item : compute) {
    const Work update = draft.program.work[index(item)];
    if (update.chunk != chunk || update.instruction.op != Op::update) continue;
    const int gather = add_member(draft, group, chunk, update.instruction.microbatch);
    draft.program.work[index(gather)].weight_version = update.weight_version;
    add_wait(draft, gather, item);
    gathers.push_back(gather);
  }
  return gathers;
}

/// Forwards that read what was gathered, and updates that write what was sent.
void let_readers_wait(Draft& draft, int chunk, const Gathers& gathers) {
  std::optional<int> first;
  for (const int item : draft.compute[index(draft.program.chunks[index(chunk)].device)]) {
    const Work& work = draft.program.work[index(item)];
    if (work.chunk != chunk) continue;
    if (!first) first = item;
    const bool update = work.instruction.op == Op::update;
    if (!update && work.instruction.op != Op::forward) continue;
    const int version = work.weight_version - (update ? 1 : 0);
    if (version > 0) add_wait(draft, item, gathers[index(version - 1)]);
  }
  draft.program.carried.push_back({*first, gathers.back()});
}

}  // namespace

void add_gathers(Draft& draft) {
  std::vector<std::optional<int>> before(index(draft.program.devices));
  const int stages = draft.program.stages / draft.program.pipes;
  for (int stage = 0; stage < stages; ++stage) {
    if (!is_sharded(draft, stage)) continue;
    const std::vector<int> chunks = chunks_of_copies(draft, stage);
    const int group =
        add_group(draft, Op::gather_parameters, chunks, parameter_bytes(draft, stage));
    for (const int chunk : chunks) {
      const Gathers gathers = add_members(draft, group, chunk);
      let_readers_wait(draft, chunk, gathers);
      if (draft.program.weights != WeightPolicy::flush) continue;
      auto& last = before[index(draft.program.chunks[index(chunk)].device)];
      if (last) add_wait(draft, gathers.front(), *last);
      last = gathers.front();
    }
  }
}

}  // namespace stagecraft::lowering
