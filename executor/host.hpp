// The machine this process is on.

#pragma once

#include <string>

namespace stagecraft {

/// As the system names it.
std::string host_name();

/// As NCCL tells it from others: $NCCL_HOSTID, or its name.
std::string nccl_host();

}  // namespace stagecraft
