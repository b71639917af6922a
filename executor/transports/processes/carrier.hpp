// What moves bytes between the processes of a run: MPI, or sockets.
//
// To add one write a folder beside `tcp` with a Carrier, and have `launched_processes` choose it.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::processes {

/// The end of a send, whose memory is free again, or of a receive.
struct Completion {
  long number = 0;        ///< what `send` or `receive` returned
  std::size_t bytes = 0;  ///< that came; where they are not as many as there was memory for, what
                          ///< the memory holds is unspecified
  std::string failure;    ///< empty if there was none
};

/// `receive` from whoever sends.
inline constexpr int any_peer = -1;

/// All calls on one thread. Messages from one process to another with one tag, in one space, arrive
/// in the order in which they were sent; a receive meets the first of them that nobody has met.
/// Nothing blocks but opening, finishing and aborting. Throws Error (execution) with the reason if
/// it cannot go on.
class Carrier {
 public:
  virtual ~Carrier() = default;

  virtual int rank() const = 0;
  virtual int processes() const = 0;
  virtual std::string library() const = 0;  ///< "Open MPI v4.1.4"
  virtual int processes_here() const = 0;   ///< on this machine, this one included
  virtual bool shares_machine_of_rank_0() const = 0;

  /// A space of tags among the first `ranks` processes. All processes open the same spaces in the
  /// same order. `any_peer` can be used only where `from_anybody`.
  virtual int open_space(int ranks, bool from_anybody) = 0;
  /// The memory must stay as it is until the message has completed.
  virtual long send(int space, int peer, int tag, const void* data, std::size_t bytes) = 0;
  virtual long receive(int space, int peer, int tag, void* data, std::size_t bytes) = 0;
  /// A receive for which nothing will come any more.
  virtual void cancel(long number) = 0;
  /// Moves what can be moved, and returns what is complete since the last call.
  virtual std::vector<Completion> test() = 0;
  /// Ranks that have gone since the last call, without having finished; sends to them complete.
  /// Where a launcher ends all when one is gone, nobody hears of that here.
  virtual std::vector<int> take_lost() { return {}; }

  /// The last call: all processes make it, when nothing is under way any more.
  virtual void finish() = 0;
  /// Instead: ends all processes, as far as that is possible.
  virtual void abort(int exit_code) = 0;
};

using MakeCarrier = std::unique_ptr<Carrier> (*)();

}  // namespace stagecraft::processes
