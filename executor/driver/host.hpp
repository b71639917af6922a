// Properties of the machine that this process runs on.

#pragma once

#include <string>

namespace stagecraft {

/// The host name of the system.
std::string host_name();

/// Number of processors for each of `ranks` ranks, so that together they do not use more than there
/// are; at least 1.
int processors_per_rank(int ranks);

/// The host's identity for NCCL: $NCCL_HOSTID, or its name.
std::string nccl_host();

}  // namespace stagecraft
