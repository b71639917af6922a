// Runs the ranks of this process, one thread each, in lockstep. If one fails, stops all of them and
// reports why.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/driver/rank_map.hpp"

namespace stagecraft {

/// The callbacks of a rank. `after_step` is called for rank 0 only, the others for every rank of
/// this process; each on the rank's own thread.
struct RankDuty {
  std::function<void(int rank)> prepare;
  std::function<void(int rank, int step)> step;
  /// The rank's report of a step to rank 0.
  std::function<std::string(int rank, int step)> report;
  /// Called with the reports of all ranks, in their order; the run ends if it returns false.
  std::function<bool(int step, std::span<const std::string> reports)> after_step;
  /// Called when all know whether there is another step; may communicate with the other ranks.
  std::function<void(int rank, int step, bool goes_on)> settle;
  /// Called after all steps; may communicate with the other ranks.
  std::function<void(int rank)> finish;
  /// Describes a failure: "rank 3 (stage 1, replica 0) failed during B1.5".
  std::function<std::string(int rank)> describe_failure;
  /// Called on the rank's thread if its failure is the first.
  std::function<void(int rank, const std::string& sentence)> on_first_failure =
      [](int, const std::string&) {};
};

/// Runs the steps, with a barrier before and after each. Throws Error (execution; input, if a rank
/// of this process could not use its input) with the first failure of any rank, after all ranks of
/// this process have stopped.
void run_ranks(std::span<const std::unique_ptr<Transport>> transports, int steps,
               const RankDuty& duty);

/// The device's works in the order in which one thread runs them: as issued, but each send right
/// after the work whose result it sends, except returns to a partner. A program's lanes run
/// concurrently; a single thread must not delay a message until after the next compute.
std::vector<int> order_of_device(const Program& program, int device);

/// "rank 3 (stage 1, replica 0) failed during B1.5"; outside of work, all stages of the rank and
/// "failed outside of its program".
std::string describe_rank_failure(const Program& program, const RankMap& ranks, int rank,
                                  std::optional<int> work);

/// "rank 3 (stage 1, replica 0)", with its place among tensor-parallel peers if it has any; without
/// a chunk, all that the rank holds.
std::string name_of_rank(const Program& program, const RankMap& ranks, int rank,
                         std::optional<int> chunk);

}  // namespace stagecraft
