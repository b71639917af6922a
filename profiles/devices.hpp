// The built-in device kinds, and the links that usually join such devices.

#pragma once

#include <string_view>

#include "profiles/cluster.hpp"

namespace stagecraft {

/// Inside a box (NVLink, PCIe, shared memory), and between boxes (one network port per device).
struct KindLinks {
  Link inside;
  Link between;
};

/// The links of a built-in kind. Throws Error (usage) for an unknown one.
KindLinks builtin_links(std::string_view kind);

}  // namespace stagecraft
