// Memory for what lives no longer than a call, at addresses that are the same whenever the same
// calls come: each work finds it empty, so graphs that were recorded with these addresses can be
// launched again. What comes later on the stream may use what was given back.

#pragma once

#include <map>
#include <memory>
#include <vector>

#include "executor/backends/cuda/memory.hpp"

namespace stagecraft::cuda {

class Scratch : public std::enable_shared_from_this<Scratch> {
 public:
  /// Asks for memory in blocks of so many bytes, or of what is larger.
  explicit Scratch(std::shared_ptr<Memory> memory, Bytes block = Bytes{1} << 20);

  /// Uninitialised, aligned to 256 bytes; counted while it lives. The first place where it fits.
  std::shared_ptr<void> allocate(Bytes bytes);

 private:
  struct Block {
    std::shared_ptr<void> data;
    Bytes bytes = 0;
    std::map<Bytes, Bytes> taken;  ///< ends by beginnings
  };
  void* place_in(Block& block, Bytes bytes);

  std::shared_ptr<Memory> memory_;
  Bytes least_;
  std::vector<Block> blocks_;  ///< never given back before the end
};

}  // namespace stagecraft::cuda
