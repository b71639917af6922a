// Layers, stages, devices and microbatches are numbered by `int`; containers count by std::size_t.

#pragma once

#include <concepts>
#include <cstddef>

namespace stagecraft {

/// `number`, which is at least 0, as the index of an element or as a size.
template <std::integral Number>
constexpr std::size_t index(Number number) {
  return static_cast<std::size_t>(number);
}

}  // namespace stagecraft
