// The optimizer's step of each chunk, and the weight versions around it.
//
// Updates stand at the end of their device's compute order, in the order in which the chunks finish
// their backwards: an update that waits for a reduction would otherwise hold up the backwards of
// the device's other chunks.

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

}  // namespace

void add_updates(Draft& draft) {
  for (const auto& chunks : chunks_by_completion(draft)) {
    for (const int chunk : chunks) {
      const Chunk& place = draft.program.chunks[index(chunk)];
      const int update =
          add_work(draft, {Op::update, place.stage, draft.program.microbatches - 1}, chunk);
      for (const int on : draft.gradients_complete[index(chunk)]) add_wait(draft, update, on);
      draft.compute[index(place.device)].push_back(update);
    }
  }
}

/// Flush: every microbatch meets the weights the program starts with, and the update makes the next
/// ones.
void name_versions(Draft& draft) {
  for (Work& work : draft.program.work) {
    work.weight_version = work.instruction.op == Op::update ? 1 : 0;
  }
}

}  // namespace stagecraft::lowering
