// A plan: which layers form each stage, which devices run it, and in what order they work.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiles/cluster.hpp"
#include "profiles/parallelism.hpp"
#include "profiles/profile.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// The layers [first, end) of a model.
struct LayerRange {
  int first = 0;
  int end = 0;
  int size() const { return end - first; }
  bool operator==(const LayerRange&) const = default;
};

/// What all stages of a plan do again, for frameworks that know one answer for all.
enum class RecomputeEverywhere {
  none,
  selective,  ///< each transformer block its attention (`Recomputed::selective`)
  blocks,     ///< each transformer block all of itself, by itself
  layers,     ///< each layer all of itself, by itself
  stages      ///< each stage as a whole
};
std::string_view to_string(RecomputeEverywhere what);
RecomputeEverywhere read_recompute_everywhere(std::string_view name);

/// Consecutive layers, and the devices that hold them.
struct Stage {
  LayerRange layers;
  std::vector<std::vector<int>>
      devices;  ///< replicas, each a list of peers (cluster device numbers): tensor- times
                ///< context-parallel ones, tensor fastest
  Recompute recompute = Recompute::none;
  /// Recomputation per layer, done just before its backward. Empty: none. Only for a stage that
  /// does not recompute as a whole.
  std::vector<Recomputed> again = {};
  bool operator==(const Stage&) const = default;
};

/// Samples per step; global = microbatch * microbatches, over all replicas.
struct Batch {
  std::int64_t global = 1;
  std::int64_t microbatch = 1;
  int microbatches = 1;
  std::int64_t sequence = 0;  ///< tokens per sample; 0 where samples are not sequences
  bool operator==(const Batch&) const = default;
};

/// What a plan for inference answers, and how. Prompts are of `Batch::sequence` tokens.
struct Requests {
  std::int64_t output = 0;     ///< tokens made for each, which it has room for
  std::int64_t chunk = 8'192;  ///< tokens of prompts that a pass computes at most
  double memory = 1;           ///< part of each device's memory that is used, 0 to 1
  bool operator==(const Requests&) const = default;
};

struct ScheduleChoice {
  std::string name = "1f1b";
  int virtual_stages = 1;    ///< stages per pipeline device
  std::optional<int> group;  ///< see ScheduleShape
  int sequence_chunks = 1;   ///< pieces of each sequence, see ScheduleShape
  std::vector<int> warm_up;
  std::optional<int> pipes = {};  ///< copies of the model, see ScheduleShape
  bool operator==(const ScheduleChoice&) const = default;
};

enum class OptimizerKind { adamw, sgd };
std::string_view to_string(OptimizerKind kind);
OptimizerKind read_optimizer_kind(std::string_view name);

struct OptimizerChoice {
  OptimizerKind kind = OptimizerKind::adamw;
  Sharding sharding = Sharding::none;
  /// Gradients are summed while the last backward goes on, as soon as so many bytes of them are
  /// complete (exposed_sums.hpp); 0: behind it.
  Bytes gradient_bucket = 0;
  bool operator==(const OptimizerChoice&) const = default;
};

/// What the simulator said when the plan was made.
struct PredictedFigures {
  Duration step{0};
  double bubble = 0;
  std::vector<Bytes> peak_memory;  ///< per used device, in device order
  bool operator==(const PredictedFigures&) const = default;
};

/// A stage the user fixed: `--fix stage0.layers=0..4`.
struct FixedStage {
  int stage = 0;
  LayerRange layers;
  bool operator==(const FixedStage&) const = default;
};

/// What the best plan has most or least of. Steps stand for all four, so one search serves them;
/// see `objective.hpp`.
enum class ObjectiveKind {
  step,        ///< the shortest step
  throughput,  ///< the most samples per second; without a flush, in the steady state
  latency,     ///< of inference: the shortest time until all of a batch have their first token
  cost,        ///< the lowest price of a million tokens, or samples where there are no tokens
};
std::string_view to_string(ObjectiveKind kind);
/// Throws Error (usage) with the known names.
ObjectiveKind read_objective_kind(std::string_view name);

/// Degrees that all stages of a plan must have alike.
struct PinnedDegrees {
  std::optional<int> pipeline;       ///< pipeline devices
  std::optional<int> replicas;       ///< of each stage
  bool samples_per_replica = false;  ///< microbatch sizes are of each replica, and no others
  bool any() const { return pipeline || replicas || samples_per_replica; }
  bool operator==(const PinnedDegrees&) const = default;
};

/// Which plans a search may choose: what a problem and the question in a plan's file have in
/// common.
struct Constraints {
  std::vector<std::int64_t> microbatches;  ///< sizes to try, each dividing the global batch
  /// Sizes are per pipeline replica. The plan's microbatch is their sum, so it need not be listed:
  /// 24 replicas of 1 sample make 24.
  bool microbatch_per_copy = false;
  std::vector<ScheduleChoice> schedules;  ///< to try
  std::vector<int> tensor_parallel{1};    ///< degrees to try; stages may have their own
  std::vector<Recompute> recompute{Recompute::none, Recompute::full};  ///< allowed per stage
  /// What each layer of a stage that does not recompute as a whole may do by itself; empty:
  /// nothing.
  std::vector<Recomputed> recompute_layers;
  /// Of these, what all stages do alike; `recompute` and `recompute_layers` say nothing then.
  /// Empty: each stage what it likes. More than one are searched one after another
  /// (planner/search/recompute_search.hpp).
  std::vector<RecomputeEverywhere> recompute_everywhere;
  std::optional<int> devices;  ///< use the first so many of the cluster; default all
  std::optional<int> max_stages;
  std::vector<int> excluded;     ///< devices of the cluster that no plan may use, ascending
  int min_layers_per_stage = 1;  ///< 0: stages between the first and the last one may be empty
  bool straight = false;         ///< no replication
  /// A pipeline of one device has one stage, as frameworks have it.
  bool one_stage_alone = false;
  bool use_fewer_devices = true;  ///< a plan on fewer devices is a candidate too
  PinnedDegrees pinned;
  std::vector<FixedStage> fixed;
  ObjectiveKind objective = ObjectiveKind::step;
  bool operator==(const Constraints&) const = default;
};

