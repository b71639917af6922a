// Bytes from rank to rank, and what ranks tell each other with them.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/transports/mpi/progress.hpp"
#include "executor/transports/mpi/world.hpp"

namespace stagecraft::mpi {

/// How messages go; tests make MPI do all that it may.
struct Manner {
  bool synchronous = false;                    ///< MPI_Issend: nothing is buffered on the way
  std::size_t longest = std::size_t{1} << 30;  ///< longer ones go in pieces: MPI counts in int
};
/// STAGECRAFT_MPI_SYNCHRONOUS=1, STAGECRAFT_MPI_LONGEST=BYTES.
Manner manner_of_environment();

/// Bytes to or from a peer. `owner` keeps them alive until MPI has let go of them, which after an
/// abort may be never.
struct Piece {
  int peer = 0;
  int tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;
};

/// Through one communicator. All calls on the progress thread.
class Messenger {
 public:
  Messenger(Progress& progress, Manner manner, MPI_Comm communicator)
      : progress_(progress), manner_(manner), communicator_(communicator) {}

  /// `done` is called when the memory is free again.
  void send(const Piece& piece, const std::function<void()>& done) const;
  /// `done` hears whether the message had exactly that size. Returns the number of its request if
  /// it has one only, see `Progress::cancel`.
  long receive(const Piece& piece, const std::function<void(bool whole)>& done) const;

  MPI_Comm communicator() const { return communicator_; }

 private:
  Progress& progress_;
  Manner manner_;
  MPI_Comm communicator_;
};

/// What ranks tell each other in turn, each call on the rank's own thread. Every call throws Error
/// (execution) with the reason once the world is aborted. Copies share everything.
class Conversation {
 public:
  Conversation(Progress& progress, std::shared_ptr<World> world,
               std::shared_ptr<const Messenger> messenger, int rank, int ranks)
      : progress_(&progress),
        world_(std::move(world)),
        messenger_(std::move(messenger)),
        rank_(rank),
        ranks_(ranks) {}

  /// All at once; throws Error (execution) with `otherwise` if a message has another size.
  void exchange(const std::vector<Piece>& sends, const std::vector<Piece>& receives,
                const std::string& otherwise) const;
  /// Uses two tags from `tag` on.
  std::vector<std::string> gather(const std::string& said, int tag) const;
  std::string broadcast(std::string said, int tag) const;
  void barrier(int tag) const;

 private:
  Progress* progress_;
  std::shared_ptr<World> world_;
  std::shared_ptr<const Messenger> messenger_;
  int rank_;
  int ranks_;
};

}  // namespace stagecraft::mpi
