// The tape of a chunk: the allocations of its layers. They are equal at every call of a kind, so
// their places are known before the run.

#pragma once

#include <map>
#include <vector>

#include "simulator/lowering/lower.hpp"

namespace stagecraft {

/// Alignment of every tensor: the largest that a backend requires.
inline constexpr Bytes tensor_alignment = 256;
inline Bytes aligned(Bytes bytes) {
  return (bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
}

/// One tensor's place in a buffer of the program.
struct TensorPlace {
  BufferRole role = BufferRole::workspace;
  Bytes bytes = 0;  ///< aligned
  Bytes offset = 0;
  int piece = 0;  ///< for `past_gradients`: the piece of the sequence
};

/// Places in the order of allocation.
using Tape = std::vector<TensorPlace>;

/// The tapes of one tensor-parallel peer of a chunk.
struct ChunkTapes {
  Tape construction;  ///< resident tensors; those of `workspace` are freed after construction
  std::vector<std::map<Op, Tape>> calls;  ///< by piece of a sequence; a single one for whole
                                          ///< sequences
  Tape kept;           ///< tensors kept by the forward, in the order of `TrainedChunk::kept`
  ChunkMemory memory;  ///< memory of all tapes, exact to the byte; for a sharded optimizer, the
                       ///< share times the number of shards
};

}  // namespace stagecraft
