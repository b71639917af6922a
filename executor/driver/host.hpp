// The machine this process is on.

#pragma once

#include <string>

namespace stagecraft {

/// As the system names it.
std::string host_name();

/// How many of its processors one of so many ranks may keep busy, so that together they do not ask
/// for more than there are; at least 1.
int processors_per_rank(int ranks);

/// As NCCL tells it from others: $NCCL_HOSTID, or its name.
std::string nccl_host();

}  // namespace stagecraft
