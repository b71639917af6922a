#include "executor/backend.hpp"

#include <utility>

namespace stagecraft {

Tensor Backend::allocate(std::vector<std::int64_t> shape, Precision precision) {
  if (placement_ == nullptr) return allocate_apart(std::move(shape), precision);
  const Bytes bytes = elements_of(shape) * element_bytes(precision);
  return {.storage = placement_->place(bytes), .shape = std::move(shape), .precision = precision};
}

}  // namespace stagecraft
