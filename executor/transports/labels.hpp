// Which message is which: ranks number what they send, channel by channel, and whoever receives
// compares with what its program expects. A lost message, or one that comes twice, ends the run at
// the next receive, before anything computes with another microbatch's numbers.

#pragma once

#include <vector>

#include "executor/driver/rank_map.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

/// Of the messages of one rank. `channel`: the transport's; `work`: the program's send or receive.
class MessageLabels {
 public:
  /// Both must outlive it.
  MessageLabels(const Program& program, const RankMap& ranks);

  /// Of the next message that this rank sends there.
  MessageLabel next(int channel, const Work& work);
  /// Throws Error (execution) unless the message is the channel's next one, and for this receive.
  void check(int channel, const Work& work, const MessageLabel& came);

 private:
  const Program& program_;
  const RankMap& ranks_;
  std::vector<std::int64_t> messages_;  ///< so far, by channel of the transport
};

}  // namespace stagecraft
