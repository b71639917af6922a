// The cheapest cut of a max-load problem with some nodes before it and some behind it, as a minimum
// cut in a network: what is before a cut is a downset, and costs the tensors that cross it, and
// maybe something for each unit of work.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/baselines/dnn_partitioning/max_load.hpp"

namespace stagecraft {

/// Who is before each of some cuts.
using CutList = std::vector<std::vector<bool>>;

enum class CutSide { open, before, behind };

/// A question about one cut.
struct CutQuestion {
  std::vector<CutSide> sides;  ///< of each node; nothing before the cut reads what is behind it
  std::vector<bool> is_free;   ///< of each tensor: crosses without a cost
  double price = 0;            ///< per work before the cut; negative: -price per work behind it
};

/// The least cost over all cuts, where the price counts for open nodes only. Work is time on an
/// accelerator.
class ClosureCut {
 public:
  /// More than any flow.
  static constexpr double unlimited = 1e300;

  ClosureCut(const MaxLoadProblem& problem, const CutQuestion& question);

  /// Nodes that were open and are before the cut, or behind it, from now on.
  void put_before(int node);
  void put_behind(int node);

  /// Raises the flow until it is maximal, or at least `enough`. Returns a lower bound on the least
  /// cost, which is exact if it is below `enough`.
  double raise(double enough);

  /// After a `raise` that was not cut short: the nodes before one cheapest cut.
  std::vector<bool> before() const;

  /// Arcs made and looked at so far.
  std::int64_t steps() const { return steps_; }
  /// Effort of copying it, in the same unit.
  std::int64_t size() const { return static_cast<std::int64_t>(arcs_.size()); }

 private:
  static constexpr int none = -1;
  struct Arc {
    int to = 0;
    int next = none;  ///< another one from the same vertex
    double room = 0;  ///< residual capacity
  };

  int add_vertex();
  void connect(int from, int to, double capacity);
  void add_tensor(const MaxLoadTensor& tensor);
  bool reach_target();
  double push(int vertex, double most);

  std::vector<int> vertices_;  ///< of each node
  int source_ = 0, target_ = 1;
  std::vector<Arc> arcs_;      ///< arcs 2i and 2i + 1 are reverse arcs of each other
  std::vector<int> first_;     ///< per vertex, one of its arcs
  std::vector<int> distance_;  ///< from the source, where the last search came
  std::vector<int> unused_;    ///< per vertex, its first arc that is not used up
  double flow_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace stagecraft
