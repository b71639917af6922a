// Message labels: ranks number their messages per channel, and the receiver compares the label with
// the message that its program expects. A lost or duplicated message ends the run at the next
// receive, before a wrong microbatch is used.

#pragma once

#include <vector>

#include "executor/driver/rank_map.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

/// Labels of one rank's messages. `channel` is the transport's, `work` the program's send or
/// receive.
class MessageLabels {
 public:
  /// Both arguments must outlive it.
  MessageLabels(const Program& program, const RankMap& ranks);

  /// The label of the next message that this rank sends over the channel.
  MessageLabel next(int channel, const Work& work);
  /// Throws Error (execution) unless the message is the channel's next one and belongs to this
  /// receive.
  void check(int channel, const Work& work, const MessageLabel& came);

 private:
  const Program& program_;
  const RankMap& ranks_;
  std::vector<std::int64_t> messages_;  ///< messages so far, by channel of the transport
};

}  // namespace stagecraft
