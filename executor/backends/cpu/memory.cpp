#include "executor/backends/cpu/memory.hpp"

#include <sanitizer/asan_interface.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include "profiles/error.hpp"

namespace stagecraft::cpu {

namespace {

constexpr Bytes alignment = 64;

// What a block takes from the system: whole cache lines, and at least one, so that every block has
// an address.
Bytes block_size(Bytes bytes) {
  return std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
}

// Null if there is not enough. Linux promises more than it has, and kills who believes it; so what
// is larger than the machine is not asked for.
void* system_block(Bytes size, Bytes held) {
  if (size > machine_memory() - held) return nullptr;
  return std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(size));
}

}  // namespace

Bytes machine_memory() {
  return Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

Memory::~Memory() {
  trim(0);
}

std::shared_ptr<void> Memory::allocate(Bytes bytes) {
  assert(bytes >= 0);
  void* block = take(bytes);
  if (block == nullptr) {
    throw Error(ErrorKind::execution, concat("cannot allocate ", format_bytes(bytes), " (",
                                             format_bytes(allocated().now()), " are in use)"));
  }
  return {block,
          [memory = shared_from_this(), bytes](void* freed) { memory->give_back(freed, bytes); }};
}

void* Memory::take(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  const Bytes size = block_size(bytes);
  void* block = nullptr;
  if (const auto waiting = waiting_.find(size); waiting != waiting_.end()) {
    block = waiting->second.back();
    waiting->second.pop_back();
    if (waiting->second.empty()) waiting_.erase(waiting);
    ASAN_UNPOISON_MEMORY_REGION(block, static_cast<std::size_t>(size));
  } else {
    trim(std::max(used_, most_used_ - size));
    block = system_block(size, held_);
    if (block == nullptr) {
      trim(used_);
      block = system_block(size, held_);
    }
    if (block == nullptr) return nullptr;
    held_ += size;
  }
  used_ += size;
  most_used_ = std::max(most_used_, used_);
  allocated_.add(bytes);
  return block;
}

void Memory::give_back(void* block, Bytes bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const Bytes size = block_size(bytes);
  allocated_.remove(bytes);
  used_ -= size;
  // To the address sanitizer a waiting block is as gone as a freed one.
  ASAN_POISON_MEMORY_REGION(block, static_cast<std::size_t>(size));
  waiting_[size].push_back(block);
}

// Frees waiting blocks, the largest first, until no more than `limit` is held.
void Memory::trim(Bytes limit) noexcept {
  while (held_ > limit && !waiting_.empty()) {
    const auto largest = std::prev(waiting_.end());
    ASAN_UNPOISON_MEMORY_REGION(largest->second.back(), static_cast<std::size_t>(largest->first));
    std::free(largest->second.back());
    held_ -= largest->first;
    largest->second.pop_back();
    if (largest->second.empty()) waiting_.erase(largest);
  }
}

ByteCount Memory::allocated() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

void Memory::reset_peak() {
  const std::lock_guard lock(mutex_);
  allocated_.reset_peak();
}

}  // namespace stagecraft::cpu
