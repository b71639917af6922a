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

/// Recomputation that is the same in all stages of a plan, for frameworks with one setting for the
/// whole model.
enum class RecomputeEverywhere {
  none,
  selective,  ///< attention, in each transformer block (`Recomputed::selective`)
  blocks,     ///< each transformer block as a whole, one at a time
  layers,     ///< each layer as a whole, one at a time
  stages      ///< each stage as a whole
};
std::string_view to_string(RecomputeEverywhere what);
RecomputeEverywhere read_recompute_everywhere(std::string_view name);

/// Consecutive layers, with the devices that hold them and their recomputation.
struct Stage {
  LayerRange layers;
  std::vector<std::vector<int>>
      devices;  ///< per replica, its peers (cluster device numbers): tensor- times context-parallel
                ///< devices, with the tensor-parallel rank varying fastest
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
  std::int64_t sequence = 0;  ///< tokens per sample; 0 if samples are not sequences
  bool operator==(const Batch&) const = default;
};

/// The requests that a plan for inference serves. Prompts have `Batch::sequence` tokens.
struct Requests {
  std::int64_t output = 0;     ///< tokens generated per request; memory is reserved for them
  std::int64_t chunk = 8'192;  ///< maximum number of prompt tokens in a pass
  double memory = 1;           ///< fraction of each device's memory that is used, 0 to 1
  bool operator==(const Requests&) const = default;
};

struct ScheduleChoice {
  std::string name = "1f1b";
  int virtual_stages = 1;    ///< stages per pipeline device
  std::optional<int> group;  ///< see ScheduleShape
  int sequence_chunks = 1;   ///< pieces of each sequence, see ScheduleShape
  std::vector<int> warm_up;
  std::optional<int> pipes = {};  ///< model copies of bidirectional schedules, see ScheduleShape
  bool operator==(const ScheduleChoice&) const = default;
};

enum class OptimizerKind { adamw, sgd };
std::string_view to_string(OptimizerKind kind);
OptimizerKind read_optimizer_kind(std::string_view name);

struct OptimizerChoice {
  OptimizerKind kind = OptimizerKind::adamw;
  Sharding sharding = Sharding::none;
  /// Bytes of a gradient bucket: each bucket is summed once it is complete, during the last
  /// backward (exposed_sums.hpp). 0: all gradients are summed after it.
  Bytes gradient_bucket = 0;
  bool operator==(const OptimizerChoice&) const = default;
};

/// The simulator's prediction when the plan was made.
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

/// The objective of a search. All four follow from the step, so one search serves them; see
/// `objective.hpp`.
enum class ObjectiveKind {
  step,        ///< the shortest step
  throughput,  ///< the most samples per second; without a flush, in the steady state
  latency,     ///< inference: the shortest time until all requests of a batch have their first
               ///< token
  cost,        ///< the lowest price of a million tokens, or samples if there are no tokens
};
std::string_view to_string(ObjectiveKind kind);
/// Throws Error (usage) with the known names for an unknown one.
ObjectiveKind read_objective_kind(std::string_view name);

/// Degrees that are fixed for all stages of a plan.
struct PinnedDegrees {
  std::optional<int> pipeline;       ///< pipeline devices
  std::optional<int> replicas;       ///< replicas of each stage
  bool samples_per_replica = false;  ///< microbatch sizes are per replica only
  bool any() const { return pipeline || replicas || samples_per_replica; }
  bool operator==(const PinnedDegrees&) const = default;
};

/// Constraints on the plans that a search may choose, shared by problems and by the questions in
/// plan files.
struct Constraints {
  std::vector<std::int64_t> microbatches;  ///< sizes to try, each dividing the global batch
  /// Sizes are per pipeline replica. The plan's microbatch is their sum, so it need not be listed:
  /// 24 replicas of 1 sample make 24.
  bool microbatch_per_copy = false;
  std::vector<ScheduleChoice> schedules;  ///< schedules to try
  std::vector<int> tensor_parallel{1};    ///< degrees to try; stages may have their own
  std::vector<Recompute> recompute{Recompute::none, Recompute::full};  ///< allowed per stage
  /// Recomputation per layer that is allowed in stages that do not recompute as a whole; empty:
  /// none.
  std::vector<Recomputed> recompute_layers;
  /// If not empty, all stages recompute alike, in one of these ways, and `recompute` and
  /// `recompute_layers` are ignored. Several ways are searched one after another
  /// (planner/search/recompute_search.hpp).
  std::vector<RecomputeEverywhere> recompute_everywhere;
  std::optional<int> devices;  ///< use only this many of the cluster's first devices; default: all
  std::optional<int> max_stages;
  std::vector<int> excluded;     ///< devices of the cluster that no plan may use, ascending
  int min_layers_per_stage = 1;  ///< 0: stages between the first and the last one may be empty
  bool straight = false;         ///< no replication
  /// A pipeline of one device has a single stage, as in most frameworks.
  bool one_stage_alone = false;
  bool use_fewer_devices = true;  ///< a plan on fewer devices is a candidate too
  PinnedDegrees pinned;
  std::vector<FixedStage> fixed;
  ObjectiveKind objective = ObjectiveKind::step;
  bool operator==(const Constraints&) const = default;
};

