#include "executor/backends/cuda/scratch.hpp"

#include <algorithm>

namespace stagecraft::cuda {

namespace {

constexpr Bytes alignment = 256;

}  // namespace

Scratch::Scratch(std::shared_ptr<Memory> memory, Bytes block)
    : memory_(std::move(memory)), least_(block) {}

/// Null where it does not fit.
void* Scratch::place_in(Block& block, Bytes bytes) {
  Bytes begin = 0;
  for (const auto& [first, end] : block.taken) {
    if (begin + bytes <= first) break;
    begin = end;
  }
  if (begin + bytes > block.bytes) return nullptr;
  block.taken.emplace(begin, begin + bytes);
  return static_cast<std::byte*>(block.data.get()) + begin;
}

std::shared_ptr<void> Scratch::allocate(Bytes bytes) {
  const Bytes size = (std::max<Bytes>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* place = nullptr;
  std::size_t number = 0;
  for (; number < blocks_.size(); ++number) {
    place = place_in(blocks_[number], size);
    if (place != nullptr) break;
  }
  if (place == nullptr) {
    const Bytes whole = std::max(size, least_);
    blocks_.push_back({.data = memory_->allocate_uncounted(whole), .bytes = whole, .taken = {}});
    place = place_in(blocks_.back(), size);
  }
  memory_->count(bytes);
  return {place, [self = shared_from_this(), number, bytes](void* freed) {
            Block& block = self->blocks_[number];
            block.taken.erase(static_cast<std::byte*>(freed) -
                              static_cast<std::byte*>(block.data.get()));
            self->memory_->count(-bytes);
          }};
}

}  // namespace stagecraft::cuda
