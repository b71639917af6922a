// Memory that is to be full of zeros, which nobody has written yet: a sum that is the first to go
// there need not read them, nor does anybody have to write them before.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "profiles/units.hpp"

namespace stagecraft::cuda {

class PendingZeros {
 public:
  /// A piece of memory, which lives as long as this.
  struct Piece {
    std::shared_ptr<void> data;
    Bytes bytes = 0;
  };

  void add(const std::shared_ptr<void>& data, Bytes bytes);
  /// For whoever overwrites all of it: whether all of it was pending. Nothing of it is any more, if
  /// so; otherwise nothing changes.
  bool take(const void* data, Bytes bytes);
  /// For whoever looks at it, or writes some of it: what is pending there, and is no more. These
  /// are to be written now.
  std::vector<Piece> settle(const void* data, Bytes bytes);
  bool empty() const { return pieces_.empty(); }

 private:
  void remove(std::uintptr_t begin, std::uintptr_t end);

  std::map<std::uintptr_t, Piece> pieces_;  ///< by where they begin; none overlap
};

}  // namespace stagecraft::cuda
