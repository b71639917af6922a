// Tapes of a chunk: it is made and called on a backend without numbers, and who asks for what, and
// for how long, is written down.

#pragma once

#include "executor/memory/tape.hpp"
#include "executor/training/trained_chunk.hpp"

namespace stagecraft {

/// `dry` only allocates, as the backend will on which it runs, and `peers`, if any, as real ones
/// would. Takes no memory to speak of, and a small part of a microbatch's time.
ChunkTapes trace_chunk(const Training& training, const Program& program, int chunk,
                       TensorPeers* peers, Backend& dry);

}  // namespace stagecraft
