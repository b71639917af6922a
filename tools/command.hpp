// A verb of the command line.

#pragma once

#include <functional>
#include <string_view>

#include "tools/console.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// What a verb does once its flags are read. Returns the exit code.
using Action = std::function<int(Console&)>;

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;  ///< lines `stagecraft …`, shown first in --help
  /// Declares the verb's arguments on `app` and returns what to do with them.
  Action (*declare)(CLI::App& app);
  /// What -o names is a plan, a profile or a page, and never what is printed.
  bool makes_file = false;
};

}  // namespace stagecraft
