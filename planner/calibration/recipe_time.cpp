// The step of 1F1B with m microbatches on p stages of v chunks (Narayanan et al. 2021, section 2):
// the slowest stage works m times, and the pipeline fills and drains past the others, 1/v of their
// work for each. Embedding and head belong to the first and last stage and are not 1/v.

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>

#include "planner/calibration/recipe.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

/// Devices of a group whose members are `stride` apart, in nodes.
GroupPlace place_of(int members, int stride, int node, const KindLinks& links) {
  const int in_node = std::max(1, std::min(members, node / std::max(1, stride)));
  return {.members = members,
          .in_node = in_node,
          .inside = links.inside,
          .between = links.between,
          .rails = links.rails};
}

KindLinks links_of(const Recipe& recipe) {
  KindLinks links = builtin_links(recipe.device);
  if (recipe.links) {
    links.inside = recipe.links->inside;
    links.between = recipe.links->between;
    links.rails = recipe.links->rails;
  }
  return links;
}

KernelSetting setting_of(const Recipe& recipe, const KernelConstants& constants) {
  const DeviceKind kind = builtin_device_kind(recipe.device);
  const KindLinks links = links_of(recipe);
  const WorkSetting& work = recipe.work;
  const int node = recipe.devices_per_node;
  const int tensor = work.tensor_parallel;
  const int expert_tensor = work.expert_tensor_parallel > 0 ? work.expert_tensor_parallel : tensor;
  KernelSetting setting = kernel_setting(kind, work.precision, recipe.graphs);
  setting.constants = constants;
  setting.tensor = place_of(tensor, 1, node, links);
  setting.context = place_of(work.context_parallel, tensor, node, links);
  setting.expert = place_of(work.expert_parallel, expert_tensor, node, links);
  setting.expert_tensor = place_of(expert_tensor, 1, node, links);
  setting.overlapped_messages = recipe.overlapped_messages && work.sequence_parallel;
  setting.overlapped_exchanges = recipe.overlapped_exchanges;
  setting.again = recipe.again;
  return setting;
}

/// Seconds and sizes of each kind of layer that the recipe has.
struct LayerTable {
  struct Row {
    LayerSeconds seconds;
    double weights = 0, expert_weights = 0;
    double collected = 0;                  ///< bytes, where its replicas collect weights
    double update = 0, expert_update = 0;  ///< of all of it on one device
  };
  Row embedding, block, expert_block, prediction, head;
};

/// Bytes of an element of the blocks' weights that replicas collect.
double collected_element(const Recipe& recipe) {
  const bool narrow = recipe.float8_gathers && is_float8(recipe.work.precision);
  return narrow ? 1.0 : static_cast<double>(element_bytes(recipe.work.precision));
}

LayerTable::Row row_of(const Recipe& recipe, LayerKind kind, const LayerOperations& layer,
                       const KernelSetting& setting) {
  // The head and its loss are outside of what checkpoints cover.
  const bool ends = kind == LayerKind::embedding || kind == LayerKind::head;
  const Recomputed recompute = ends ? Recomputed::none : recipe.work.recompute;
  const auto weights = static_cast<double>(layer.weights);
  const auto expert_weights = static_cast<double>(layer.expert_weights);
  const double traffic =
      update_traffic(recipe.optimizer_bytes, static_cast<double>(recipe.work.gradient_bytes),
                     static_cast<double>(element_bytes(recipe.work.precision)));
  const double rate = setting.memory_bandwidth * setting.constants.update_rate;
  const auto element = static_cast<double>(element_bytes(recipe.work.precision));
  return {.seconds = layer_seconds(layer, recompute, setting),
          .weights = weights,
          .expert_weights = expert_weights,
          .collected = weights * (ends ? element : collected_element(recipe)),
          .update = weights * traffic / rate,
          .expert_update = expert_weights * traffic / rate};
}

LayerTable::Row row_of(const Recipe& recipe, LayerKind kind, const KernelSetting& setting) {
  return row_of(recipe, kind, layer_operations(recipe.transformer, kind, recipe.work), setting);
}

LayerTable table_of(const Recipe& recipe, const KernelSetting& setting) {
  LayerTable table;
  table.embedding = row_of(recipe, LayerKind::embedding, setting);
  table.head = row_of(recipe, LayerKind::head, setting);
  const auto& experts = recipe.transformer.experts;
  if (!experts || experts->dense_blocks > 0)
    table.block = row_of(recipe, LayerKind::transformer, setting);
  if (experts) table.expert_block = row_of(recipe, LayerKind::expert_transformer, setting);
  if (recipe.transformer.prediction_modules > 0)
    table.prediction = row_of(recipe, LayerKind::prediction, setting);
  return table;
}

