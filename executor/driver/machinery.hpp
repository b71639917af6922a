// Factories for backends and transports. Tests inject failing ones.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "executor/driver/execute.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

struct Machinery {
  std::function<std::unique_ptr<Backend>(int rank)> make_backend = [](int) {
    return make_cpu_backend();
  };
  /// Makes a dry backend, which only allocates, to find the memory that the real backend's calls
  /// need.
  std::function<std::unique_ptr<Backend>()> make_dry_backend = make_dry_cpu_backend;
  std::function<std::vector<std::unique_ptr<Transport>>(const Wiring&)> make_transports =
      make_thread_transports;
  bool trusts_program = false;  ///< also runs programs that `check` refuses
};

/// The factories for the backend that the options select.
Machinery machinery_of(const RunOptions& options);

/// `execute` and `run_reference` with these factories; the reference uses rank 0's backend.
RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options, const Machinery& machinery);
RunResult run_reference(const Plan& plan, const Profile& profile, const Dataset& dataset,
                        const RunOptions& options, const Machinery& machinery);

}  // namespace stagecraft
