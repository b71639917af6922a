// What a chunk's layers ask of memory: the same at every call of a kind, so its places can be known
// before anything runs.

#pragma once

#include <map>
#include <vector>

#include "simulator/lowering/lower.hpp"

namespace stagecraft {

/// Every tensor begins at a multiple of this, the most that any backend asks for.
inline constexpr Bytes tensor_alignment = 256;
inline Bytes aligned(Bytes bytes) {
  return (bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
}

/// One tensor's place in a buffer of the program.
struct TensorPlace {
  BufferRole role = BufferRole::workspace;
  Bytes bytes = 0;  ///< aligned
  Bytes offset = 0;
  int piece = 0;  ///< of `past_gradients`: whose
};

/// In the order in which the tensors are asked for.
using Tape = std::vector<TensorPlace>;

/// Of one tensor-parallel peer of a chunk.
struct ChunkTapes {
  Tape construction;  ///< resident ones; `workspace`: of no more use when the chunk is made
  std::vector<std::map<Op, Tape>> calls;  ///< by piece of a sequence; one where it is whole
  Tape kept;           ///< what the forward leaves, in the order of `TrainedChunk::kept`
  ChunkMemory memory;  ///< that all this fits into, to the byte; a sharded optimizer's is the share
                       ///< times the shards
};

}  // namespace stagecraft