/// What a stage does for one microbatch, and holds.
struct StageWork {
  double seconds = 0;
  double messages = 0;
  double backward = 0;
  double shards = 0;  ///< ZeRO-2 and 3: messages that nothing hides
  double weights = 0, expert_weights = 0;
  double collected = 0;  ///< see LayerTable::Row
  double update = 0, expert_update = 0;

  void add(const LayerTable::Row& row, double times, double factor = 1) {
    const LayerSeconds& each = row.seconds;
    seconds += times * factor * (each.forward + each.recompute + each.backward());
    backward += times * factor * (each.recompute + each.backward());
    messages += times * factor * each.messages;
    weights += times * row.weights;
    expert_weights += times * row.expert_weights;
    collected += times * row.collected;
    update += times * row.update;
    expert_update += times * row.expert_update;
  }
};

/// Of layers that steps describe. Those of the same steps cost the same.
std::vector<StageWork> described_stages(const Recipe& recipe, const KernelSetting& setting,
                                        double factor) {
  std::vector<std::pair<const Layer*, LayerTable::Row>> known;
  const auto row = [&](const Layer& layer) -> const LayerTable::Row& {
    for (const auto& [other, of_other] : known) {
      if (other->kind == layer.kind && other->steps == layer.steps) return of_other;
    }
    const LayerOperations operations = layer_operations(recipe.transformer, layer, recipe.work);
    return known.emplace_back(&layer, row_of(recipe, layer.kind, operations, setting)).second;
  };
  std::vector<StageWork> stages(static_cast<std::size_t>(recipe.pipeline));
  std::size_t stage = 0;
  const std::vector<int> blocks = stage_blocks(recipe);
  int left = blocks.front();
  for (const Layer& layer : recipe.layers) {
    if (!is_block(layer)) {
      (layer.kind == LayerKind::embedding ? stages.front() : stages.back()).add(row(layer), 1);
      continue;
    }
    while (left == 0) left = blocks.at(++stage);
    stages[stage].add(row(layer), 1, factor);
    --left;
  }
  return stages;
}

std::vector<StageWork> stages_of(const Recipe& recipe, const KernelSetting& setting,
                                 double factor) {
  if (!recipe.layers.empty()) return described_stages(recipe, setting, factor);
  const LayerTable table = table_of(recipe, setting);
  std::vector<StageWork> stages;
  int block = 0;
  const auto& experts = recipe.transformer.experts;
  for (const int blocks : stage_blocks(recipe)) {
    StageWork stage;
    const int first = block;
    block += blocks;
    const int dense =
        experts ? std::clamp(static_cast<int>(experts->dense_blocks) - first, 0, blocks) : blocks;
    stage.add(table.block, dense, factor);
    stage.add(table.expert_block, blocks - dense, factor);
    stages.push_back(stage);
  }
  stages.front().add(table.embedding, 1);
  stages.back().add(table.prediction, static_cast<double>(recipe.transformer.prediction_modules));
  stages.back().add(table.head, 1);
  return stages;
}

/// One message between neighbouring stages.
double transfer_seconds(const Recipe& recipe, const KernelSetting& setting) {
  const WorkSetting& work = recipe.work;
  const int stride = work.tensor_parallel * work.context_parallel * recipe.data;
  const bool inside = stride < recipe.devices_per_node;
  const KernelConstants& constants = setting.constants;
  const double tokens = static_cast<double>(work.microbatch) * static_cast<double>(work.sequence) /
                        work.context_parallel;
  double bytes = tokens * static_cast<double>(recipe.transformer.hidden) *
                 static_cast<double>(element_bytes(work.precision));
  if (work.sequence_parallel || recipe.scatter_gather) bytes /= work.tensor_parallel;
  const double rate =
      inside ? constants.inside_rate *
                   static_cast<double>(setting.tensor.inside.point_to_point.bytes_per_second)
             : constants.between_rate *
                   static_cast<double>(setting.tensor.between.point_to_point.bytes_per_second);
  return constants.transfer_seconds + bytes / rate;
}

