// Bytes from rank to rank, and what ranks tell each other with them.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/transports/processes/progress.hpp"
#include "executor/transports/processes/world.hpp"
#include "executor/values/tensor.hpp"

namespace stagecraft::processes {

/// Bytes to or from a peer. `owner` keeps them alive until the carrier has let go of them, which
/// after an abort may be never.
struct Piece {
  int peer = 0;
  int tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;
};

/// A tensor's numbers, where they are.
Piece piece_of(const Tensor& tensor, int peer, int tag);

/// Through one space. All calls on the progress thread.
class Messenger {
 public:
  Messenger(Progress& progress, int space) : progress_(progress), space_(space) {}

  /// `done` is called when the memory is free again.
  void send(const Piece& piece, const std::function<void()>& done) const;
  /// `done` hears whether the message had exactly that size. Returns its number, see
  /// `Progress::cancel`.
  long receive(const Piece& piece, const std::function<void(bool whole)>& done) const;

 private:
  Progress& progress_;
  int space_;
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

}  // namespace stagecraft::processes
