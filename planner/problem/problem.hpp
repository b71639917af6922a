// The planner's question and its answer.

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

/// The file MODEL names, for strategies that work on another planner's own figures.
struct SourceFile {
  std::string path;
  std::string content;  ///< empty for built-in models
};

/// A model, a cluster, how training goes, and which plans of it may be chosen.
struct Problem : Constraints {
  std::string model_name;  ///< as given on the command line; goes into the plan
  std::string cluster_name;
  std::string profile_hash;
  Profile profile;
  /// Where the profile's layers are not in the model's own order (indices of the model's layers):
  /// theirs, which goes into the plan.
  std::vector<int> order;
  SourceFile source;
  Cluster cluster;
  /// What searches of this profile on this cluster have found of layers' costs; null: nothing. No
  /// part of the question.
  std::shared_ptr<LayerCostMemo> known_costs;
  Precision precision = Precision::float32;
  LayerKernels kernels = {};  ///< of layers whose costs are estimated
  std::int64_t global_batch = 1;
  std::int64_t sequence = 0;
  std::optional<Requests> requests;  ///< of inference
  OptimizerChoice optimizer;
  /// Other ways to shard the model's states over replicas that are tried, one after another
  /// (planner/search/sharding_search.hpp); all else of the optimizer is as above.
  std::vector<Sharding> other_sharding;
  /// Of all plans; sequence parallelism of those with tensor parallelism.
  Parallelism parallelism;
  /// Other context, expert and expert-tensor degrees to try; all else is as above.
  std::vector<Parallelism> other_parallelism;
  const Target* target = nullptr;  ///< the framework that plans are for; null: any, or several
  double memory_fraction = 1.0;    ///< of each device's memory that may be used
  /// No device may use more than this, its reserve included, however much it has.
  std::optional<Bytes> memory_cap;
};

/// Whether a framework numbers its ranks over the cluster's devices in order, stage by stage.
inline bool numbers_ranks(const Problem& problem) {
  return problem.target != nullptr && problem.target->equal_stages;
}

/// The same question, whose searches tell each other what they find of layers' costs.
Problem with_known_costs(Problem problem);

/// Whether plans answer requests, without a backward; else they train.
bool serves(const Problem& problem);

/// Whether every stage has as many replicas and peers as any other, on the next devices.
inline bool has_equal_stages(const Problem& problem) {
  return numbers_ranks(problem) || problem.pinned.any();
}

/// The question about plans that all do this again everywhere.
Problem with_recompute_everywhere(Problem problem, RecomputeEverywhere what);

/// `parallelism`, then the others.
std::vector<Parallelism> parallelism_choices(const Problem& problem);

/// The question with the degrees and the sharding of this plan, which was found under one of its
/// choices.
Problem with_choices_of(Problem problem, const Plan& plan);

/// `optimizer.sharding`, then the others.
std::vector<Sharding> sharding_choices(const Problem& problem);

/// The question about plans that shard so.
Problem with_sharding(Problem problem, Sharding sharding);

/// The problem's cluster with only the memory that may be used.
Cluster with_usable_memory(const Problem& problem);

/// What a strategy minimises, in its own cost model.
struct Objective {
  std::string name;  ///< "step", "time per minibatch", "max load"
  double value = 0;  ///< in `unit`
  std::string unit = "s";
  double lower_bound = 0;  ///< in `unit`: no plan that the strategy may choose has less
  bool operator==(const Objective&) const = default;
};

/// A plan with its prediction, or the sentence why it is not one.
struct Candidate {
  std::string name;  ///< "exact", "even split", …
  Plan plan;
  std::optional<Prediction> prediction;
  std::optional<Objective> objective;  ///< of strategies with a cost model of their own
  std::string rejected;                ///< empty unless it is not a candidate
};

/// What plans of the search itself are called.
inline constexpr std::string_view name_of_searched = "exact";

/// Nothing fits: why, and what would.
struct Infeasible {
  std::string reason;
  Bytes short_by = 0;  ///< of the closest plan's fullest device; 0 when memory is not the reason
  std::vector<std::string>
      remedies;  ///< each verified to make it fit, for example "--microbatch 1 (now 2)"
};

struct SearchResult : SearchCounts {
  std::vector<Candidate> plans;  ///< best first; empty if infeasible
  std::optional<Infeasible> infeasible;
  std::string strategy;
  /// What is known of which plans; `finish` derives the next four from it. Empty for strategies
  /// that bound nothing or know one bound.
  FamilyBounds families;
  Duration lower_bound{0};
  /// What the bound rests on where it is lowest, of which kind of plans: what a gap is due to.
  std::string rests_on;
  double gap = 0;
  bool proved_optimal = false;
  std::optional<double> cost_bound;  ///< of the objective cost, in its unit: no plan costs less
  std::optional<Question> question;  ///< if the bound speaks of all that was asked for
};

/// Whether no plan that was asked for is faster than the lower bound: then it need not be said
/// which were searched.
bool speaks_of_all_plans(const SearchResult& result);

/// How far a search is, for a progress line.
struct SearchProgress {
  double done = 0;  ///< estimate in [0, 1]
  std::optional<Duration> best;
  double gap = 1;
};

struct SearchControl {
  /// `effort` of a look beside the search itself: some tenths of a second.
  static constexpr std::int64_t of_a_look = 20'000'000;

  std::stop_token stop;  ///< Ctrl-C or a time limit: the best so far is returned, with its gap
  std::function<void(const SearchProgress&)> progress;
  std::string argument;  ///< what followed a colon in the strategy's name: a pattern
  int top = 1;           ///< how many plans to return
  int threads = 1;       ///< at most, 0: one for each core; the answer does not depend on it
  /// Only plans of at most this time matter: others may be left out as if they did not exist.
  std::optional<Duration> worth;
  std::optional<std::int64_t> effort;  ///< steps of the search, instead of as many as it likes
  bool explain = true;                 ///< if nothing fits, look for the reason and remedies
  bool thorough = false;               ///< spend more effort on tightening the bound
  bool only_scope = false;             ///< search only plans that the lower bound covers
  double gap = 0;                      ///< good enough: stop when the relative gap is at most this
};

}  // namespace stagecraft