/// A collective over a stage's replicas, of so many bytes, some of them experts', which have
/// replicas of their own.
double over_replicas(OperationKind kind, double bytes, double of_experts, const Recipe& recipe,
                     const KernelSetting& setting) {
  const WorkSetting& work = recipe.work;
  const int replicas = recipe.data * work.context_parallel;
  const int tensor = work.tensor_parallel;
  const KindLinks links{setting.tensor.inside, setting.tensor.between, setting.tensor.rails};
  const GroupPlace place = place_of(replicas, tensor, recipe.devices_per_node, links);
  double seconds = collective_seconds(kind, bytes - of_experts, place, setting.constants);
  const int expert_replicas =
      std::max(1, replicas * tensor / (work.expert_parallel * setting.expert_tensor.members));
  const GroupPlace experts =
      place_of(expert_replicas, work.expert_parallel * setting.expert_tensor.members,
               recipe.devices_per_node, links);
  if (of_experts > 0) seconds += collective_seconds(kind, of_experts, experts, setting.constants);
  return seconds;
}

/// Sums of the stage's gradients.
double summing_seconds(OperationKind kind, const Recipe& recipe, const StageWork& stage,
                       const KernelSetting& setting) {
  const auto each = static_cast<double>(recipe.work.gradient_bytes);
  return over_replicas(kind, stage.weights * each, stage.expert_weights * each, recipe, setting);
}

/// Of its weights, in the precision of training or in 8 bits.
double collecting_seconds(const Recipe& recipe, const StageWork& stage,
                          const KernelSetting& setting) {
  const double of_experts = stage.expert_weights * collected_element(recipe);
  return over_replicas(OperationKind::all_gather, stage.collected, of_experts, recipe, setting);
}

/// Of messages that have so much work beside them: what is longer than that, and what the work
/// loses to what is hidden, since both need memory and multiprocessors.
double exposed(double seconds, double work, const KernelSetting& setting) {
  const double hidden = std::min(seconds, work);
  return seconds - hidden + setting.rates.contention * hidden;
}

/// How many microbatches' passes a stage's messages to its replicas run beside: those of a chunk
/// start with its own last backward (collect for its own first forward), and before the next
/// chunk's turn each microbatch of a group, of as many as there are stages, passes the chunk
/// (`grad_sync_func`, `param_sync_func` in megatron/core/pipeline_parallel/schedules.py).
double microbatches_beside(const Recipe& recipe) {
  const double group = std::min(recipe.microbatches, recipe.pipeline);
  const double chunks = recipe.virtual_stages;
  return (group * (chunks - 1) + 1) / chunks;
}

/// The sum of a stage's gradients over its replicas, as far as backward does not hide it; a sharded
/// optimizer needs its own part of it alone. ZeRO-2 and 3 scatter with each microbatch.
double gradient_seconds(const Recipe& recipe, const StageWork& stage,
                        const KernelSetting& setting) {
  if (recipe.sharded_gradients || recipe.sharded_parameters) return 0;
  const OperationKind kind =
      recipe.sharded_optimizer ? OperationKind::reduce_scatter : OperationKind::all_reduce;
  const double hidden = recipe.overlapped_gradients
                            ? setting.constants.overlap * stage.backward * recipe.microbatches
                            : 0.0;
  return exposed(summing_seconds(kind, recipe, stage, setting), hidden, setting);
}

/// After a sharded update each replica collects the others' weights; where that overlaps, the
/// forward of the next step's first microbatch hides it
/// (--overlap-param-gather, megatron/core/distributed). ZeRO-3 collects with each microbatch.
double collection_seconds(const Recipe& recipe, const StageWork& stage,
                          const KernelSetting& setting) {
  const bool sharded = recipe.sharded_optimizer || recipe.sharded_gradients;
  if (!sharded || recipe.sharded_parameters) return 0;
  const double hidden = recipe.overlapped_parameters
                            ? setting.constants.overlap * (stage.seconds - stage.backward) *
                                  microbatches_beside(recipe)
                            : 0.0;
  return exposed(collecting_seconds(recipe, stage, setting), hidden, setting);
}

/// What ZeRO-2 and 3 add to each microbatch (Rajbhandari et al. 2020, section 7): its gradients are
/// scattered; weights are collected for forward and for backward. Where sums overlap, so do these,
/// with what the stage computes.
double shard_seconds(const Recipe& recipe, const StageWork& stage, const KernelSetting& setting) {
  if (!recipe.sharded_gradients && !recipe.sharded_parameters) return 0;
  double seconds = summing_seconds(OperationKind::reduce_scatter, recipe, stage, setting);
  if (recipe.sharded_parameters) seconds += 2 * collecting_seconds(recipe, stage, setting);
  const double hidden =
      recipe.overlapped_gradients ? setting.constants.overlap * stage.seconds : 0.0;
  return exposed(seconds, hidden, setting);
}

