#include "executor/transport.hpp"

#include <chrono>

namespace stagecraft {

Moment now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace stagecraft
