// Forwards the output of child processes to standard output.

#pragma once

#include <atomic>
#include <thread>

#include "tools/launch/pipe.hpp"

namespace stagecraft {

/// Forwards output as it arrives. If standard output cannot be written, the rest is read and
/// discarded, so that no child blocks.
class HandedOn {
 public:
  ~HandedOn() { finish(); }
  HandedOn() = default;
  HandedOn(const HandedOn&) = delete;
  HandedOn& operator=(const HandedOn&) = delete;

  int in() const { return pipe_.in.number(); }
  /// To be called when all children have been started.
  void begin() {
    pipe_.in.close_now();
    reader_ = std::thread([this] { hand_on(); });
  }
  /// To be called when all children have ended; returns when all their output has been forwarded.
  void finish() {
    pipe_.in.close_now();
    if (reader_.joinable()) reader_.join();
  }
  /// The errno of a failed write to standard output; 0: none.
  int lost_by() const { return lost_by_; }

 private:
  void hand_on();

  Pipe pipe_;
  std::thread reader_;
  std::atomic<int> lost_by_{0};
};

}  // namespace stagecraft
