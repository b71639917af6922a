// The assignment of pieces of the model's state to ranks.

#pragma once

#include <vector>

#include "executor/training/trained_chunk.hpp"
#include "executor/training/worker.hpp"

namespace stagecraft {

/// The part of a checkpoint that this chunk writes. Each of n copies of a stage's layers, in all
/// pipes, writes the n-th part of every weight and its moments; with a sharded optimizer, its own
/// shard. A tied weight belongs to its first stage. Each tensor-parallel peer writes its own part;
/// the first peer writes what all of them hold.
std::vector<HeldState> state_of(const Training& training, const Program& program, int chunk,
                                int peer, TrainedChunk& trained);

}  // namespace stagecraft
