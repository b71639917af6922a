// The NCCL transport, as the rest of the program sees it. It lives in a module
// (executor/driver/modules.hpp, transports/nccl/), and what ranks say to each other goes by MPI
// or TCP.

#include "executor/driver/modules.hpp"
#include "executor/transports/processes.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

void require_nccl() {
  using Require = void();
  reinterpret_cast<Require*>(module_entry("nccl", "stagecraft_require_nccl", "--transport nccl"))();
}

std::vector<std::unique_ptr<Transport>> make_nccl_transports(const Wiring& wiring) {
  using Equip = void(std::unique_ptr<Transport> & transport, const Wiring& wiring);
  require_nccl();
  auto* equip = reinterpret_cast<Equip*>(
      module_entry("nccl", "stagecraft_equip_with_nccl", "--transport nccl"));
  std::vector<std::unique_ptr<Transport>> transports = launched_processes().make_transports(wiring);
  for (auto& transport : transports) equip(transport, wiring);
  return transports;
}

}  // namespace stagecraft
