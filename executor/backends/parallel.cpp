#include "executor/backends/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "executor/values/tensor.hpp"

namespace stagecraft {

void in_parallel(std::int64_t elements, std::int64_t at_once, int threads,
                 const std::function<void(std::int64_t first, std::int64_t end)>& work) {
  const auto parts = static_cast<std::size_t>((elements + at_once - 1) / at_once);
  std::atomic<std::size_t> next{0};
  const auto take_parts = [&] {
    for (std::size_t i = next++; i < parts; i = next++) {
      work(part_begin(elements, i, parts), part_begin(elements, i + 1, parts));
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < std::min(parts, static_cast<std::size_t>(threads)); ++i) {
    others.emplace_back(take_parts);
  }
  take_parts();
}

}  // namespace stagecraft
