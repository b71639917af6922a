// The ranks that run one program, as one of them sees them: where it waits, and why it stops.

#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"

namespace stagecraft::processes {

using Lock = std::unique_lock<std::mutex>;

/// Shared by the rank's thread and the progress thread. Its mutex guards whatever they share.
struct World {
  explicit World(int which) : number(which) {}

  const int number;  ///< worlds follow each other, on all processes alike
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> aborted;  ///< why
  bool lost_peer = false;              ///< that is why

  /// Throws Error (execution) if the world is aborted before, and of that PeerLost if this process
  /// has missed another.
  template <class Ready>
  void wait(Lock& lock, Ready ready) {
    changed.wait(lock, [&] { return aborted || ready(); });
    if (aborted && lost_peer) throw PeerLost(*aborted);
    if (aborted) throw Error(ErrorKind::execution, *aborted);
  }

  /// Before it is aborted for that.
  void lose_peer() {
    const std::lock_guard lock(mutex);
    lost_peer = lost_peer || !aborted;
  }

  /// The first reason counts.
  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex);
    if (!aborted) aborted = reason;
    changed.notify_all();
  }
};

}  // namespace stagecraft::processes
