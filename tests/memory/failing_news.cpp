#include "tests/memory/failing_news.hpp"

#include <cstdlib>
#include <new>

namespace {

/// Allocations of this thread until one fails; negative: none does.
thread_local long allocations_left = -1;
thread_local bool one_has_failed = false;
thread_local long live = 0;

}  // namespace

namespace stagecraft::tests {

void fail_allocation(long after) {
  one_has_failed = false;
  allocations_left = after;
}

bool end_failing() {
  allocations_left = -1;
  return one_has_failed;
}

bool has_failed() {
  return one_has_failed;
}

long live_allocations() {
  return live;
}

}  // namespace stagecraft::tests

// One fails; what follows from that has the program's reserve (tools/main.cpp).
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left == 0) {
    allocations_left = -1;
    one_has_failed = true;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
  void* const place = std::malloc(size == 0 ? 1 : size);
  if (place == nullptr) throw std::bad_alloc();
  ++live;
  return place;
}
/// Whoever asks in this way can do without: std::stable_sort sorts in place then.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* const place = std::malloc(size == 0 ? 1 : size);
  if (place != nullptr) ++live;
  return place;
}
[[gnu::noinline]] void operator delete(void* place) noexcept {
  if (place != nullptr) --live;
  std::free(place);
}
[[gnu::noinline]] void operator delete(void* place, std::size_t) noexcept {
  if (place != nullptr) --live;
  std::free(place);
}
