// What a run fails with.

#pragma once

#include <string>

#include "executor/driver/machinery.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

namespace stagecraft::tests {

/// Empty if it does not fail.
inline std::string message_of(const Prepared& prepared, const RunOptions& options,
                              const Machinery& machinery = {}) {
  try {
    execute(prepared.plan, prepared.profile, prepared.compiled, prepared.dataset, options,
            machinery);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::execution);
    return error.what();
  }
  return "";
}

}  // namespace stagecraft::tests
