// Frameworks that run plans, and the plans that each can express. `plan --for NAME` searches the
// plans of one framework, and `export` writes its answer for it. To add a framework: write
// targets/NAME.cpp, declare its row here, and name it in targets.cpp.
//
// A row describes what the framework accepts, in the given version. The exporter can write every
// plan that the row allows; notes on a single plan are the exporter's
// (planner/interop/exporters.hpp).

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// The pipeline properties that a framework's rules depend on.
struct TargetPipeline {
  const ScheduleChoice& schedule;
  int devices = 1;       ///< pipeline devices of one replica
  int microbatches = 1;  ///< microbatches of a step on each replica
  Sharding sharding = Sharding::none;
  bool exchanges_beside = false;  ///< token exchanges overlap with another microbatch, as
                                  ///< `MessageOverlap::experts`
};

/// A framework in one version.
struct Target {
  std::string_view name;     ///< as in `--for NAME`
  std::string_view version;  ///< of the package, as in `--for NAME@VERSION`
  std::string_view system;   ///< the system's name in sentences
  std::string_view format;   ///< format of `export`; empty if the framework reads the plan itself
  /// Schedules that it has, by their names in `schedule list`; empty: all.
  std::span<const std::string_view> schedules = {};
  /// Recomputation that all stages share, in the order in which the search tries it; empty: each
  /// stage and each layer may differ.
  std::span<const RecomputeEverywhere> recompute = {};
  /// All stages have the same numbers of replicas and peers, and replicas share each microbatch.
  /// Ranks are numbered stage by stage, and fill whole nodes if there are several.
  bool equal_stages = true;
  /// Layers before the first transformer block are in its stage or in one stage before it, and
  /// layers after the last block are in one stage.
  bool keeps_ends = false;
  bool predicts_last = false;  ///< modules of multi-token prediction must be in the head's stage
  bool only_transformers = false;
  bool trains = true;  ///< false: it serves
  bool context_parallel = true, expert_parallel = true, sequence_parallel = true;
  bool experts_want_sequence_parallel = false;  ///< experts with tensor parallelism require
                                                ///< sequence parallelism
  bool gradient_buckets = false;                ///< overlaps sums of gradients with the last
                                                ///< backward
  bool empty_stages = false;
  std::span<const Sharding> sharding = {};         ///< ways of sharding over replicas
  std::span<const Precision> precision = {};       ///< precisions of matrix products
  std::span<const OptimizerKind> optimizers = {};  ///< empty: all
  Framework kernels = Framework::megatron;         ///< kernels of its layers
  bool dispatchers = false;                        ///< has token dispatchers other than alltoall
  bool cuda_graphs = false;                        ///< has CUDA graphs of layers or of a step
  FusedLoss fused_loss = FusedLoss::none;          ///< the most fused loss that it has
  bool router_fusion = false;                      ///< has fused kernels for routing
  bool overlaps = false;                           ///< can overlap messages of peers with kernels
  bool recompute_modules = false;                  ///< selective recomputation can repeat any
                                                   ///< module
  /// Reasons why it lacks such a transformer, to follow its name: "has no …"; empty if it has it.
  /// Null: it has all.
  std::vector<std::string> (*against_model)(const Model& model) = nullptr;
  /// The reason why it cannot divide the model's layers among `peers` tensor-parallel devices;
  /// empty if it can. Null: it always can.
  std::string (*against_peers)(const Model& model, int peers) = nullptr;
  /// The reason why it cannot run such a pipeline; empty if it can. Null: it always can.
  std::string (*refuses)(const TargetPipeline& pipeline) = nullptr;
};

extern const Target megatron_target, torchtitan_target, torch_target, torch_2_11_target,
    deepspeed_target, megatron_bridge_target, vllm_target, stagecraft_target;

/// All frameworks, in the order of lists; of one name, the newest version comes first.
std::span<const Target* const> targets();

/// The newest version of each name.
std::vector<const Target*> newest_targets();

/// "megatron" (its newest version) or "torch@2.11". Throws Error (usage) with the known names or
/// versions.
const Target& find_target(std::string_view text);

/// "megatron@0.19.2".
std::string to_words(const Target& target);

/// Whether the framework has this schedule.
bool has_schedule(const Target& target, std::string_view name);

/// The reason why the framework cannot run such a pipeline; empty if it can.
std::string refusal(const Target& target, const TargetPipeline& pipeline);

/// Reasons why the framework lacks the model, to follow its name; empty if it has it, or if the
/// model is not a transformer.
std::vector<std::string> reasons_against_model(const Target& target, const Model& model);

/// The reason why FSDP under torchtitan shards differently: torch sums gradients of a pipeline
/// once, after its last backward (torch/distributed/pipelining/stage.py), and without a pipeline in
/// each microbatch (torchtitan/trainer.py). Empty if it shards as asked.
std::string torchtitan_shards_otherwise(const TargetPipeline& pipeline);

/// The reasons why Stagecraft's own executor cannot run the plan, one sentence each.
std::vector<std::string> reasons_against_stagecraft(const Plan& plan, const Model& model);

}  // namespace stagecraft
