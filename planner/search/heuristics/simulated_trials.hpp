// Plans tried out by simulation: balanced ones that fit, and better ones near them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"
#include "planner/space/effort.hpp"
#include "planner/space/space.hpp"

namespace stagecraft {

/// So many stages with equally many replicas each, and what their plans take if no device ever
/// waits. Replicas are columns, or take turns on few devices.
struct TrialStart {
  Setting setting;
  std::vector<int> replicas;  ///< per pipeline device
  double work = 0;            ///< nanoseconds
  double estimate = 0;        ///< and with what a pipeline takes to fill
};

/// A plan, as what may be changed of it.
struct SimulatedPlan {
  Setting setting;
  Layout layout;
  Candidate candidate;
};

inline Duration step_of(const SimulatedPlan& found) {
  return pace(*found.candidate.prediction);
}

/// What looking for plans has come to beside them.
struct TrialAccount {
  std::int64_t simulated = 0;
  std::int64_t spent = 0;
  /// What the plan that came closest to fit, if none does, has too little: of those simulated, and
  /// of those whose weights and states alone are too much.
  std::optional<Bytes> short_by, short_by_states;
  /// Why others are none: of those with the most stages.
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

/// Plans of one space, simulated one after the other.
class Trials {
 public:
  Trials(const Space& space, TrialAccount& account) : space_(space), account_(account) {}

  /// Stages of equal time, the first ones recomputing, as few as it takes to fit.
  std::optional<SimulatedPlan> balanced_plan(const TrialStart& start);

  /// One cut, one device or one stage's recomputation at a time, as long as that makes it faster
  /// and the effort lasts.
  void improve(SimulatedPlan& found, const Effort& effort);

 private:
  /// Whether weights, gradients and states leave any room.
  bool has_room(const Setting& setting, const Layout& layout);

  /// By then devices have been as full as they get, but for a little.
  static int few_microbatches(const Setting& setting, const Layout& layout);

  /// Of so many microbatches, if it fits; else whether memory is the reason is in `is_over_`.
  std::optional<Candidate> simulate(Setting setting, const Layout& layout, int microbatches);

  bool change_recomputation(SimulatedPlan& found, int stage);

  bool move_cut(SimulatedPlan& found, int stage);

  /// On few devices columns become replicas, so that stages may have numbers of their own.
  void spread(SimulatedPlan& found);

  /// From this pipeline device, or from those that are idle, to any other one.
  bool move_device(SimulatedPlan& found, int from);

  bool take(SimulatedPlan& found, const Layout& layout);

  const Space& space_;
  TrialAccount& account_;
  bool is_over_ = false;
};

}  // namespace stagecraft
