// Frameworks that carry plans out, and what each can express. `plan --for NAME` searches the plans
// of one; what it answers, `export` writes for it. To add a framework: write targets/NAME.cpp,
// declare its row here, and name it in targets.cpp.
//
// A row is about what the framework accepts, in the version that it names. What an exporter has to
// say of a single plan, it says itself (planner/interop/exporters.hpp): whatever a row allows, the
// exporter writes.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.hpp"

namespace stagecraft {

/// What rules of a framework's schedules speak of.
struct TargetPipeline {
  const ScheduleChoice& schedule;
  int devices = 1;       ///< of the pipeline, of one replica
  int microbatches = 1;  ///< of a step, on each replica
  Sharding sharding = Sharding::none;
  bool exchanges_beside = false;  ///< between experts that have peers, as `MessageOverlap::experts`
};

/// A framework in one version.
struct Target {
  std::string_view name;     ///< as in `--for NAME`
  std::string_view version;  ///< of the package, as in `--for NAME@VERSION`
  std::string_view system;   ///< in sentences
  std::string_view format;   ///< of `export`; empty where the plan itself is what it reads
  /// Of `schedule list`; empty: every one.
  std::span<const std::string_view> schedules = {};
  /// What all stages may do again, in the order in which the search tries them; empty: each stage,
  /// and each layer, what it likes.
  std::span<const RecomputeEverywhere> recompute = {};
  /// Every stage has as many replicas, which share each microbatch, and as many peers; ranks are
  /// numbered stage by stage, over whole nodes where they are on more than one.
  bool equal_stages = true;
  /// What is before the first transformer block is in one stage with or before it, and what is
  /// behind the last one is not divided.
  bool keeps_ends = false;
  bool predicts_last = false;  ///< modules of multi-token prediction are in one stage with the head
  bool only_transformers = false;
  bool trains = true;  ///< else it serves
  bool context_parallel = true, expert_parallel = true, sequence_parallel = true;
  bool experts_want_sequence_parallel = false;  ///< beside tensor parallelism
  bool gradient_buckets = false;                ///< sums of gradients beside the last backward
  bool empty_stages = false;
  std::span<const Sharding> sharding = {};         ///< over replicas
  std::span<const Precision> precision = {};       ///< of products
  std::span<const OptimizerKind> optimizers = {};  ///< empty: every one
  Framework kernels = Framework::megatron;         ///< of its layers
  bool dispatchers = false;                        ///< others of tokens than alltoall
  bool cuda_graphs = false;                        ///< of layers or of a step
  FusedLoss fused_loss = FusedLoss::none;          ///< the most fused one
  bool router_fusion = false;                      ///< experts are chosen by fused kernels
  bool overlaps = false;                           ///< peers' messages may run beside kernels
  bool recompute_modules = false;                  ///< selective recomputation does any again
  /// Why it does not have a transformer of this kind, behind its name: "has no …"; empty if it
  /// does. Null: it has every one.
  std::vector<std::string> (*against_model)(const Model& model) = nullptr;
  /// Why it does not divide the model's layers among so many tensor-parallel devices, a sentence;
  /// empty if it does. Null: it divides every one.
  std::string (*against_peers)(const Model& model, int peers) = nullptr;
  /// Why it does not run such a pipeline; empty if it does. Null: it runs every one.
  std::string (*refuses)(const TargetPipeline& pipeline) = nullptr;
};

extern const Target megatron_target, torchtitan_target, torch_target, torch_2_11_target,
    deepspeed_target, megatron_bridge_target, vllm_target, stagecraft_target;

/// All, as they are listed to people; of one name the newest version comes first.
std::span<const Target* const> targets();

/// The newest of each name.
std::vector<const Target*> newest_targets();

/// "megatron" (its newest version) or "torch@2.11". Throws Error (usage) with the known names or
/// versions.
const Target& find_target(std::string_view text);

/// "megatron@0.19.2".
std::string to_words(const Target& target);

/// Whether the framework has this schedule.
bool has_schedule(const Target& target, std::string_view name);

/// Why it does not run such a pipeline; empty if it does.
std::string refusal(const Target& target, const TargetPipeline& pipeline);

/// Why it does not have the model, behind its name; empty if it does, or if the model is no
/// transformer.
std::vector<std::string> reasons_against_model(const Target& target, const Model& model);

/// Why FSDP under torchtitan does not shard so: torch sums gradients of a pipeline once, behind its
/// last backward (torch/distributed/pipelining/stage.py), and without a pipeline in each microbatch
/// (torchtitan/trainer.py). Empty if it does.
std::string torchtitan_shards_otherwise(const TargetPipeline& pipeline);

/// Why our own executor does not carry the plan out: a sentence for each thing that stands in the
/// way.
std::vector<std::string> reasons_against_stagecraft(const Plan& plan, const Model& model);

}  // namespace stagecraft
