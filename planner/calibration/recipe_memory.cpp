// Memory of each stage: weights, sums of gradients and optimizer states as recipes keep them, and
// the activations of the microbatches in flight: p - s of 1F1B's, and with v chunks each as many as
// Megatron-LM warms up (2 (p - s - 1) + (v - 1) p + 1 chunks), and one more where a microbatch's
// forward goes beside another's backward. What is computed again is kept as its input, and exists
// once more while backward works on it.

#include <algorithm>
#include <set>
#include <utility>

#include "planner/calibration/recipe.hpp"
#include "profiles/error.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

/// Exchanges between experts are hidden by the next microbatch, which goes forward while the one
/// before it goes back: one more has been started (`combined_1f1b.py` and
/// `get_pp_rank_microbatches` of megatron/core/pipeline_parallel).
bool starts_one_more(const Recipe& recipe) {
  return recipe.overlapped_exchanges && recipe.transformer.experts &&
         recipe.work.expert_parallel > 1;
}

/// Chunks (of 1/v of a stage) whose activations are kept at most.
double chunks_in_flight(const Recipe& recipe, int stage) {
  const int after = recipe.pipeline - stage;
  const int more = starts_one_more(recipe) ? 1 : 0;
  if (recipe.virtual_stages == 1) return std::min(after + more, recipe.microbatches);
  const int warm = 2 * (after - 1) + (recipe.virtual_stages - 1) * recipe.pipeline + 1 + more;
  return std::min(warm, recipe.microbatches * recipe.virtual_stages);
}

struct StageSums {
  double weights = 0, expert_weights = 0;
  double kept = 0;           ///< of one microbatch
  double again = 0;          ///< the most a layer keeps while it is computed again
  double working = 0;        ///< the largest transient tensor
  double largest_layer = 0;  ///< weights of one
  std::set<std::pair<double, double>> weight_shapes;
};

class Memory {
 public:
  explicit Memory(const Recipe& recipe) : recipe_(recipe) {
    validate(recipe);
    if (!recipe.layers.empty()) {
      describe();
      return;
    }
    const auto& experts = recipe.transformer.experts;
    if (!experts || experts->dense_blocks > 0) block_ = operations(LayerKind::transformer);
    if (experts) expert_block_ = operations(LayerKind::expert_transformer);
    embedding_ = operations(LayerKind::embedding);
    head_ = operations(LayerKind::head);
    if (recipe.transformer.prediction_modules > 0) prediction_ = operations(LayerKind::prediction);
  }

  std::vector<StageMemory> stages() const {
    std::vector<StageMemory> result;
    int first = 0;
    const std::vector<int> blocks = stage_blocks(recipe_);
    for (int stage = 0; stage < recipe_.pipeline; ++stage) {
      const int count = blocks[static_cast<std::size_t>(stage)];
      result.push_back(of_stage(stage, first, count));
      first += count;
    }
    return result;
  }

  Bytes block_activations(int stage) const {
    StageSums sums;
    add_blocks(sums, 0, stage_blocks(recipe_).at(static_cast<std::size_t>(stage)));
    return static_cast<Bytes>(sums.kept * chunks_in_flight(recipe_, stage) /
                              recipe_.virtual_stages);
  }

 private:
  LayerOperations operations(LayerKind kind) const {
    return layer_operations(recipe_.transformer, kind, recipe_.work);
  }

  /// Layers that steps describe; those of the same steps are alike.
  void describe() {
    std::vector<const Layer*> known;
    for (const Layer& layer : recipe_.layers) {
      const auto operations = [&] {
        return layer_operations(recipe_.transformer, layer, recipe_.work);
      };
      if (layer.kind == LayerKind::embedding) embedding_ = operations();
      if (layer.kind == LayerKind::head) head_ = operations();
      if (layer.kind == LayerKind::prediction) prediction_ = operations();
      if (!is_block(layer)) continue;
      const auto found = std::ranges::find_if(known, [&](const Layer* other) {
        return other->kind == layer.kind && other->steps == layer.steps;
      });
      described_.push_back(static_cast<std::size_t>(found - known.begin()));
      if (found != known.end()) continue;
      known.push_back(&layer);
      alike_.push_back(operations());
    }
  }

