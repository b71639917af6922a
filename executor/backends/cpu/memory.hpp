// Memory of a CPU backend: exact counters, and blocks kept for reuse.
//
// A training step asks for the same sizes again and again; giving large blocks back to the system
// each time would cost a page fault per 4 KiB on every use. So freed blocks wait for the next
// request of their size, but never so many that the process holds more than the most that was ever
// in use at once.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "executor/backends/byte_count.hpp"

namespace stagecraft::cpu {

/// Blocks may be freed on any thread; the last one alive keeps the Memory alive.
class Memory : public std::enable_shared_from_this<Memory> {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /// Uninitialised, aligned to 64 bytes, counted as exactly `bytes`. Throws Error (execution) if
  /// there is not enough.
  std::shared_ptr<void> allocate(Bytes bytes);

  ByteCount allocated() const;
  void reset_peak();

 private:
  void* take(Bytes bytes);
  void give_back(void* block, Bytes bytes) noexcept;
  void trim(Bytes limit) noexcept;

  mutable std::mutex mutex_;
  ByteCount allocated_;
  Bytes held_ = 0;  ///< blocks from the system, in use and waiting
  Bytes used_ = 0;  ///< blocks in use
  Bytes most_used_ = 0;
  std::map<Bytes, std::vector<void*>> waiting_;  ///< by size
};

/// What the machine has.
Bytes machine_memory();

}  // namespace stagecraft::cpu
