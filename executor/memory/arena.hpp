// The arena of a rank: one block of memory, as large as the program requires, in which every tensor
// has a fixed place before the run begins.
//
// A buffer of the program lives from the start of one work to the end of another, and so do the
// tensors in it. If a buffer reuses another's place, its first work must come after the other's
// last: the rank's own order ensures that, except for messages, whose delivery it has to wait for.
// Backends with memory checking are told which buffers are not accessible.

#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/backends/byte_count.hpp"
#include "executor/memory/traced_program.hpp"

namespace stagecraft {

class Arena final : public Placement {
 public:
  /// The arena of this tensor-parallel peer of a program's device. Throws Error (execution) if
  /// there is not enough memory.
  Arena(const TracedProgram& traced, int device, int peer, Backend& backend);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() override;

  /// Until the next `close`, allocations of the backend get their places in the arena: for the
  /// construction of a chunk, for a work's call, or for the tensors of a receive, take-in or load.
  void open(int chunk);
  void open_work(int work);
  void close();
  /// Ends the lives of the buffers that end with this work.
  void end(int work);
  /// Peak of live memory, by the lives of buffers.
  Bytes peak() const { return live_.peak(); }

  std::shared_ptr<void> place(Bytes bytes) override;

 private:
  const ChunkTapes& tapes_of(int chunk) const {
    return traced_.tapes[static_cast<std::size_t>(chunk)][peer_];
  }
  void begin(const Buffer& buffer);
  void* address(Bytes offset) const;
  int piece_of(int microbatch) const { return std::max(microbatch, 0) % program_.sequence_chunks; }
  void set_base(const Buffer& buffer, int chunk);
  Bytes base_of(const TensorPlace& claim) const;
  const Tape& tape_of_work(int work);

  const TracedProgram& traced_;
  const Program& program_;
  std::size_t peer_;
  Backend& backend_;
  Tensor block_;
  Bytes bytes_;
  std::array<Bytes, buffer_roles> bases_{};  ///< offsets of the current allocations, by role
  std::vector<Bytes> past_gradients_;        ///< offsets for the pieces of a sequence
  Bytes older_versions_ = 0;                 ///< offset of older weight versions of the chunk under
                                             ///< construction
  Bytes first_version_ = 0;                  ///< bytes of the version before them
  Tape message_;                             ///< places of one receive's tensors
  const Tape* tape_ = nullptr;
  std::size_t next_ = 0;
  bool constructs_ = false;
  ByteCount live_;
};

}  // namespace stagecraft
