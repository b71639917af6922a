#include "executor/backends/cuda/pinned.hpp"

#include <algorithm>
#include <bit>

#include "executor/backends/cuda/check.hpp"

namespace stagecraft::cuda {

Pinned::Block::Block(std::shared_ptr<Pinned> owner, void* data, Bytes bytes)
    : owner_(std::move(owner)), data_(data), bytes_(bytes) {}

Pinned::Block::~Block() {
  owner_->free_.push_back({data_, bytes_, std::move(busy_)});
}

Pinned::~Pinned() {
  for (const Free& block : free_) (void)cudaFreeHost(block.data);
}

/// Sizes are powers of two, so that a few blocks serve all.
std::shared_ptr<Pinned::Block> Pinned::take(Bytes bytes) {
  const auto size =
      static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Bytes>(bytes, 256))));
  const auto found = std::ranges::find_if(free_, [&](const Free& block) {
    return block.bytes == size && (!block.busy || block.busy->is_done());
  });
  if (found != free_.end()) {
    const Free block = std::move(*found);
    free_.erase(found);
    return std::make_shared<Block>(shared_from_this(), block.data, size);
  }
  void* data = nullptr;
  check(cudaMallocHost(&data, static_cast<std::size_t>(size)), "allocate pinned memory");
  return std::make_shared<Block>(shared_from_this(), data, size);
}

}  // namespace stagecraft::cuda
