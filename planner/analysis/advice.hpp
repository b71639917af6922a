// Advice: edits of a plan, alone and in pairs, that make its step shorter or make it fit. Each
// edited plan is simulated.

#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/analysis/changes.hpp"
#include "planner/analysis/flag_edits.hpp"
#include "planner/costs/predict.hpp"

namespace stagecraft {

/// One or more changes, the plan with them (`changed(plan, changes)`), and its prediction.
struct AdvisedEdit {
  std::vector<Change> changes;
  std::vector<FlagEdit> flags;  ///< the changes as flags of the question's target
  Plan plan;
  Prediction prediction;
  double faster_by = 0;  ///< saved time as a fraction of the present step; negative: slower
  bool is_told = true;   ///< the target has flags for it; without them, it only occurs within other
                         ///< edits
};

/// The fullest device's bytes at its peak, and its usable bytes (nothing: unlimited).
struct FullestDevice {
  Bytes peak = 0;
  std::optional<Bytes> limit;
};
FullestDevice fullest_device(const Prediction& prediction);

struct AdviceQuestion {
  /// The framework that runs the plans: only edits that it can run are given. Null: our own keys,
  /// and every valid plan.
  const Target* target = nullptr;
  bool is_of_script = false;      ///< the plan was read from a launch script of the target
  ScriptFlags script;             ///< flags of that launch script; empty: there is none
  std::vector<std::string> keep;  ///< keys of `change_kinds` whose values must stay
  int depth = 4;                  ///< maximum number of edits in `together`; below 3: none
  std::size_t top = 8;            ///< maximum number of single edits, and of pairs
  int threads = 0;                ///< 0: one for each core; the answer does not depend on it
  std::stop_token stop;           ///< if requested, the advice found so far is returned
  /// Called when the single edits are known, long before the pairs.
  std::function<void(const struct Advice&)> singles_found = {};
  /// Called from the calling thread from time to time, with the number of plans tried and of plans
  /// in all.
  std::function<void(int done, int of)> progress = {};
};

/// Edits, best first: plans that fit before those that do not, then by the step. For a plan that
/// fits, only edits that fit and are faster by at least a thousandth; for one that does not, edits
/// that fit, whatever their step.
struct Advice {
  Prediction now;
  std::vector<AdvisedEdit> singles;
  /// Pairs that are better than both of their edits alone; also the single edit layers=balanced,
  /// which takes long to find.
  std::vector<AdvisedEdit> pairs;
  /// Several edits together, if they are better than every row above.
  std::optional<AdvisedEdit> together;
  /// If no edit fits: the one that comes closest.
  std::optional<AdvisedEdit> closest;
  int tried = 0;  ///< number of plans simulated
};

/// Tries edits of recomputation, virtual stages, tensor-, pipeline-, context- and expert-parallel
/// degrees (replicas take the remaining devices), samples per microbatch, overlap of gradient sums,
/// sharding, layers of stages, schedule, and order of devices. Samples per step, tokens per sample,
/// precision and optimizer stay, since changing them would change the training. Throws Error
/// (usage) for an unknown name in `keep`.
Advice advise(const LoadedPlan& loaded, const AdviceQuestion& question);

/// The framework that a plan was made for, if its file says so.
const Target* target_of(const Plan& plan);

}  // namespace stagecraft
