// A rank's memory: one piece, as large as the program says, in which every tensor has its place
// before the run begins.
//
// A buffer of the program lives from the start of one work to the end of another; the tensors in it
// come and go with it. Where a buffer takes another's place, the program makes its first work wait
// for the other's last: the rank's own order does that, but for messages, whose delivery it has to
// wait for. Backends that can are told which buffers nobody may look at.

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
  /// For this tensor-parallel peer of a program's device. Throws Error (execution) if there is not
  /// enough memory.
  Arena(const TracedProgram& traced, int device, int peer, Backend& backend);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() override;

  /// What the backend allocates until the next `close` has its place in the arena: of a chunk that
  /// is made, of a work's call, or of what a receive, take-in or load gets.
  void open(int chunk);
  void open_work(int work);
  void close();
  /// What ends with this work is gone.
  void end(int work);
  /// The most that has lived in it at once, by the lives of buffers.
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
  std::array<Bytes, buffer_roles> bases_{};  ///< where what is asked for now goes, by role
  std::vector<Bytes> past_gradients_;        ///< those of the pieces of a sequence
  Bytes older_versions_ = 0;                 ///< where those of the chunk that is made go
  Bytes first_version_ = 0;                  ///< bytes of the one before them
  Tape message_;                             ///< of one receive
  const Tape* tape_ = nullptr;
  std::size_t next_ = 0;
  bool constructs_ = false;
  ByteCount live_;
};

}  // namespace stagecraft