/// The question that was asked, beyond what the plan itself says; with it the bound can be
/// verified.
struct Question : Constraints {
  std::string target;  ///< the framework that plans are for, "megatron@0.19.2"; empty: any
  /// Usable bytes of each of the cluster's device kinds; nothing: unlimited.
  std::vector<std::optional<Bytes>> memory;
  /// Sequence parallelism of stages with tensor parallelism.
  bool sequence_parallel = false;
  /// Context, expert and expert-tensor degrees that were searched; empty: only the plan's own.
  std::vector<Parallelism> parallelism;
  /// Ways of sharding states over replicas that were searched; empty: only the plan's own.
  std::vector<Sharding> sharding;
  bool operator==(const Question&) const = default;
};

/// How the plan was found.
struct SearchFigures {
  std::string strategy;
  Duration lower_bound{0};  ///< lower bound on all plans of the scope
  double gap = 0;           ///< (step - lower_bound) / step
  bool proved_optimal = false;
  std::int64_t candidates = 0;
  std::optional<Question> question;  ///< if the bound covers all plans that the question allows
  std::string scope = {};            ///< the plans that the bound covers, in words; empty: all
  bool operator==(const SearchFigures&) const = default;
};

struct Plan {
  std::string model;    ///< MODEL as given: a built-in name or a file
  std::string cluster;  ///< CLUSTER as given
  std::string profile;  ///< content hash of the profile that the plan was made with; empty for
                        ///< built-in models without measurements
  Precision precision = Precision::float32;
  LayerKernels kernels;  ///< kernels that estimated costs assume
  Batch batch;
  std::optional<Requests> requests;  ///< requests of a plan for inference; nothing: see
                                     ///< `requests_of`
  ScheduleChoice schedule;
  WeightPolicy weights = WeightPolicy::flush;
  ReplicaPolicy replicas = ReplicaPolicy::split;
  OptimizerChoice optimizer;
  Parallelism parallelism;  ///< degrees other than pipeline stages, replicas and tensor-parallel
                            ///< peers
  /// The indices of the model's layers in the order that the stages cut, if it is not the model's
  /// own: a stage of a branching model may then be any set of layers between two cuts of its graph.
  /// Empty: the model's order.
  std::vector<int> order;
  /// The stages, in the order of layers. Stage s stands on pipeline device s mod p (or as the
  /// schedule places it), p = stages / virtual_stages; stages of one pipeline device name the same
  /// devices. For a schedule with several model copies, these are the stages of the first copy; the
  /// others hold the same layers on the same devices in another order, which the schedule defines.
  std::vector<Stage> stages;
  std::optional<PredictedFigures> predicted;
  std::optional<SearchFigures> search;
  bool operator==(const Plan&) const = default;
};

/// The profile with its layers in the plan's order. Throws Error (input) unless the order names
/// each layer once, after all of its inputs.
Profile in_plan_order(const Profile& profile, const Plan& plan);

/// The model is in the plan's order. Throws Error (input) unless the stages cover layers
/// 0..layers-1 in order, no device is used by two pipeline devices, the devices exist in the
/// cluster, batch figures multiply up, and the schedule accepts the shape. The sentence names stage
/// and layer: "stage 1 starts at layer 8 but stage 0 ends at layer 7: layer 7 would never be
/// trained; 27 of 28 layers are placed".
void validate(const Plan& plan, const Model& model, const Cluster& cluster);

/// Tensor-parallel degree of a replica with `peers` devices.
inline int tensor_degree(const Parallelism& parallelism, std::size_t peers) {
  return static_cast<int>(peers) / parallelism.context;
}
/// The highest tensor-parallel degree of any replica.
int tensor_degree(const Plan& plan);
/// Whether token exchanges between experts on several devices overlap with another microbatch's
/// work.
bool exchanges_beside(const Plan& plan);
/// Whether any layer recomputes selectively.
bool recomputes_selectively(const Plan& plan);
/// The modules that selective recomputation repeats; none if no layer recomputes selectively.
LayerModules modules_again(const Plan& plan);

/// Whether the plan serves requests, without a backward; else it trains.
bool serves(const Plan& plan);
/// The plan's requests; if it has none, prompts without output, in chunks of the default size.
Requests requests_of(const Plan& plan);

/// Pipeline devices, p.
int pipeline_devices(const Plan& plan);
/// Replicas of each stage.
std::vector<int> replicas_of_stages(const Plan& plan);
/// The shape of the plan's schedule; if the plan gives no warm-up, with that of its schedule and
/// replicas.
ScheduleShape shape_of(const Plan& plan);
/// Cluster device numbers the plan uses, ascending.
std::vector<int> used_devices(const Plan& plan);
/// The first peer of each replica, ascending. Program device i stands for the i-th of them and its
/// peers, which work identically.
std::vector<int> lead_devices(const Plan& plan);

// stagecraft-plan/1; the annotated example opens plan_json.cpp.
Plan read_plan(const class Json& json);
std::string write_plan(const Plan& plan);

}  // namespace stagecraft
