// What has come and what is waited for, on one process: each message meets the first receive for
// it, each receive the first message.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/transports/processes/carrier.hpp"

namespace stagecraft::tcp {

enum class Kind : std::int32_t {
  message,   ///< with its bytes behind it
  offer,     ///< of a long one, whose bytes stay with the sender until somebody wants it
  grant,     ///< of an offer: somebody does
  content,   ///< its bytes
  farewell,  ///< nothing more comes
};

/// What goes ahead of a message.
struct Frame {
  Kind kind = Kind::message;
  std::int32_t space = 0;
  std::int32_t tag = 0;
  std::int64_t number = 0;  ///< the sender's
  std::uint64_t bytes = 0;  ///< of the message, whatever comes behind this
};

class Mailbox {
 public:
  /// A message that is coming in.
  struct Letter {
    int from = 0;
    Frame frame;
    long receive = -1;           ///< who gets it; -1: nobody yet
    std::byte* to = nullptr;     ///< their memory
    std::size_t room = 0;        ///< bytes of it
    std::vector<std::byte> own;  ///< where nobody has given memory, or not as much
    bool is_whole = false;

    bool fits() const { return receive >= 0 && room == frame.bytes; }
    /// Where its bytes go, from the first one on.
    std::byte* open();
    std::byte* data = nullptr;
  };

  /// A message has been announced.
  std::shared_ptr<Letter> announce(int from, const Frame& frame);
  /// All its bytes are there.
  void end(Letter& letter);

  /// Somebody waits for a message. Returns it if it has been announced.
  std::shared_ptr<Letter> receive(long number, int space, int peer, int tag, void* data,
                                  std::size_t bytes);
  void cancel(long number);

  /// Receives that are complete since the last call.
  std::vector<processes::Completion> take_completed() { return std::exchange(completed_, {}); }

 private:
  struct Awaited {
    long number = 0;
    int peer = 0;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  using Key = std::pair<int, int>;  ///< space and tag

  void complete(Letter& letter);

  std::map<Key, std::deque<Awaited>> awaited_;
  std::map<Key, std::deque<std::shared_ptr<Letter>>> unclaimed_;
  std::vector<processes::Completion> completed_;
};

}  // namespace stagecraft::tcp