/// See `update_traffic`. Experts have replicas of their own, and shards over these.
double update_seconds(const Recipe& recipe, const StageWork& stage, const KernelSetting& setting) {
  if (!recipe.sharded_optimizer) return stage.update;
  const WorkSetting& work = recipe.work;
  const double replicas = static_cast<double>(recipe.data) * work.context_parallel;
  const double expert_replicas =
      std::max(1.0, replicas * work.tensor_parallel /
                        (work.expert_parallel * setting.expert_tensor.members));
  const auto share = [&](double of) { return std::max(1.0, of / recipe.optimizer_instances); };
  return (stage.update - stage.expert_update) / share(replicas) +
         stage.expert_update / share(expert_replicas);
}

}  // namespace

void validate(const Recipe& recipe) {
  const WorkSetting& work = recipe.work;
  for (const int degree : {recipe.optimizer_instances, recipe.pipeline, recipe.virtual_stages,
                           recipe.data, recipe.microbatches, recipe.devices_per_node,
                           work.tensor_parallel, work.context_parallel, work.expert_parallel}) {
    if (degree < 1) fail("a degree of parallelism is at least 1, found ", degree);
  }
  const int ends = (recipe.first_stage_blocks > 0 ? 1 : 0) + (recipe.last_stage_blocks > 0 ? 1 : 0);
  if (recipe.blocks + ends < recipe.pipeline * recipe.virtual_stages) {
    fail("expected a block for each of ", recipe.pipeline, " x ", recipe.virtual_stages,
         " stages, found ", recipe.blocks, " blocks");
  }
}

int device_count(const Recipe& recipe) {
  std::int64_t count = recipe.pipeline;
  for (const std::int64_t degree :
       {std::int64_t{recipe.data}, std::int64_t{recipe.work.tensor_parallel},
        std::int64_t{recipe.work.context_parallel}}) {
    count = std::min<std::int64_t>(count * degree, INT_MAX);
  }
  return static_cast<int>(count);
}

std::vector<double> block_sums(Recipe recipe, const KernelConstants& constants) {
  recipe.pipeline = recipe.blocks;
  recipe.layout.assign(static_cast<std::size_t>(recipe.blocks), 1);
  std::vector<double> sums{0.0};
  for (const StageWork& block : stages_of(recipe, setting_of(recipe, constants), 1))
    sums.push_back(sums.back() + block.seconds);
  return sums;
}

namespace {

/// Of a step, what waiting for the slowest of all nodes adds: the largest of n noisy times grows
/// with the logarithm of n.
double straggling(const Recipe& recipe) {
  const double nodes = static_cast<double>(device_count(recipe)) / recipe.devices_per_node;
  return nodes > 1 ? shared_rates(recipe.device).straggling * std::log2(nodes) : 0.0;
}

}  // namespace

StepSeconds step_seconds(const Recipe& recipe, const KernelConstants& constants, double factor) {
  validate(recipe);
  const KernelSetting setting = setting_of(recipe, constants);
  std::vector<StageWork> stages = stages_of(recipe, setting, factor);
  for (StageWork& stage : stages) {
    stage.shards = shard_seconds(recipe, stage, setting);
    stage.seconds += stage.shards;
  }
  const auto slowest = std::ranges::max_element(stages, {}, &StageWork::seconds);
  const double microbatches = recipe.microbatches;
  StepSeconds result;
  result.work = microbatches * slowest->seconds;
  result.messages = microbatches * slowest->messages;
  result.shards = microbatches * slowest->shards;
  for (const StageWork& stage : stages) result.fill += stage.seconds;
  result.fill = (result.fill - slowest->seconds) / recipe.virtual_stages;
  if (recipe.pipeline > 1) {
    const double passed = 2 * transfer_seconds(recipe, setting);
    const double seen = recipe.overlapped_transfers ? 1 - constants.message_overlap : 1.0;
    result.transfers = passed * (seen * microbatches * recipe.virtual_stages + recipe.pipeline - 1);
  }
  for (const StageWork& stage : stages) {
    result.gradients = std::max(result.gradients, gradient_seconds(recipe, stage, setting) +
                                                      collection_seconds(recipe, stage, setting));
    result.update = std::max(result.update, update_seconds(recipe, stage, setting));
  }
  result.other = constants.step_seconds;
  result.step = result.work + result.fill + result.transfers + result.gradients + result.update +
                result.other;
  result.waits = result.step * straggling(recipe);
  result.step += result.waits;
  return result;
}

}  // namespace stagecraft