/// What was asked, as far as the plan does not say it: with it anybody can verify the bound.
struct Question : Constraints {
  std::string target;  ///< the framework that plans are for, "megatron@0.19.2"; empty: any
  /// Bytes that may be used of each of the cluster's device kinds; nothing: unlimited.
  std::vector<std::optional<Bytes>> memory;
  /// With tensor parallelism.
  bool sequence_parallel = false;
  /// Context, expert and expert-tensor degrees; empty: the plan's own, which were given.
  std::vector<Parallelism> parallelism;
  /// How states are sharded over replicas; empty: as the plan's are, which was given.
  std::vector<Sharding> sharding;
  bool operator==(const Question&) const = default;
};

/// How the plan was found.
struct SearchFigures {
  std::string strategy;
  Duration lower_bound{0};  ///< no plan of the searched space is faster
  double gap = 0;           ///< (step - lower_bound) / step
  bool proved_optimal = false;
  std::int64_t candidates = 0;
  std::optional<Question> question;  ///< of searches whose bound speaks of all it allows
  std::string scope = {};            ///< the plans that the bound speaks of; empty: all
  bool operator==(const SearchFigures&) const = default;
};

struct Plan {
  std::string model;    ///< MODEL as given: a built-in name or a file
  std::string cluster;  ///< CLUSTER as given
  std::string profile;  ///< content hash of the profile it was made with; empty for built-in models
                        ///< without measurements
  Precision precision = Precision::float32;
  LayerKernels kernels;  ///< of layers whose costs are estimated
  Batch batch;
  std::optional<Requests> requests;  ///< of inference; nothing: see `requests_of`
  ScheduleChoice schedule;
  WeightPolicy weights = WeightPolicy::flush;
  ReplicaPolicy replicas = ReplicaPolicy::split;
  OptimizerChoice optimizer;
  Parallelism parallelism;  ///< beside pipelines, replicas and tensor-parallel peers
  /// The model's layers (their indices) in the order that the stages below cut, where it is not the
  /// model's own: a stage of a branching model may then be any set of layers between two cuts of
  /// its graph. Empty: the model's order.
  std::vector<int> order;
  /// In that order. Stage s stands on pipeline device s mod p (placement of the schedule), p =
  /// stages / virtual_stages; stages of one pipeline device name the same devices. Of a schedule
  /// that trains several copies of the model these are the stages of the first; the others hold the
  /// same layers on the same devices in another order, which the schedule lays down.
  std::vector<Stage> stages;
  std::optional<PredictedFigures> predicted;
  std::optional<SearchFigures> search;
  bool operator==(const Plan&) const = default;
};

/// The profile with its layers in the plan's order. Throws Error (input) unless the order names
/// each layer once and after all that it reads from.
Profile in_plan_order(const Profile& profile, const Plan& plan);

/// The model is in the plan's order. Throws Error (input) unless the stages cover layers
/// 0..layers-1 in order, no device is used by two pipeline devices, the devices exist in the
/// cluster, batch figures multiply up, and the schedule accepts the shape. The sentence names stage
/// and layer: "stage 1 starts at layer 8 but stage 0 ends at layer 7: layer 7 would never be
/// trained; 27 of 28 layers are placed".
void validate(const Plan& plan, const Model& model, const Cluster& cluster);

/// Tensor-parallel peers of a replica with so many devices.
inline int tensor_degree(const Parallelism& parallelism, std::size_t peers) {
  return static_cast<int>(peers) / parallelism.context;
}
/// The most of any replica.
int tensor_degree(const Plan& plan);
/// Whether exchanges between experts on several devices run beside another microbatch's work.
bool exchanges_beside(const Plan& plan);
/// Whether any layer recomputes selectively.
bool recomputes_selectively(const Plan& plan);
/// Modules that it does again there; none where no layer recomputes selectively.
LayerModules modules_again(const Plan& plan);

/// Whether it answers requests, without a backward; else it trains.
bool serves(const Plan& plan);
/// What it says of requests; else prompts alone, in chunks as usual.
Requests requests_of(const Plan& plan);

/// Pipeline devices, p.
int pipeline_devices(const Plan& plan);
/// Replicas of each stage.
std::vector<int> replicas_of_stages(const Plan& plan);
/// Where the plan leaves the warm-up out, that of its schedule and its replicas.
ScheduleShape shape_of(const Plan& plan);
/// Cluster device numbers the plan uses, ascending.
std::vector<int> used_devices(const Plan& plan);
/// The first of each replica's peers, ascending. Program device i stands for the
/// i-th of them and its peers, which do the same at the same time.
std::vector<int> lead_devices(const Plan& plan);

// stagecraft-plan/1; the annotated example opens plan_json.cpp.
Plan read_plan(const class Json& json);
std::string write_plan(const Plan& plan);

}  // namespace stagecraft
