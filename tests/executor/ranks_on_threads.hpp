// Ranks that are threads, each with a transport and a backend of its own.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/transports/transport.hpp"
#include "profiles/error.hpp"

namespace stagecraft::tests {

/// A thread per rank; what each failed with, or "".
inline std::vector<std::string> run_on_all(std::vector<std::unique_ptr<Transport>>& transports,
                                           const std::function<void(Transport&, Backend&)>& body) {
  std::vector<std::string> failures(transports.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < transports.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto backend = make_cpu_backend();
      try {
        body(*transports[i], *backend);
      } catch (const Error& error) {
        failures[i] = transports[i]->abort(error.what());
      }
    });
  }
  threads.clear();
  return failures;
}

}  // namespace stagecraft::tests
