// Running a program without its arithmetic.

#pragma once

#include "executor/driver/machinery.hpp"

namespace stagecraft {

/// Every instruction sleeps for its predicted time; messages and reductions go through the
/// transport, without their bytes. Losses and parameters stay empty.
RunResult sleep_through(const Compiled& compiled, const RunOptions& options,
                        const Machinery& machinery);

}  // namespace stagecraft
