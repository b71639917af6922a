// The driver of a run: workers on all ranks, step by step, and one result on rank 0.
//
//   rank 0  prepare │ step  report ─→ losses → goes on? ─┐ step … │ weights → result
//   rank 1  prepare │ step  report ─↗                    └→ step … │ its part ↗
//
// Ranks are threads of this process or of others, and communicate only through their transports.

#pragma once

#include <functional>
#include <memory>

#include "executor/driver/machinery.hpp"
#include "executor/driver/rank_map.hpp"
#include "executor/training/worker.hpp"

namespace stagecraft {

using MakeWorker = std::function<std::unique_ptr<Worker>(Backend& backend, Transport& transport)>;

/// Called on every rank after each step, once all know whether there is another; may communicate
/// with the other ranks. Steps count from 0 in this run.
using Settle = std::function<void(Transport& transport, Backend& backend, Worker& worker, int step,
                                  bool goes_on)>;

/// Runs the steps. `tokens_per_step` is the divisor of losses. The result is complete on the
/// process with rank 0, and empty elsewhere. Throws Error (execution) with the first failure of any
/// rank, after all ranks have stopped.
RunResult conduct(const Compiled& compiled, const RankMap& ranks, std::int64_t tokens_per_step,
                  const RunOptions& options, const Machinery& machinery,
                  const MakeWorker& make_worker, const Settle& settle = {});

}  // namespace stagecraft
