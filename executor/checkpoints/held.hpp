// Which rank writes which piece of the model's state.

#pragma once

#include <vector>

#include "executor/training/trained_chunk.hpp"
#include "executor/training/worker.hpp"

namespace stagecraft {

/// What this chunk of the program contributes to a checkpoint. Of n copies of a stage's layers, in
/// all pipes, each has the n-th part of every weight and its moments: of a sharded optimizer its
/// own shard. A tied weight is its first stage's. Of tensor-parallel peers each has the part it
/// holds; what all of them hold is the first one's.
std::vector<HeldState> state_of(const Training& training, const Program& program, int chunk,
                                int peer, TrainedChunk& trained);

}  // namespace stagecraft
