// The throughput problem of dnn-partitioning: split a graph of operators into contiguous parts, one
// per device, so that the largest load of a device per sample is minimal (Tarnawski et al.,
// "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020, section 5).
//
// An accelerator's load is the time of its nodes plus the cost of each tensor that crosses its
// boundary, once per tensor and device, in or out. A CPU's load is the time of its nodes alone. A
// part is what one downset has beyond a smaller one.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/space/downsets.hpp"

namespace stagecraft {

/// A unit of the graph that stays on one device; times in milliseconds (or any other unit).
struct MaxLoadNode {
  double accelerator = 0;
  double processor = 0;      ///< time on a CPU
  double size = 0;           ///< bytes on an accelerator
  bool accelerated = true;   ///< can run on an accelerator
  std::vector<int> members;  ///< whatever the node stands for, in the caller's numbers
};

/// Costs every device that has some of the nodes, but not all.
struct MaxLoadTensor {
  double cost = 0;
  std::vector<int> nodes;  ///< who makes and who reads it; no two the same
};

struct MaxLoadProblem {
  std::vector<MaxLoadNode> nodes;
  std::vector<Edge> edges;  ///< for contiguity; no cycle
  std::vector<MaxLoadTensor> tensors;
  int accelerators = 1;
  int processors = 0;
  double memory = 0;  ///< bytes per accelerator
};

struct MaxLoadPart {
  std::vector<int> members;  ///< of its nodes, ascending
  bool on_processor = false;
  double load = 0;
};

struct MaxLoadSplit {
  std::vector<MaxLoadPart> parts;  ///< each reads from itself and those before it
  double load = 0;                 ///< the largest of the parts'
  double lower_bound = 0;          ///< equal to `load`, up to rounding, if the search was complete
  std::int64_t downsets = 0;
  std::int64_t compared = 0;  ///< parts looked at
};

/// Load of these nodes on one device, straight from the definition.
double load_of(const MaxLoadProblem& problem, const std::vector<int>& nodes, bool on_processor);

/// The same question with fewer nodes: one that takes no time, and no memory that could be scarce,
/// and shares tensors with one other node alone, joins that node. Some best split has them
/// together: moving it there loads no device more and keeps all parts contiguous.
MaxLoadProblem folded(const MaxLoadProblem& problem);

/// The best split, or none if nothing fits. Stopped, or with CPUs beyond `most_downsets`, only
/// parts of a few orders of the nodes are searched, and the lower bound is that of the work alone.
/// With accelerators alone and more downsets than that, cuts that are cheap for the work before
/// them are searched, too (max_load_cuts.hpp), which proves nearly as much on a few devices.
std::optional<MaxLoadSplit> split_by_max_load(const MaxLoadProblem& problem,
                                              std::int64_t most_downsets,
                                              const std::stop_token& stop);

}  // namespace stagecraft
