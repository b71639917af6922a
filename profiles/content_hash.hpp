// The hash by which contents are compared, of what lies in several places.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stagecraft {

/// As `content_hash` (json.hpp) of the pieces one behind another, without putting them there.
std::string content_hash(std::span<const std::string_view> pieces);

}  // namespace stagecraft