  void add(StageSums& sums, const LayerOperations& layer, double times) const {
    if (times <= 0) return;
    const Recomputed recompute = recipe_.work.recompute;
    const auto kept = static_cast<double>(kept_bytes(layer, recompute, recipe_.again));
    const auto all = static_cast<double>(kept_bytes(layer, Recomputed::none));
    sums.weights += times * static_cast<double>(layer.weights);
    sums.expert_weights += times * static_cast<double>(layer.expert_weights);
    sums.kept += times * kept;
    sums.again = std::max(sums.again, all - kept);
    sums.working = std::max(sums.working, static_cast<double>(layer.working));
    sums.largest_layer = std::max(sums.largest_layer, static_cast<double>(layer.weights));
    add_weight_shapes(sums, layer);
  }

  static void add_weight_shapes(StageSums& sums, const LayerOperations& layer) {
    for (const Operation& operation : layer.operations) {
      const bool weight =
          operation.kind == OperationKind::product && operation.pass == Pass::backward_weight;
      if (weight) sums.weight_shapes.insert({operation.m, operation.n});
    }
  }

  Bytes stubs(const StageSums& sums) const {
    double elements = 0;
    for (const auto& [rows, columns] : sums.weight_shapes) elements += rows * columns;
    return recipe_.weight_stubs
               ? static_cast<Bytes>(elements) * element_bytes(recipe_.work.precision)
               : 0;
  }

  void add_blocks(StageSums& sums, int first, int count) const {
    if (!described_.empty()) {
      for (int block = first; block < first + count; ++block)
        add(sums, alike_[described_.at(static_cast<std::size_t>(block))], 1);
      return;
    }
    const auto& experts = recipe_.transformer.experts;
    const int dense =
        experts ? std::clamp(static_cast<int>(experts->dense_blocks) - first, 0, count) : count;
    add(sums, block_, dense);
    add(sums, expert_block_, count - dense);
  }

  /// The stage's weights, divided over the replicas of the dense and of the expert ones where they
  /// are `sharded`, in so many groups of them.
  double elements(const StageSums& sums, bool sharded, int groups = 1) const {
    if (!sharded) return sums.weights;
    const WorkSetting& work = recipe_.work;
    const double replicas =
        std::max(1.0, static_cast<double>(recipe_.data) * work.context_parallel / groups);
    const int expert_tensor =
        work.expert_tensor_parallel > 0 ? work.expert_tensor_parallel : work.tensor_parallel;
    const double expert_replicas =
        std::max(1.0, replicas * work.tensor_parallel / (work.expert_parallel * expert_tensor));
    return (sums.weights - sums.expert_weights) / replicas + sums.expert_weights / expert_replicas;
  }

  /// Weights that are whole for a while: of the layer at work and of the next, whose collection
  /// runs beside it, and gradients of the one at work before they are scattered.
  double whole_layers(const StageSums& sums) const {
    const auto element = static_cast<double>(element_bytes(recipe_.work.precision));
    double layers = recipe_.sharded_gradients || recipe_.sharded_parameters ? 1 : 0;
    if (recipe_.sharded_parameters) layers += 2;
    return layers * sums.largest_layer * element;
  }

