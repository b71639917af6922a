// A plan's program with the memory that the layers really ask for, to the byte.

#pragma once

#include "executor/driver/rank_map.hpp"
#include "executor/memory/tape.hpp"
#include "executor/training/training.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

struct TracedProgram {
  Compiled compiled;  ///< the same work in the same order, with other buffers
  /// [program chunk][tensor-parallel peer].
  std::vector<std::vector<ChunkTapes>> tapes;
};

/// Traces every chunk, and lowers the schedule again with what was found (of peers the most). The
/// costs stay. `dry`: see trace_chunk. The same on every rank.
TracedProgram trace_program(const Training& training, const Compiled& compiled,
                            const RankMap& ranks, Backend& dry);

}  // namespace stagecraft
