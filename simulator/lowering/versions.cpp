// Versions of the weights: which one each instruction meets, and how many a chunk keeps.
//
// Version v is what the chunk's v-th update makes, version 0 what the program starts with. A
// version is kept while it is the newest or anything that reads it has not ended. An update writes
// over the version before it, unless that is still needed.

#include <algorithm>

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

/// Calls `visit(item, made)` for a chunk's compute in order, with the updates before it.
template <class Visit>
void each_with_updates(const Draft& draft, const Visit& visit) {
  std::vector<int> made(draft.program.chunks.size(), 0);
  for (const auto& order : draft.compute) {
    for (const int item : order) {
      const Work& work = draft.program.work[index(item)];
      int& count = made[index(work.chunk)];
      visit(item, count);
      if (work.instruction.op == Op::update) ++count;
    }
  }
}

/// The newest version of each of a chunk's forwards, by passage.
std::vector<int> newest_versions(const Draft& draft) {
  std::vector<int> newest(draft.passages.size(), 0);
  each_with_updates(draft, [&](int item, int made) {
    const auto& work = draft.program.work[index(item)];
    if (work.instruction.op != Op::forward) return;
    newest[index(work.chunk) * index(draft.program.microbatches) +
           index(work.instruction.microbatch)] = made;
  });
  return newest;
}

int version_of(const Draft& draft, const std::vector<int>& newest, int chunk, int microbatch) {
  if (draft.program.chunks[index(chunk)].passes_on) return 0;
  const auto newest_of = [&](int of) {
    return newest[index(of) * index(draft.program.microbatches) + index(microbatch)];
  };
  switch (draft.program.weights) {
    case WeightPolicy::flush: return 0;
    case WeightPolicy::stashing: return newest_of(chunk);
    case WeightPolicy::vertical_sync: return newest_of(draft.chunks_of_stage.front().front());
    case WeightPolicy::double_buffered:
      return std::max(microbatch / draft.schedule.update_every - 1, 0);
  }
  return 0;
}

/// Per chunk, the most versions after any of its updates.
std::vector<int> most_versions(const Draft& draft) {
  const std::size_t chunks = draft.program.chunks.size();
  const std::size_t versions = index(most_updates(draft.program)) + 1;
  std::vector<int> last(chunks * versions, 0);  // update up to which each version is kept
  each_with_updates(draft, [&](int item, int made) {
    const Work& work = draft.program.work[index(item)];
    if (work.instruction.op == Op::update) return;
    int& kept = last[index(work.chunk) * versions + index(work.weight_version)];
    kept = std::max(kept, made);
  });
  std::vector<int> most;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    std::vector<int> change(versions + 1, 0);
    for (std::size_t v = 0; v < versions; ++v) {
      ++change[v];
      --change[std::max(v, index(last[chunk * versions + v])) + 1];
    }
    int held = 0;
    most.push_back(1);
    for (const int more : change) most.back() = std::max(most.back(), held += more);
  }
  return most;
}

}  // namespace

void name_versions(Draft& draft) {
  const std::vector<int> newest = newest_versions(draft);
  each_with_updates(draft, [&](int item, int made) {
    Work& work = draft.program.work[index(item)];
    work.weight_version = work.instruction.op == Op::update
                              ? made + 1
                              : version_of(draft, newest, work.chunk, work.instruction.microbatch);
  });
  draft.versions_held = most_versions(draft);
}

}  // namespace stagecraft::lowering
