// An independent checker of programs: it shares no code with lowering, assumes nothing, and proves
// each property or reports why it does not hold.

#pragma once

#include <string>
#include <vector>

#include "simulator/values/program.hpp"

namespace stagecraft {

struct CheckOptions {
  std::vector<Bytes> memory_limits;  ///< per device; empty: unlimited
  /// Number of messages that a channel buffers before a send blocks. 0: a send blocks until its own
  /// receive is reached.
  int messages_in_flight = 0;
  /// Names of the program's devices in findings, such as the cluster's device numbers. Empty: their
  /// own numbers.
  std::vector<int> device_names = {};
  /// Peak memory of each device in the simulation; empty: unknown. It can exceed the peak in issue
  /// order, since messages in flight may live longer.
  std::vector<MemoryUse> timed = {};
};

/// One violated property.
struct Finding {
  std::string rule;     ///< "structure", "conservation", "order", "matching", "deadlock", "race",
                        ///< "sharding", "norm", "version", "memory"
  std::string message;  ///< one sentence
  int device = 0;       ///< the device's name, as in the message
  Instruction instruction;
  std::vector<std::string> cycle;  ///< for a deadlock: the cycle of waits, back to the first
  std::string fix = {};  ///< for a deadlock: the smallest change found that removes it, as a
                         ///< sentence
};

struct CheckReport {
  std::vector<std::string> proved;  ///< the proved properties, in words: "80 of 80 …"
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
