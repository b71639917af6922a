// What to change: edits of a plan, one by one and in pairs, that make its step shorter, or make it
// fit; each is a plan of its own, put on the clock like any other.

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

/// Changes that go together, and the plan with them: `changed(plan, changes)`, and `predict` of it.
struct AdvisedEdit {
  std::vector<Change> changes;
  std::vector<FlagEdit> flags;  ///< in the words of the question's target
  Plan plan;
  Prediction prediction;
  double faster_by = 0;  ///< part of the step that the plan takes now; negative: slower
  bool is_told = true;   ///< the target has words for it: without them it is a part of others only
};

/// Of the fullest device, the bytes at its peak and those that may be used (nothing: unlimited).
struct FullestDevice {
  Bytes peak = 0;
  std::optional<Bytes> limit;
};
FullestDevice fullest_device(const Prediction& prediction);

struct AdviceQuestion {
  /// The framework that carries plans out: only edits that it runs are advice. Null: our own words,
  /// and nothing but what a plan may be.
  const Target* target = nullptr;
  bool is_of_script = false;  ///< the plan is what a launch script of the target says
  ScriptFlags script;         ///< of the launch script that the plan was read from; empty: of none
  std::vector<std::string> keep;  ///< keys of `change_kinds` whose values must stay
  int depth = 4;                  ///< edits one after another in `together`; below 3: none
  std::size_t top = 8;            ///< single edits, and pairs, at most so many of each
  int threads = 0;                ///< 0: one for each core; the answer does not depend on it
  std::stop_token stop;           ///< what was found so far is returned
  /// Called when the single edits are known, long before the rest.
  std::function<void(const struct Advice&)> singles_found = {};
  /// Called now and then from the calling thread: how many of how many plans have been tried.
  std::function<void(int done, int of)> progress = {};
};

/// Best first: what fits before what does not, then by the step. Of a plan that fits, what fits and
/// is faster by at least a thousandth; of one that does not, what fits, and takes as long as it
/// does.
struct Advice {
  Prediction now;
  std::vector<AdvisedEdit> singles;
  /// Each better than both of its edits alone; among them layers=balanced, which is a single edit
  /// that takes long to find.
  std::vector<AdvisedEdit> pairs;
  /// The best edits one after another, if that is better than every row above.
  std::optional<AdvisedEdit> together;
  /// Where nothing that was tried fits: what comes closest.
  std::optional<AdvisedEdit> closest;
  int tried = 0;  ///< plans that were put on the clock
};

/// Edits of recomputation, virtual stages, degrees of tensor, pipeline, context and expert
/// parallelism (replicas take the devices that they leave), samples per microbatch, sums of
/// gradients beside the last backward, sharding, layers of stages, schedule, and order of devices.
/// Samples per step, tokens per sample, precision and optimizer stay: they are other training.
/// Throws Error (usage) for names to keep that are none.
Advice advise(const LoadedPlan& loaded, const AdviceQuestion& question);

/// The framework that a plan was made for, if its file says so.
const Target* target_of(const Plan& plan);

}  // namespace stagecraft
