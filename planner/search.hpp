// The planner's question and its answer.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "planner/plan.hpp"
#include "planner/predict.hpp"

namespace stagecraft {

/// A stage the user fixed: `--fix stage0.layers=0..4`.
struct FixedStage {
  int stage = 0;
  LayerRange layers;
};

/// The file MODEL names, for strategies that work on another planner's own figures.
struct SourceFile {
  std::string path;
  std::string content;  ///< empty for built-in models
};

struct Problem {
  std::string model_name;  ///< as given on the command line; goes into the plan
  std::string cluster_name;
  std::string profile_hash;
  Profile profile;
  /// Where the profile's layers are not in the model's own order (indices of the model's layers):
  /// theirs, which goes into the plan.
  std::vector<int> order;
  SourceFile source;
  Cluster cluster;
  Precision precision = Precision::float32;
  std::int64_t global_batch = 1;
  std::vector<std::int64_t> microbatches;  ///< microbatch sizes to try, each dividing global_batch
  std::int64_t sequence = 0;
  OptimizerChoice optimizer;
  std::vector<ScheduleChoice> schedules;  ///< to try
  std::vector<int> tensor_parallel{1};    ///< degrees to try, the same for all stages of a plan
  std::vector<Recompute> recompute{Recompute::none, Recompute::full};  ///< allowed per stage
  std::optional<int> devices;  ///< use the first so many of the cluster; default all
  std::optional<int> max_stages;
  int min_layers_per_stage = 1;
  bool straight = false;  ///< no replication
  std::vector<FixedStage> fixed;
  double memory_fraction = 1.0;   ///< of each device's memory that may be used
  bool use_fewer_devices = true;  ///< a plan on fewer devices is a candidate too
};

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

/// Nothing fits: why, and what would.
struct Infeasible {
  std::string reason;
  Bytes short_by = 0;  ///< of the closest plan's fullest device; 0 when memory is not the reason
  std::vector<std::string>
      remedies;  ///< each verified to make it fit, for example "--microbatch 1 (now 2)"
};

struct SearchResult {
  std::vector<Candidate> plans;  ///< best first; empty if infeasible
  std::optional<Infeasible> infeasible;
  std::string strategy;
  Duration lower_bound{0};
  double gap = 0;
  bool proved_optimal = false;
  /// Of which plans the bound speaks, where that is not all: for people. Empty: all.
  std::string scope;
  std::int64_t candidates = 0;  ///< simulated
  std::int64_t pruned = 0;      ///< discarded by their bound
  bool interrupted = false;
};

/// How far a search is, for a progress line.
struct SearchProgress {
  double done = 0;  ///< estimate in [0, 1]
  std::optional<Duration> best;
  double gap = 1;
};

struct SearchControl {
  std::stop_token stop;  ///< Ctrl-C or a time limit: the best so far is returned, with its gap
  std::function<void(const SearchProgress&)> progress;
  std::string argument;  ///< what followed a colon in the strategy's name: a pattern
  int top = 1;           ///< how many plans to return
  double gap = 0;        ///< good enough: stop when the relative gap is at most this
};

/// The usual choices a person would make — even split of the layers over all devices, pure data
/// parallelism, one device, what PipeDream's optimizer says if it is quick — scored by the same
/// evaluator.
std::vector<Candidate> usual_choices(const Problem& problem);

/// What limits the plan: the slowest stage, the fullest device, exposed transfers.
struct Binding {
  std::string what;   ///< "compute", "memory", "transfer", "replicas"
  std::string where;  ///< "stage 2", "device 0"
  std::string value;  ///< in words: what one more unit would bring
};
std::vector<Binding> binding(const Problem& problem, const Candidate& best);

}  // namespace stagecraft
