// The flags that say how devices wait for their messages.

#pragma once

#include <string>

#include "simulator/events.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

struct LinkOptions {
  std::string policy = "async";
  int buffers = 1;
};

/// --link-policy --buffers.
void declare_links(CLI::App& app, LinkOptions& options);

/// Whether the policy is another than `async`, the only one that the fast clock knows.
bool needs_events(const LinkOptions& options);

/// On the fast clock where it will do.
Timeline simulate_with(const LinkOptions& links, const Program& program, const Costs& costs,
                       const SimulateOptions& options = {});

}  // namespace stagecraft
