// Candidates that are evaluated by simulation alone: balanced plans that fit, and local search from
// them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"
#include "planner/space/effort.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// A number of stages with equally many replicas each, and the step of such a plan if no device
/// ever waits. The replicas are pipeline replicas (columns) or, on few devices, round-robin.
struct TrialStart {
  Setting setting;
  std::vector<int> replicas;  ///< per pipeline device
  double work = 0;            ///< nanoseconds
  double estimate = 0;        ///< nanoseconds, with the fill of the pipeline
};

/// A plan as setting and layout, so that local search can change it.
struct SimulatedPlan {
  Setting setting;
  Layout layout;
  Candidate candidate;
};

inline Duration step_of(const SimulatedPlan& found) {
  return pace(*found.candidate.prediction);
}

/// Counts and reasons of rejection that a search returns beside its plans.
struct TrialAccount {
  std::int64_t simulated = 0;
  std::int64_t spent = 0;
  /// If no plan fits: the least bytes that a plan lacked, over simulated plans, and over plans
  /// whose parameters and states alone are too large.
  std::optional<Bytes> short_by, short_by_states;
  /// The reason why a plan was rejected; the plan with the most stages counts.
  std::string rejected;
  int stages_rejected = 0;

  void add(const TrialAccount& other) {
    simulated += other.simulated;
    spent += other.spent;
    fall_short(short_by, other.short_by);
    fall_short(short_by_states, other.short_by_states);
    reject(other.rejected, other.stages_rejected);
  }
  void reject(const std::string& reason, int stages) {
    if (stages <= stages_rejected) return;
    rejected = reason;
    stages_rejected = stages;
  }
  static void fall_short(std::optional<Bytes>& least, const std::optional<Bytes>& missing) {
    if (missing && (!least || *missing < *least)) least = missing;
  }
  std::optional<Bytes> lacking() const { return short_by ? short_by : short_by_states; }
};

/// Simulates candidates of one space, one after the other.
class Trials {
 public:
  Trials(const Space& space, TrialAccount& account) : space_(space), account_(account) {}

  /// A plan of stages of equal time, in which the fewest stages recompute, from the first one on,
  /// so that it fits. Nothing if none fits.
  std::optional<SimulatedPlan> balanced_plan(const TrialStart& start);

  /// Local search: moves one cut or one device, or changes one stage's recomputation, while that
  /// makes the plan faster and effort is left.
  void improve(SimulatedPlan& found, const Effort& effort);

 private:
  /// Whether parameters, gradients and optimizer states alone fit in memory.
  bool has_room(const Setting& setting, const Layout& layout);

  /// A number of microbatches after which memory peaks hardly rise any more.
  static int few_microbatches(const Setting& setting, const Layout& layout);

  /// Simulates the layout with this number of microbatches. Nothing if it does not fit or is
  /// rejected; `is_over_` says whether memory is the reason.
  std::optional<Candidate> simulate(Setting setting, const Layout& layout, int microbatches);

  bool change_recomputation(SimulatedPlan& found, int stage);

  bool move_cut(SimulatedPlan& found, int stage);

  /// On few devices, turns columns into replicas, so that stages may have different numbers of
  /// them.
  void spread(SimulatedPlan& found);

  /// Moves a replica from this pipeline device, or an unused device, to another pipeline device.
  bool move_device(SimulatedPlan& found, int from);

  bool take(SimulatedPlan& found, const Layout& layout);

  const Space& space_;
  TrialAccount& account_;
  bool is_over_ = false;
};

}  // namespace stagecraft
