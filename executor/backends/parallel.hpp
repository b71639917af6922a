// Work on many elements, side by side on several processors.

#pragma once

#include <cstdint>
#include <functional>

namespace stagecraft {

/// Calls work(first, end) for ranges that together are [0, elements), each `at_once` long or a
/// little less, from `threads` threads at most, of which the caller's is one; returns when all is
/// done. Which thread gets which range is open. `work` must not throw.
void in_parallel(std::int64_t elements, std::int64_t at_once, int threads,
                 const std::function<void(std::int64_t first, std::int64_t end)>& work);

}  // namespace stagecraft
