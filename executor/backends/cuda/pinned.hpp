// Memory of the process that the GPU copies from and to while the process goes on.

#pragma once

#include <memory>
#include <vector>

#include "executor/backends/cuda/events.hpp"
#include "profiles/units.hpp"

namespace stagecraft::cuda {

/// Blocks of one rank, used again and again. Its thread only.
class Pinned : public std::enable_shared_from_this<Pinned> {
 public:
  /// Given back when it goes; used again behind what it was said to be busy with.
  class Block {
   public:
    Block(std::shared_ptr<Pinned> owner, void* data, Bytes bytes);
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();

    void* data() const { return data_; }
    /// A copy from it or to it comes before this event.
    void keep_until(std::shared_ptr<Event> event) { busy_ = std::move(event); }
    const Event& busy() const { return *busy_; }

   private:
    std::shared_ptr<Pinned> owner_;
    void* data_;
    Bytes bytes_;
    std::shared_ptr<Event> busy_;
  };

  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned();

  std::shared_ptr<Block> take(Bytes bytes);

 private:
  struct Free {
    void* data = nullptr;
    Bytes bytes = 0;
    std::shared_ptr<Event> busy;
  };
  std::vector<Free> free_;
};

}  // namespace stagecraft::cuda
