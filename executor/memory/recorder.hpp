// Records allocations: their owner, order and lifetime.

#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/memory/tape.hpp"

namespace stagecraft {

/// A placement that gives no memory, and records who allocated and freed it, and when. Must outlive
/// its tensors.
class Recorder final : public Placement {
 public:
  struct Asked {
    Bytes bytes = 0;  ///< aligned
    long begin = 0;   ///< time of allocation, counted in allocations and frees
    long end = forever;
    std::weak_ptr<void> storage;
  };

  std::shared_ptr<void> place(Bytes bytes) override {
    static char nowhere = 0;
    const std::size_t number = asked_.size();
    std::shared_ptr<void> storage(&nowhere, [this, number](void*) { asked_[number].end = ++now_; });
    asked_.push_back({.bytes = aligned(bytes), .begin = ++now_, .storage = storage});
    return storage;
  }

  std::size_t size() const { return asked_.size(); }
  const Asked& at(std::size_t i) const { return asked_[i]; }
  bool lives(std::size_t i) const { return asked_[i].end == forever; }

  /// The allocation that a tensor shares, if it is recorded.
  std::optional<std::size_t> find(const Tensor& tensor) const {
    for (std::size_t i = asked_.size(); i-- > 0;) {
      const std::weak_ptr<void>& storage = asked_[i].storage;
      if (!storage.owner_before(tensor.storage) && !tensor.storage.owner_before(storage)) return i;
    }
    return {};
  }

 private:
  static constexpr long forever = std::numeric_limits<long>::max();
  std::vector<Asked> asked_;
  long now_ = 0;
};

}  // namespace stagecraft
