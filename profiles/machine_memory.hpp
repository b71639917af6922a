// How much memory this process may still ask for, so that what is too much is refused before the
// machine runs out of it.

#pragma once

#include <string>

#include "profiles/units.hpp"

namespace stagecraft {

/// The least of what the machine has free (MemAvailable of /proc/meminfo), what the process's
/// control group leaves it (memory.max of cgroup v2), and its own limits (RLIMIT_AS, RLIMIT_DATA).
/// STAGECRAFT_MEMORY ("8GiB"), if set, is a further limit.
Bytes usable_memory();

/// The process's own limit (RLIMIT_AS, RLIMIT_DATA), including memory in use.
Bytes left_address_space();

/// Throws Error (infeasible) in one sentence unless so much memory is left: "WHAT needs about 40GiB
/// of memory, and 21GiB are left on this machine; REMEDY".
void require_memory(Bytes needed, const std::string& what, const std::string& remedy);

}  // namespace stagecraft
