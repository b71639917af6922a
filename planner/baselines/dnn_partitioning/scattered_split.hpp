// The throughput problem of dnn-partitioning without contiguity, as its integer program solves it:
// any nodes on any device, so that the largest load is minimal (see max_load.hpp for the loads).
//
// 1. The best contiguous split is known first, or where there is none, any that fits.
// 2. Annealing makes it better, in rounds of several walks with seeds of their own.
// 3. A depth-first search looks for anything below that: it finds it, or proves that there is
//    nothing, or it gives up; then it proves smaller limits, and the largest is the bound.
//
// Nodes are those of the problem: colours whose nodes read from each other in a circle are one of
// them (dnn_layers), which the integer program may part.
//
// Steps 2 and 3 work on the groups that no split below the best load can part
// (max_load_joined.hpp). Effort is counted in steps, so the answer is the same for any number of
// threads.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

struct ScatteredEffort {
  std::int64_t most_downsets = 1'000'000;  ///< of the contiguous split
  std::int64_t steps = 48'000'000;         ///< of all walks together, at most
  std::int64_t steps_per_node = 400'000;   ///< of the same
  std::int64_t proof_steps =
      20'000'000;  ///< of the proof below the best load; as many again for the bound
  int threads = 1;
};

struct ScatteredAnswer {
  std::optional<MaxLoadSplit> split;  ///< parts in the order of devices, accelerators first
  bool complete = false;              ///< proved the least, or that nothing fits
};

ScatteredAnswer split_without_contiguity(const MaxLoadProblem& problem,
                                         const ScatteredEffort& effort,
                                         const std::stop_token& stop);

}  // namespace stagecraft
