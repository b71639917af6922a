// The ranks of this process, a thread each: start them, keep them in step, and when one fails, stop
// them all and say why.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/driver/rank_map.hpp"

namespace stagecraft {

/// What a rank does. `after_step` is called for rank 0 only, the others for every rank of this
/// process; each on the rank's own thread.
struct RankDuty {
  std::function<void(int rank)> prepare;
  std::function<void(int rank, int step)> step;
  /// What rank 0 is to know of the step.
  std::function<std::string(int rank, int step)> report;
  /// With what all have reported, in the order of ranks; the run ends when it says false.
  std::function<bool(int step, std::span<const std::string> reports)> after_step;
  /// When all know whether there is another step; may talk with the other ranks.
  std::function<void(int rank, int step, bool goes_on)> settle;
  /// When all steps are done; may talk with the other ranks.
  std::function<void(int rank)> finish;
  /// Who and where: "rank 3 (stage 1, replica 0) failed during B1.5".
  std::function<std::string(int rank)> describe_failure;
  /// Told on the rank's thread when its failure is the first.
  std::function<void(int rank, const std::string& sentence)> on_first_failure =
      [](int, const std::string&) {};
};

/// Step after step, with a barrier before and after each. Throws Error (execution; input, if a rank
/// of this process could not use what it read) with the first failure of any rank, when all of this
/// process have stopped.
void run_ranks(std::span<const std::unique_ptr<Transport>> transports, int steps,
               const RankDuty& duty);

/// The device's work in the order in which one thread carries it out: as issued, but each send
/// right behind the work whose result it hands over (what is given back to a partner apart). In the
/// program lanes go on side by side; a thread must not let a message wait for the next compute.
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
