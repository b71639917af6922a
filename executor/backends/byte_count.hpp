// How many bytes of a backend's memory tensors hold. Its user locks.

#pragma once

#include <algorithm>

#include "profiles/units.hpp"

namespace stagecraft {

class ByteCount {
 public:
  void add(Bytes bytes) {
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  void remove(Bytes bytes) { now_ -= bytes; }
  void reset_peak() { peak_ = now_; }

  Bytes now() const { return now_; }
  /// The highest since the last reset.
  Bytes peak() const { return peak_; }

 private:
  Bytes now_ = 0;
  Bytes peak_ = 0;
};

}  // namespace stagecraft
