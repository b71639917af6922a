// A verb of the command line.

#pragma once

#include <functional>
#include <string_view>

#include "tools/console.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// The action of a verb, called after its flags are read. Returns the exit code.
using Action = std::function<int(Console&)>;

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;  ///< lines `stagecraft …`, shown first in --help
  /// Declares the verb's arguments on `app` and returns what to do with them.
  Action (*declare)(CLI::App& app);
  /// Whether -o writes a file of the verb's own (a plan, a profile or a page) instead of the
  /// printed text.
  bool makes_file = false;
};

}  // namespace stagecraft
