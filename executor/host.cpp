#include "executor/host.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace stagecraft {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string nccl_host() {
  const char* given = std::getenv("NCCL_HOSTID");
  return given != nullptr && *given != '\0' ? given : host_name();
}

}  // namespace stagecraft
