// The planner's input (the problem) and output (the search result).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/costs/layer_cost_memo.hpp"
#include "planner/costs/predict.hpp"
#include "planner/plan/plan.hpp"
#include "planner/problem/families.hpp"
#include "planner/targets/targets.hpp"

namespace stagecraft {

/// The file that MODEL names, for strategies that use another planner's own figures.
struct SourceFile {
  std::string path;
  std::string content;  ///< empty for built-in models
};

/// A model, a cluster, the training or inference configuration, and constraints on plans.
struct Problem : Constraints {
  std::string model_name;  ///< as given on the command line; recorded in the plan
  std::string cluster_name;
  std::string profile_hash;
  Profile profile;
  /// The order of the profile's layers, as indices of the model's layers, if it is not the model's
  /// own; recorded in the plan.
  std::vector<int> order;
  SourceFile source;
  Cluster cluster;
  /// Shared memo of layer costs of this profile on this cluster; null: none. Not part of the
  /// question.
  std::shared_ptr<LayerCostMemo> known_costs;
  Precision precision = Precision::float32;
  LayerKernels kernels = {};  ///< kernels that estimated costs assume
  std::int64_t global_batch = 1;
  std::int64_t sequence = 0;
  std::optional<Requests> requests;  ///< requests of inference
  OptimizerChoice optimizer;
  /// Other ways of sharding the model's states over replicas, which are also searched
  /// (planner/search/sharding_search.hpp). All else of the optimizer is as above.
  std::vector<Sharding> other_sharding;
  /// Degrees of all plans; sequence parallelism applies to those with tensor parallelism.
  Parallelism parallelism;
  /// Other context, expert and expert-tensor degrees to search. All else is as above.
  std::vector<Parallelism> other_parallelism;
  const Target* target = nullptr;  ///< the framework that is to run the plan; null: any, or several
  double memory_fraction = 1.0;    ///< fraction of each device's memory that may be used
  /// Maximum bytes per device, including its reserve, whatever the device has.
  std::optional<Bytes> memory_cap;
};

/// Whether the target framework numbers its ranks over the cluster's devices in order, stage by
/// stage.
inline bool numbers_ranks(const Problem& problem) {
  return problem.target != nullptr && problem.target->equal_stages;
}

/// The problem with a memo of layer costs that its searches share.
Problem with_known_costs(Problem problem);

/// Whether plans serve requests, without a backward; else they train.
bool serves(const Problem& problem);

/// Whether every stage must have the same number of replicas and peers, on consecutive devices.
inline bool has_equal_stages(const Problem& problem) {
  return numbers_ranks(problem) || problem.pinned.any();
}

/// The problem restricted to plans with this recomputation in all layers.
Problem with_recompute_everywhere(Problem problem, RecomputeEverywhere what);

/// `parallelism`, then `other_parallelism`.
std::vector<Parallelism> parallelism_choices(const Problem& problem);

/// The problem with the degrees and the sharding of this plan, which was found under one of its
/// choices.
Problem with_choices_of(Problem problem, const Plan& plan);

/// `optimizer.sharding`, then `other_sharding`.
std::vector<Sharding> sharding_choices(const Problem& problem);

/// The problem restricted to this sharding.
Problem with_sharding(Problem problem, Sharding sharding);

/// The problem's cluster, with its usable memory.
Cluster with_usable_memory(const Problem& problem);

/// The value that a strategy minimises, in its own cost model.
struct Objective {
  std::string name;  ///< "step", "time per minibatch", "max load"
  double value = 0;  ///< in `unit`
  std::string unit = "s";
  double lower_bound = 0;  ///< in `unit`: lower bound on all plans that the strategy may choose
  bool operator==(const Objective&) const = default;
};

/// A plan with its prediction, or the reason why it was rejected.
struct Candidate {
  std::string name;  ///< "exact", "even split", …
  Plan plan;
  std::optional<Prediction> prediction;
  std::optional<Objective> objective;  ///< for strategies with their own cost model
  std::string rejected;                ///< reason of the rejection; else empty
};

/// The name of plans that the search itself found.
inline constexpr std::string_view name_of_searched = "exact";

/// The reason why no plan fits, and remedies.
struct Infeasible {
  std::string reason;
  Bytes short_by = 0;  ///< missing bytes on the closest plan's fullest device; 0 if memory is not
                       ///< the reason
  std::vector<std::string> remedies;  ///< each one verified to give a plan that fits, for example
                                      ///< "--microbatch 1 (now 2)"
};

struct SearchResult : SearchCounts {
  std::vector<Candidate> plans;  ///< best first; empty if infeasible
  std::optional<Infeasible> infeasible;
  std::string strategy;
  /// Lower bounds by family; `finish` derives the next four members from them. Empty for strategies
  /// without bounds or with a single one.
  FamilyBounds families;
  Duration lower_bound{0};
  /// The relaxation and the plans that give the bound, in words: the cause of a gap.
  std::string rests_on;
  double gap = 0;
  bool proved_optimal = false;
  std::optional<double> cost_bound;  ///< lower bound on the objective cost, in its unit
  std::optional<Question> question;  ///< if the bound covers all plans that were asked for
};

/// Whether the lower bound covers all plans that were asked for, so that its scope need not be
/// reported.
bool speaks_of_all_plans(const SearchResult& result);

/// Progress of a search, for a progress line.
struct SearchProgress {
  double done = 0;  ///< estimated fraction in [0, 1]
  std::optional<Duration> best;
  double gap = 1;
};

struct SearchControl {
  /// `effort` of a short side search: some tenths of a second.
  static constexpr std::int64_t of_a_look = 20'000'000;

  std::stop_token stop;  ///< Ctrl-C or a time limit: the search returns the best plan so far, with
                         ///< its gap
  std::function<void(const SearchProgress&)> progress;
  std::string argument;  ///< the part after a colon in the strategy's name: a pattern
  int top = 1;           ///< number of plans to return
  int threads = 1;       ///< maximum number of threads, 0: one for each core; the answer does not
                         ///< depend on it
  /// Cutoff: plans that take longer do not matter, and may be left out.
  std::optional<Duration> worth;
  std::optional<std::int64_t> effort;  ///< work limit in steps, instead of the default
  bool explain = true;                 ///< if nothing fits, look for the reason and remedies
  bool thorough = false;               ///< spend more effort on tightening the bound
  bool only_scope = false;             ///< search only plans that the lower bound covers
  double gap = 0;                      ///< stop when the relative gap is at most this
};

}  // namespace stagecraft
