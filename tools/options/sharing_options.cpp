#include "tools/options/sharing_options.hpp"

#include <CLI/CLI.hpp>

#include "profiles/error.hpp"
#include "simulator/engines/network.hpp"

namespace stagecraft {

void declare_sharing(CLI::App& app, SharingOptions& options, const std::string& help) {
  app.add_option("--sharing", options.sharing, help)
      ->type_name("S")
      ->check(CLI::IsMember({"fair", "fifo"}));
  app.add_option("--devices-per-link", options.devices_per_link,
                 "With --sharing: devices that share one link out of their node (all of the node)")
      ->type_name("N")
      ->check(CLI::Range(1, most_devices));
}

std::optional<LinkSharing> read_link_sharing(const SharingOptions& options) {
  if (options.sharing.empty()) {
    if (!options.devices_per_link) return {};
    fail_usage("--devices-per-link says who shares a link; give --sharing fair or fifo, too");
  }
  return LinkSharing{.sharing = read_sharing(options.sharing),
                     .devices_per_link = options.devices_per_link};
}

}  // namespace stagecraft
