// What the program calls by name in this module.

#include <utility>

#include "executor/transports/nccl/library.hpp"
#include "executor/transports/nccl/transport.hpp"

extern "C" {

[[gnu::visibility("default")]] void stagecraft_require_nccl() {
  stagecraft::nccl::require_gpu();
}

/// `transport` connects the ranks by the same wiring, and comes to carry tensors by NCCL.
[[gnu::visibility("default")]] void stagecraft_equip_with_nccl(
    std::unique_ptr<stagecraft::Transport>& transport, const stagecraft::Wiring& wiring) {
  auto calls = stagecraft::nccl::library_calls(transport->rank());
  transport = stagecraft::nccl::make_transport(std::move(calls), std::move(transport), wiring);
}

}  // extern "C"
