// A plan's program with the exact memory that the layers allocate.

#pragma once

#include "executor/driver/rank_map.hpp"
#include "executor/memory/tape.hpp"
#include "executor/training/training.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

struct TracedProgram {
  Compiled compiled;  ///< the same works in the same order, with exact buffers
  /// [program chunk][tensor-parallel peer].
  std::vector<std::vector<ChunkTapes>> tapes;
};

/// Traces every chunk, and lowers the schedule again with the traced memory (maximum over peers).
/// Costs stay. `dry`: see trace_chunk. The result is equal on every rank.
TracedProgram trace_program(const Training& training, const Compiled& compiled,
                            const RankMap& ranks, Backend& dry);

}  // namespace stagecraft