  StageMemory of_stage(int stage, int first, int count) const {
    StageSums sums;
    add_blocks(sums, first, count);
    const double in_flight = chunks_in_flight(recipe_, stage) / recipe_.virtual_stages;
    const WorkSetting& work = recipe_.work;
    StageMemory memory;
    const bool last = stage == recipe_.pipeline - 1;
    double activations = sums.kept * in_flight, logits = 0;
    if (stage == 0) {
      sums.weights += static_cast<double>(embedding_.weights);
      sums.largest_layer = std::max(sums.largest_layer, static_cast<double>(embedding_.weights));
      activations += static_cast<double>(kept_bytes(embedding_, Recomputed::none)) * in_flight;
    }
    if (last) {
      // A tied projection on the embedding's own device is one tensor.
      const double tied =
          recipe_.pipeline == 1 && recipe_.transformer.tied_head
              ? static_cast<double>(tied_parameters(recipe_.transformer)) / work.tensor_parallel
              : 0.0;
      sums.weights += static_cast<double>(head_.weights) - tied;
      sums.largest_layer = std::max(sums.largest_layer, static_cast<double>(head_.weights));
      logits = static_cast<double>(kept_bytes(head_, Recomputed::none));
      sums.working = std::max(sums.working, static_cast<double>(head_.working));
      add_weight_shapes(sums, head_);
      const auto modules = static_cast<double>(recipe_.transformer.prediction_modules);
      add(sums, prediction_, modules);
      // What is predicted is looked up on the stage that predicts.
      if (modules > 0 && stage > 0) sums.weights += static_cast<double>(embedding_.weights);
      if (modules > 0)
        activations += static_cast<double>(kept_bytes(prediction_, work.recompute, recipe_.again));
    }
    const auto element = static_cast<double>(element_bytes(work.precision));
    const auto gradient = static_cast<double>(work.gradient_bytes);
    const bool all = recipe_.sharded_parameters;
    const bool gradients = all || recipe_.sharded_gradients;
    const bool states = gradients || recipe_.sharded_optimizer;
    memory.weights = static_cast<Bytes>(elements(sums, all) * element);
    memory.gradients = static_cast<Bytes>(elements(sums, gradients) * gradient);
    memory.optimizer = static_cast<Bytes>(elements(sums, states, recipe_.optimizer_instances) *
                                          recipe_.optimizer_bytes);
    memory.activations = static_cast<Bytes>(activations);
    memory.logits = static_cast<Bytes>(logits);
    memory.stubs = stubs(sums);
    memory.workspace = recipe_.workspace;
    // Recomputed tensors and the head's never exist at once.
    memory.working =
        static_cast<Bytes>(std::max(sums.working, sums.again - logits) + whole_layers(sums));
    return memory;
  }

  const Recipe& recipe_;
  LayerOperations embedding_, block_, expert_block_, prediction_, head_;
  std::vector<LayerOperations> alike_;  ///< of blocks that steps describe
  std::vector<std::size_t> described_;  ///< of each block, which of `alike_`
};

}  // namespace

std::vector<StageMemory> stage_memory(const Recipe& recipe) {
  return Memory(recipe).stages();
}

StageMemory peak_memory(const Recipe& recipe) {
  const std::vector<StageMemory> stages = stage_memory(recipe);
  return *std::ranges::max_element(stages, {}, &StageMemory::total);
}

// PyTorch's notes on CUDA, "cuBLAS workspaces": 8 MiB and 128 KiB for each handle and stream, 32
// MiB from Hopper on; ":4096:8" is 32 MiB everywhere. Transformer Engine's cpp_extensions/gemm.py:
// 4 MiB, 32 MiB from Hopper on.
Bytes product_workspace(std::string_view device, const ProductLibraries& libraries) {
  constexpr Bytes mebi = 1024LL * 1024;
  constexpr int threads = 2, streams = 4;
  bool before_hopper = false;
  for (const std::string_view kind : {"p100", "v100", "a100", "rtx4090"})
    before_hopper = before_hopper || device.starts_with(kind);
  const Bytes of_handle =
      before_hopper && !libraries.deterministic ? 8 * mebi + mebi / 8 : 32 * mebi;
  const Bytes of_engine = before_hopper ? 4 * mebi : 32 * mebi;
  Bytes sum = threads * of_handle;
  if (libraries.transformer_engine) sum += of_engine * (libraries.grouped ? 1 + streams : 1);
  return sum;
}

Bytes first_stage_activations(const Recipe& recipe) {
  return Memory(recipe).block_activations(0);
}

}  // namespace stagecraft
