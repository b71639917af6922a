// For who starts this program again.

#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// The words this process was started with, the first of them as it was typed.
std::vector<std::string> own_command_line();

}  // namespace stagecraft
