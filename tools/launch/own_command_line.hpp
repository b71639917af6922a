// The command line of this process, for starting the program again.

#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// The words of the command line; the first one as it was typed.
std::vector<std::string> own_command_line();

}  // namespace stagecraft
