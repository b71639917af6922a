// Makes the tapes of a chunk: constructs and calls the chunk on a dry backend, and records its
// allocations with their lifetimes.

#pragma once

#include "executor/memory/tape.hpp"
#include "executor/training/trained_chunk.hpp"

namespace stagecraft {

/// `dry` must allocate like the real backend without computing, and `peers`, if not null, like the
/// real peers. Needs almost no memory, and a small fraction of a microbatch's time.
ChunkTapes trace_chunk(const Training& training, const Program& program, int chunk,
                       TensorPeers* peers, Backend& dry);

}  // namespace stagecraft
