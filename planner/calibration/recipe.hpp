// A training run as papers and launch scripts describe it, with its predicted step: the closed form
// of a flushed pipeline over the costs of operations. A hundred thousand recipes take a second.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/kernel_times.hpp"
#include "profiles/model.hpp"

namespace stagecraft {

/// Inside a node, and of one of its network ports.
struct RecipeLinks {
  Link inside, between;
  int rails = 1;
  bool operator==(const RecipeLinks&) const = default;
};

/// `work` holds the degrees of the layers' own parallelism; the world is pipeline x data x tensor x
/// context devices, tensor fastest, pipeline slowest (Megatron-LM's order).
struct Recipe {
  Transformer transformer;
  int blocks = 1;
  /// The model's layers where steps describe them (`has_steps`), `blocks` blocks among them; empty
  /// where `transformer` says it all.
  std::vector<Layer> layers;
  std::string device = "a100-80gb";
  int devices_per_node = 8;
  /// Links of the cluster where the run says them; else those usual of the device kind.
  std::optional<RecipeLinks> links;
  int pipeline = 1;
  int virtual_stages = 1;
  int data = 1;
  int microbatches = 1;  ///< microbatches of each replica, per step
  WorkSetting work;
  bool sharded_optimizer = false;  ///< ZeRO-1: states and updates are divided over replicas
  int optimizer_instances = 1;     ///< groups of replicas, each of which has all states
  /// ZeRO-2: sums of gradients, too, so that each microbatch's are scattered over the replicas.
  bool sharded_gradients = false;
  /// ZeRO-3: weights, too; a block's are collected before its forward and again before its
  /// backward, the next block's meanwhile.
  bool sharded_parameters = false;
  bool overlapped_gradients = false;
  /// The replicas' updated shards of the weights are collected during the forward of the next
  /// step's first microbatch.
  bool overlapped_parameters = false;
  bool overlapped_messages = false;  ///< messages of tensor-parallel peers overlap with the
                                     ///< products
  /// Between experts, with another microbatch's work (--overlap-moe-expert-parallel-comm).
  bool overlapped_exchanges = false;
  CudaGraphs graphs = CudaGraphs::none;
  LayerModules again;  ///< recomputed modules of each layer, beside `work.recompute`
  /// Between stages, with other chunks' work; while the pipeline fills there is none.
  bool overlapped_transfers = false;
  /// Weights of blocks are collected in 8 bits (--fp8-param-gather); embedding and head stay in
  /// their compute precision.
  bool float8_gathers = false;
  bool scatter_gather = false;  ///< tensor-parallel peers each send a part to the next stage
  int first_stage_blocks = 0;   ///< 0: even
  int last_stage_blocks = 0;
  /// Blocks of each stage where a layout has them, whatever the two above say; empty: no layout.
  std::vector<int> layout;
  /// Weight gradients are summed by the product itself, and an empty one of each shape stands for
  /// what the framework expects (Transformer Engine).
  bool weight_stubs = false;
  int optimizer_bytes = 12;  ///< per parameter: master weights and two moments
  Bytes workspace = 0;       ///< workspace kept by matrix product libraries (see
                             ///< `product_workspace`)
  bool operator==(const Recipe&) const = default;
};

/// Throws Error (input) unless degrees are positive and there is a block for each stage.
void validate(const Recipe& recipe);

/// Devices that the recipe runs on.
int device_count(const Recipe& recipe);

/// Blocks of each stage (all its virtual ones together).
std::vector<int> stage_blocks(const Recipe& recipe);
/// Where the stages can only be even if the embedding and the head count as a block each (126
/// blocks over 16 x 8 stages; --account-for-embedding-in-pipeline-split and
/// --account-for-loss-in-pipeline-split of Megatron-LM), they do. Whether that was so.
bool count_ends_as_blocks(Recipe& recipe);
/// Where blocks cannot be shared out evenly (61 over 4 x 4 stages), a run has a layout, and who
/// writes one makes the slowest stage as quick as can be: so does `recipe.layout` afterwards. Says
/// whether that was so; not where blocks are even, or stages are told.
bool balance_stages(Recipe& recipe, const KernelConstants& constants);
/// Prefix sums of the blocks' seconds per microbatch, from none on, with the embedding before the
/// first and the head after the last.
std::vector<double> block_sums(Recipe recipe, const KernelConstants& constants);

/// A step in seconds, by causes; `messages` and `shards` are parts of `work`, the others sum to
/// `step`.
struct StepSeconds {
  double step = 0;
  double work = 0;       ///< time of the slowest stage, with the collectives of its layers
  double messages = 0;   ///< part of `work` in those collectives
  double fill = 0;       ///< filling and draining the pipeline
  double transfers = 0;  ///< between stages
  double shards = 0;     ///< part of `work` for collecting weights and scattering gradients
                         ///< (ZeRO-2, 3)
  double gradients = 0;  ///< sums and collections over replicas that nothing hides
  double update = 0;
  double other = 0;
  double waits = 0;  ///< for the slowest node
};
/// `factor` corrects the time of the blocks, where it is known from measurements.
StepSeconds step_seconds(const Recipe& recipe, const KernelConstants& constants, double factor = 1);

/// Peak bytes on a device of each stage, by category.
struct StageMemory {
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer = 0;
  Bytes activations = 0;  ///< kept for microbatches in flight
  Bytes logits = 0;       ///< the head's tensors that exist once
  Bytes working = 0;      ///< transient: gradients of activations, what is computed again
  Bytes stubs = 0;        ///< see `Recipe::weight_stubs`
  Bytes workspace = 0;    ///< see `Recipe::workspace`
  Bytes total() const {
    return weights + gradients + optimizer + activations + logits + working + stubs + workspace;
  }
};
std::vector<StageMemory> stage_memory(const Recipe& recipe);
/// Of them, the heaviest stage's.
StageMemory peak_memory(const Recipe& recipe);

/// What PyTorch's cuBLAS keeps for the threads of forward and of backward, and Transformer Engine
/// beside it, once more for each of its four streams where products are `grouped`. CUDA's own
/// default, larger from Hopper on, unless `deterministic` sets CUBLAS_WORKSPACE_CONFIG.
struct ProductLibraries {
  bool transformer_engine = true;
  bool grouped = false;
  bool deterministic = false;
};
Bytes product_workspace(std::string_view device, const ProductLibraries& libraries);

/// Bytes of activations the first stage keeps, without the heads of the model: what Korthikanti et
/// al. 2022 tabulate.
Bytes first_stage_activations(const Recipe& recipe);

}  // namespace stagecraft
