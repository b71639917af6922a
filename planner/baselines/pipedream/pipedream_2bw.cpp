// The planner of PipeDream-2BW (Narayanan et al., ICML 2021; planner/planner.py of its branch):
// equal blocks, equal stages, every stage replicated alike. The blocks here are the model's
// transformers, where it has any, else all layers, with the mean of their figures.
//
// Its slips stay: blocks per stage are rounded down, so that some are planned nowhere, and none at
// all where there are more stages than blocks; numbers of floats are divided by bytes per second;
// bandwidths are constants.

#include <algorithm>

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr double bytes_per_float = 4;
constexpr double between_stages = 1e9;  // "floats per second"

/// One block; sizes in floats.
struct Block {
  double seconds = 0, parameters = 0, activations = 0, output = 0;
};

struct Shape {
  int width = 1;  ///< replicas of each stage
  int depth = 1;  ///< stages
  double time = 0;
  double memory = 0;  ///< bytes
};

/// The layers that count as blocks, the first of them and the end.
LayerRange blocks_of(const Model& model) {
  LayerRange range{static_cast<int>(model.layers.size()), 0};
  for (int layer = 0; layer < static_cast<int>(model.layers.size()); ++layer) {
    if (model.layers[static_cast<std::size_t>(layer)].kind != LayerKind::transformer) continue;
    range = {std::min(range.first, layer), layer + 1};
  }
  if (range.size() > 0) return range;
  return {0, static_cast<int>(model.layers.size())};
}

Block mean_block(const std::vector<LayerCost>& costs, const LayerRange& blocks) {
  Duration time{0};
  Bytes parameters = 0, activations = 0, output = 0;
  for (int layer = blocks.first; layer < blocks.end; ++layer) {
    const LayerCost& cost = costs[static_cast<std::size_t>(layer)];
    time += cost.forward + cost.backward();
    parameters += cost.parameters;
    activations += cost.output + cost.saved;
    output += cost.output;
  }
  const auto mean_floats = [&](Bytes bytes) {
    return static_cast<double>(bytes) / bytes_per_float / blocks.size();
  };
  return {seconds(time) / blocks.size(), mean_floats(parameters), mean_floats(activations),
          mean_floats(output)};
}

Shape shape_of(const Block& block, int blocks, int width, int depth) {
  const double bandwidth = width <= 8 ? 1e11 : 1e9;
  const int each = blocks / depth;
  const double held = depth > blocks ? 1 : each;
  const double update = 2 * (width - 1) * block.parameters * each / bandwidth;
  const double transfer = 2 * block.output / between_stages;
  return {
      .width = width,
      .depth = depth,
      .time = std::max({block.seconds * each, transfer, update}) / width,
      .memory = bytes_per_float * (2 * block.parameters * held + block.activations * held * depth)};
}

/// Every width that divides the devices; the first of the fastest that fit.
std::optional<Shape> best_shape(const Problem& problem, const Space& space, const Block& block,
                                int blocks) {
  const DeviceKind& kind = kind_of(space.cluster(), 0);
  std::optional<Shape> best;
  for (int depth = 1; depth <= devices_of(problem); ++depth) {
    const int width = devices_of(problem) / depth;
    if (devices_of(problem) % depth != 0 || (problem.straight && width > 1)) continue;
    const Shape shape = shape_of(block, blocks, width, depth);
    if (!kind.memory_unlimited && shape.memory > static_cast<double>(usable_memory(kind))) continue;
    if (!best || shape.time < best->time) best = shape;
  }
  return best;
}

/// What comes before and after the blocks stays with the first and the last stage, and so do blocks
/// that it plans nowhere with the last.
std::vector<ForeignStage> stages_of(const Shape& shape, const LayerRange& blocks, int layers) {
  std::vector<ForeignStage> stages(static_cast<std::size_t>(shape.depth));
  const int each = blocks.size() / shape.depth;
  for (int layer = 0; layer < layers; ++layer) {
    const int stage = std::clamp((layer - blocks.first) / each, 0, shape.depth - 1);
    stages[static_cast<std::size_t>(stage)].layers.push_back(layer);
  }
  for (ForeignStage& stage : stages) stage.replicas = shape.width;
  return stages;
}

}  // namespace

SearchResult search_pipedream_2bw(const Problem& problem, const SearchControl&) {
  const std::string name = "pipedream-2bw";
  const Space space(problem);
  const LayerRange blocks = blocks_of(problem.profile.model);
  const auto costs = costs_of_first_device(problem, space, largest_microbatch(space));
  const Block block = mean_block(costs, blocks);
  const auto shape = best_shape(problem, space, block, blocks.size());
  if (!shape) return no_plan(name, "PipeDream-2BW's planner finds no width and depth that fit");
  const std::string choice =
      concat("PipeDream-2BW's planner prints (w, d) = (", shape->width, ", ", shape->depth, ")");
  const int each = blocks.size() / shape->depth;
  if (each == 0) {
    return no_plan(name, concat(choice, ", ", shape->depth, " stages for ", blocks.size(),
                                " blocks: it rounds down to none per stage, at no cost"));
  }
  SearchResult result = foreign_result(
      problem, name, stages_of(*shape, blocks, space.layers()),
      {.name = "time per minibatch", .value = shape->time, .unit = "s", .lower_bound = shape->time},
      devices_of(problem));
  const int left = blocks.size() - each * shape->depth;
  add_note(result,
           concat(choice, left == 0 ? ""
                                    : concat("; rounding down, it plans ", blocks.size() - left,
                                             " of ", blocks.size(), " blocks, the other ", left,
                                             " are with the last stage here")));
  return result;
}

}  // namespace stagecraft
