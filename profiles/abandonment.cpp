#include "profiles/abandonment.hpp"

#include <atomic>

namespace stagecraft {
namespace {

std::atomic<bool> everything_is_abandoned = false;
thread_local int abandonable_depth = 0;

}  // namespace

Abandoned::Abandoned() : Error(ErrorKind::execution, "the search was stopped") {}

void set_abandoned(bool abandoned) noexcept {
  everything_is_abandoned = abandoned;
}

bool is_abandoned() noexcept {
  return everything_is_abandoned.load(std::memory_order_relaxed);
}

Abandonable::Abandonable() {
  ++abandonable_depth;
}
Abandonable::~Abandonable() {
  --abandonable_depth;
}

void check_abandoned() {
  if (is_abandoned() && abandonable_depth > 0) throw Abandoned();
}

}  // namespace stagecraft
