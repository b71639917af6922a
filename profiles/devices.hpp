// The built-in device kinds, and the links that usually join such devices.

#pragma once

#include <string>
#include <string_view>

#include "profiles/cluster.hpp"

namespace stagecraft {

/// Inside a box (NVLink, PCIe, shared memory), and of one network port between boxes.
struct KindLinks {
  Link inside;
  Link between;
  int rails = 1;  ///< ports of a box
  int box = 8;    ///< the largest group that is taken to share one where nothing says otherwise
};

/// The links of a built-in kind. Throws Error (usage) for an unknown one.
KindLinks builtin_links(std::string_view kind);

/// A built-in kind as its maker calls it: "h100" of "NVIDIA H100 80GB HBM3". Empty if there is
/// none.
std::string device_kind_named(std::string_view text);

}  // namespace stagecraft
