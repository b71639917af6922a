// The independent judge of programs: shares no code with lowering, believes nothing, proves each
// promise or says why not.

#pragma once

#include <string>
#include <vector>

#include "simulator/values/program.hpp"

namespace stagecraft {

struct CheckOptions {
  std::vector<Bytes> memory_limits;  ///< per device; empty: unlimited
  /// Messages a channel buffers before a send blocks until one of them is received. None: it blocks
  /// until its own receive is reached.
  int messages_in_flight = 0;
  /// What findings call the program's devices: a plan's stand for devices of a cluster. Empty:
  /// their own numbers.
  std::vector<int> device_names = {};
  /// What each device holds at most when the program is timed; empty: not known. Messages under way
  /// may live longer than in the order of issue.
  std::vector<MemoryUse> timed = {};
};

/// One broken promise.
struct Finding {
  std::string rule;     ///< "structure", "conservation", "order", "matching", "deadlock", "race",
                        ///< "sharding", "norm", "version", "memory"
  std::string message;  ///< one sentence
  int device = 0;       ///< by its name, as in the message
  Instruction instruction;
  std::vector<std::string> cycle;  ///< deadlock: who waits for whom, around and back to the first
  std::string fix = {};  ///< deadlock: the shortest change that was found to cure it, as a sentence
};

struct CheckReport {
  std::vector<std::string> proved;  ///< "80 of 80 …": what was established, in words
  std::vector<Finding> findings;
  bool safe() const { return findings.empty(); }
};

/// Rules: the program's tables fit together (structure); every microbatch passes forward and
/// backward through every stage exactly once, all rows covered (conservation); nothing runs before
/// its inputs exist (order); each send meets one receive of the same size (matching); no deadlock
/// with one communication lane per device and channels that buffer `messages_in_flight` messages,
/// first in, first out (deadlock); no buffer is used outside of its life, and no two live buffers
/// overlap in the arena (race); gradients are summed once, and sharded parameters collected before
/// they are read (sharding); updates know the norm they were promised (norm); compute reads the
/// weight version its policy promises (version); the peak of every device stays within its limit
/// (memory).
CheckReport check(const Program& program, const CheckOptions& options = {});

/// Throws Error (check) with the first finding's sentence unless the program is safe.
void require_safe(const Program& program, const CheckOptions& options = {});

}  // namespace stagecraft
