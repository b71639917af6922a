#include <algorithm>

#include "planner/timing/critical_path.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// One microbatch through all forwards and backwards, then the work after the last backward of
/// stage 0.
PassCounts round_trip(int stages, double Passes::*back) {
  PassCounts path;
  path.stages.resize(index(stages));
  path.stages.front().sum = path.stages.front().update = 1;
  for (int s = 0; s < stages; ++s) {
    Passes& passes = path.stages[index(s)];
    passes.forward = passes.*back = 1;
    if (s + 1 == stages) break;
    passes.there_latency = passes.there_occupancy = 1;
    passes.back_latency = passes.back_occupancy = 1;
  }
  return path;
}

}  // namespace

std::vector<PassCounts> backward_paths(const PipelineCosts& costs, const TimedOrder& order) {
  const int stages = costs.stages();
  std::vector<double> whole(index(stages)), inputs(index(stages));
  for (const Instruction& instruction : order.order) {
    if (instruction.op == Op::backward) ++whole[index(instruction.stage)];
    if (instruction.op == Op::backward_input) ++inputs[index(instruction.stage)];
  }
  const auto are_none = [](const std::vector<double>& counts) {
    return std::all_of(counts.begin(), counts.end(), [](double count) { return count == 0; });
  };
  if (!are_none(whole) && !are_none(inputs)) return {};
  const bool splits = are_none(whole);
  const auto back = splits ? &Passes::backward_input : &Passes::backward;
  std::vector<PassCounts> paths;
  for (int stage = 0; stage < stages; ++stage) {
    PassCounts& path = paths.emplace_back(round_trip(stages, back));
    path.stages[index(stage)].*back = (splits ? inputs : whole)[index(stage)];
  }
  return paths;
}

}  // namespace stagecraft
