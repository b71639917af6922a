// PipeDream's optimizer (Narayanan et al., SOSP 2019; optimizer_graph_hierarchical.py of
// msr-fiddle/pipedream), quirks included, so that its figures can be held against published ones.
//
// It cuts the model at *states*: sets of layers closed under "reads from". A stage is what lies
// between two states, one a subset of the other, on some of the level's machines; the objective is
// the time of the slowest stage or transfer per minibatch, in a steady state in which everything
// overlaps. Networks are nested, innermost level first: at every level but the first, one "machine"
// is a whole unit of the level below, which runs a pipeline of its own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/baselines/compatibility.hpp"
#include "planner/problem/problem.hpp"

namespace stagecraft {

/// A set of layers before a cut, with its sums for one minibatch.
struct PipedreamState {
  std::vector<std::uint64_t> layers;  ///< a bit per layer
  double compute = 0;                 ///< seconds, forward and backward
  double activations = 0;             ///< bytes kept
  double parameters = 0;              ///< bytes
  double output = 0;                  ///< bytes that their optimizer lets cross the cut
};

/// In an order in which subsets come first; the last one is all that can be reached.
struct PipedreamStates {
  std::vector<PipedreamState> states;
  std::vector<std::vector<int>> before;  ///< per state, all its strict subsets, ascending
  int size() const { return static_cast<int>(states.size()); }
};

/// Sets that hang together around the first source, and hold what their layers read: theirs never
/// cuts off another source alone. `costs` are per layer. Nothing if there are more than `most`.
std::optional<PipedreamStates> pipedream_states(const Model& model,
                                                const std::vector<LayerCost>& costs,
                                                int first_source, int most);

enum class PipedreamCost {
  released,  ///< (compute + 4(m-1)/m |w|/B) / m: a parameter server after every minibatch
  paper,     ///< max(compute, 2(m-1)/m |w|/B) / m
};

struct PipedreamRules {
  PipedreamCost cost = PipedreamCost::released;
  bool charges_activations = true;  ///< their --activation_compression_ratio 1
  bool fewer_machines = false;      ///< their --use_fewer_machines
  bool straight = false;            ///< their --straight_pipeline
  std::optional<double> memory;     ///< bytes; their --use_memory_constraint
};

struct PipedreamLevel {
  int machines = 1;
  double bandwidth = 0;  ///< bytes per second, may be infinite
};

/// The layers between two states (`from` is -1 for the first), on this many of a level's machines.
struct PipedreamStage {
  int from = -1;
  int to = 0;
  int machines = 1;
  bool operator==(const PipedreamStage&) const = default;
};

/// One question of one level: times of state pairs, and the formulas around them.
class PipedreamLevelCosts {
 public:
  /// `times[i * states + j]`: seconds that the level below needs for what comes after state i - 1
  /// up to state j (i = 0: from the start); empty at the innermost level. `unit` is the number of
  /// machines of the level below, 1 if there is none.
  PipedreamLevelCosts(const PipedreamStates& states, const PipedreamRules& rules,
                      PipedreamLevel level, int unit, const std::vector<double>* times)
      : states_(states), rules_(rules), level_(level), unit_(unit), times_(times) {}

  int machines() const { return level_.machines; }
  const PipedreamRules& rules() const { return rules_; }
  const PipedreamStates& states() const { return states_; }

  /// Seconds on one machine; infinite where the level below has no answer.
  double compute(int from, int to) const {
    if (times_ != nullptr) return (*times_)[place(from + 1) * place(states_.size()) + place(to)];
    return states_.states[place(to)].compute - (from < 0 ? 0 : states_.states[place(from)].compute);
  }
  /// No pipeline has less compute than this after the state; zero where that is not known.
  double compute_after(int state) const {
    return times_ != nullptr ? 0 : compute(state, states_.size() - 1);
  }
  /// A stage that nothing precedes in this pipeline: theirs charges it no transfers, and its
  /// weights' traffic to `unit` links at once.
  double first_stage(int from, int to, int machines) const;
  double later_stage(int from, int to, int machines) const;
  /// Whether stashed copies fit: theirs counts those for machines after the stage and leaves out
  /// the stage's own. `used`: machines of this stage and all before it.
  bool first_stage_fits(int from, int to, int machines) const;
  bool later_stage_fits(int from, int to, int machines, int used) const;

 private:
  static std::size_t place(int i) { return static_cast<std::size_t>(i); }
  double with_weights(double compute, double parameters, int machines, int links) const;
  bool fits(int from, int to, int copies) const;

  const PipedreamStates& states_;
  const PipedreamRules& rules_;
  PipedreamLevel level_;
  int unit_ = 1;
  const std::vector<double>* times_;
};

/// A pipeline of one level from the start to the last state, and its slowest stage or transfer.
struct PipedreamPipeline {
  double time = 0;  ///< seconds per minibatch
  std::vector<PipedreamStage> stages;
  std::int64_t compared = 0;  ///< stages that were compared
};

/// The least possible time, by parametric search: is there a pipeline in which nothing takes longer
/// than T? Nothing if there is no pipeline at all. That none below `time` exists has been checked.
std::optional<PipedreamPipeline> fastest_pipeline(const PipedreamLevelCosts& costs);

/// Seconds for every pair of states on all machines of the level: the table that the level above
/// is made with.
std::vector<double> times_of_all_pairs(const PipedreamLevelCosts& costs);
/// The stages between two states that give that time.
std::vector<PipedreamStage> pipeline_between(const PipedreamLevelCosts& costs, int from, int to);

/// The answer of the whole network, innermost level first; stages have devices of all levels.
struct PipedreamPlan {
  double time = 0;  ///< seconds per minibatch
  std::vector<ForeignStage> stages;
  std::int64_t compared = 0;
};
std::optional<PipedreamPlan> pipedream_plan(const PipedreamStates& states,
                                            const PipedreamRules& rules,
                                            const std::vector<PipedreamLevel>& levels, int layers);

}  // namespace stagecraft
