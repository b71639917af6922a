// The optimizer's steps of each chunk that has weights.
//
// With a flush there is one, and updates stand at the end of their device's compute order, in the
// order in which the chunks finish their backwards: an update that waits for a reduction would
// otherwise hold up the backwards of the device's other chunks. Without a flush each stands right
// after the last backward of its batch: the next forward is to meet its weights.

#include <algorithm>

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

/// The chunks of each device, those whose last backward comes first in front.
std::vector<std::vector<int>> chunks_by_completion(const Draft& draft) {
  std::vector<int> position(draft.program.chunks.size(), -1);
  for (const auto& order : draft.compute) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      position[index(draft.program.work[index(order[i])].chunk)] = static_cast<int>(i);
    }
  }
  std::vector<std::vector<int>> chunks(index(draft.program.devices));
  for (std::size_t chunk = 0; chunk < draft.program.chunks.size(); ++chunk) {
    chunks[index(draft.program.chunks[chunk].device)].push_back(static_cast<int>(chunk));
  }
  for (auto& list : chunks) {
    std::stable_sort(list.begin(), list.end(),
                     [&](int a, int b) { return position[index(a)] < position[index(b)]; });
  }
  return chunks;
}

/// The chunk's n-th update, once its gradient is complete.
int add_update(Draft& draft, int chunk, int n) {
  const int stage = draft.program.chunks[index(chunk)].stage;
  const int microbatch = (n + 1) * update_interval(draft.program, stage) - 1;
  const int update = add_work(draft, {Op::update, stage, microbatch}, chunk);
  for (const int on : draft.gradients_complete[place_of_update(draft, chunk, n)]) {
    add_wait(draft, update, on);
  }
  return update;
}

void update_at_the_end(Draft& draft) {
  for (const auto& chunks : chunks_by_completion(draft)) {
    for (const int chunk : chunks) {
      if (draft.program.chunks[index(chunk)].passes_on) continue;
      const int device = draft.program.chunks[index(chunk)].device;
      draft.compute[index(device)].push_back(add_update(draft, chunk, 0));
    }
  }
}

/// Of each update, the chunk's own microbatches: its turns, or all of them.
int turns_per_update(const Draft& draft, const Chunk& chunk) {
  const bool in_turn = draft.options.replica_policy == ReplicaPolicy::round_robin;
  return update_interval(draft.program, chunk.stage) / (in_turn ? chunk.replicas : 1);
}

void update_on_the_way(Draft& draft) {
  std::vector<int> backwards(draft.program.chunks.size(), 0);
  for (std::vector<int>& order : draft.compute) {
    std::vector<int> extended;
    for (const int item : order) {
      extended.push_back(item);
      const Work& work = draft.program.work[index(item)];
      const Op op = work.instruction.op;
      if (op != Op::backward && op != Op::backward_weight) continue;
      const int chunk = work.chunk;
      if (draft.program.chunks[index(chunk)].passes_on) continue;
      const int done = ++backwards[index(chunk)];
      const int turns = turns_per_update(draft, draft.program.chunks[index(chunk)]);
      if (done % turns == 0) extended.push_back(add_update(draft, chunk, done / turns - 1));
    }
    order = std::move(extended);
  }
}

}  // namespace

void add_updates(Draft& draft) {
  if (!draft.program.trains) return;
  if (draft.program.weights == WeightPolicy::flush) return update_at_the_end(draft);
  update_on_the_way(draft);
}

}  // namespace stagecraft::lowering
