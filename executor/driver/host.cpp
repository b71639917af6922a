#include "executor/driver/host.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

namespace stagecraft {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

int processors_per_rank(int ranks) {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
}

std::string nccl_host() {
  const char* given = std::getenv("NCCL_HOSTID");
  return given != nullptr && *given != '\0' ? given : host_name();
}

}  // namespace stagecraft
