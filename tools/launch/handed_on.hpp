// What children print, handed on to standard output.

#pragma once

#include <atomic>
#include <thread>

#include "tools/launch/pipe.hpp"

namespace stagecraft {

/// As it comes. Where standard output takes no more, the rest is read and lost, so that nobody
/// waits.
class HandedOn {
 public:
  ~HandedOn() { finish(); }
  HandedOn() = default;
  HandedOn(const HandedOn&) = delete;
  HandedOn& operator=(const HandedOn&) = delete;

  int in() const { return pipe_.in.number(); }
  /// When all children have been started.
  void begin() {
    pipe_.in.close_now();
    reader_ = std::thread([this] { hand_on(); });
  }
  /// When all have ended: what they printed has come by then.
  void finish() {
    pipe_.in.close_now();
    if (reader_.joinable()) reader_.join();
  }
  /// Why standard output takes no more, as errno; 0: it takes all.
  int lost_by() const { return lost_by_; }

 private:
  void hand_on();

  Pipe pipe_;
  std::thread reader_;
  std::atomic<int> lost_by_{0};
};

}  // namespace stagecraft
