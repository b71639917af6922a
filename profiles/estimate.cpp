// Costs from a datasheet: of transformers operation by operation (kernel_times.hpp), of other
// layers a roofline. Good for a first plan; constants fitted to measurements, or measured costs,
// replace it.

#include "profiles/estimate.hpp"

#include <algorithm>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/kernel_times.hpp"

namespace stagecraft {

namespace {

/// Starting a layer's kernels, once per pass.
constexpr Duration launch{5'000};

/// Bytes per parameter with AdamW. In half precision the weights and their working copy's gradient
/// sums are kept apart: bf16 weights 2, fp32 gradients 4, fp32 master weights and two moments 12.
struct PerParameter {
  Bytes weights, gradients, optimizer;
};

PerParameter adamw_bytes(Precision precision) {
  switch (precision) {
    case Precision::float64: return {8, 8, 16};
    case Precision::float32: return {4, 4, 8};
    case Precision::bfloat16:
    case Precision::float16:
    case Precision::float8:
    case Precision::float8_with_attention: return {2, 4, 12};
  }
  return {};
}

/// Elements that a layer reads, for one sample.
std::int64_t elements_in(const Model& model, int layer) {
  std::int64_t elements = 0;
  for (const Edge& edge : model.edges) {
    if (edge.to == layer)
      elements += model.layers[static_cast<std::size_t>(edge.from)].output_elements;
  }
  return elements;
}

/// Convolutions, dense layers and what stands between them: backward has one product for the input
/// and one for the weights, each as large as the forward one.
LayerWork plain_work(const Model& model, int index, const CostSetting& setting) {
  const Layer& layer = model.layers[static_cast<std::size_t>(index)];
  if (layer.kind == LayerKind::opaque) {
    fail("layer \"", layer.name, "\" of ", model.name,
         " is known only by measured costs; there are none for ", to_string(setting));
  }
  if (setting.tensor_parallel != 1) {
    fail("layer \"", layer.name, "\" of ", model.name, " cannot be split ", setting.tensor_parallel,
         " ways: only transformers are");
  }
  constexpr std::int64_t most_elements = 100'000'000'000;
  if (layer.output_elements > most_elements || elements_in(model, index) > most_elements) {
    fail("layer \"", layer.name, "\" of ", model.name, " hands on more than anyone can store");
  }
  if (is_float8(setting.precision)) {
    fail("layer \"", layer.name, "\" of ", model.name,
         " is no transformer's: only their products are known in fp8; use --precision bf16");
  }
  const Bytes element = element_bytes(setting.precision);
  const bool has_weights = layer.parameters > 0;
  LayerWork work;
  work.flops_forward = static_cast<double>(setting.microbatch) * layer.flops_forward;
  work.flops_backward_input = work.flops_forward;
  work.flops_backward_weight = has_weights ? work.flops_forward : 0;
  work.weights = layer.parameters;
  work.input = setting.microbatch * elements_in(model, index) * element;
  work.output = setting.microbatch * layer.output_elements * element;
  // Its own output, and in a convolution the product before batch normalisation and ReLU.
  work.saved = layer.kind == LayerKind::convolution ? 2 * work.output : work.output;
  work.saved_for_weight = has_weights ? work.output : 0;
  return work;
}

bool is_of_transformer(LayerKind kind) {
  return kind == LayerKind::embedding || kind == LayerKind::transformer ||
         kind == LayerKind::expert_transformer || kind == LayerKind::prediction ||
         kind == LayerKind::head;
}

/// Bytes of the layer, and how long its update takes; times of passes are the caller's.
LayerCost held_by(const LayerWork& work, const KernelSetting& setting, Precision precision) {
  const PerParameter each = adamw_bytes(precision);
  LayerCost cost;
  cost.saved = work.saved - work.output;
  cost.saved_for_weight = work.saved_for_weight;
  cost.output = work.output;
  cost.parameters = work.weights * each.weights;
  cost.expert_parameters = work.expert_weights * each.weights;
  cost.gradients = work.weights * each.gradients;
  cost.optimizer = work.weights * each.optimizer;
  cost.workspace = work.workspace;
  if (work.weights > 0) {
    const double traffic =
        static_cast<double>(work.weights) * update_traffic(static_cast<double>(each.optimizer),
                                                           static_cast<double>(each.gradients),
                                                           static_cast<double>(each.weights));
    cost.update =
        from_seconds(traffic / (setting.memory_bandwidth * setting.constants.update_rate));
  }
  cost.provenance = Provenance::datasheet;
  return cost;
}

/// A roofline with a floor: each of forward, input gradient and weight gradient takes the larger of
/// its operations at the effective rate and its bytes at the memory bandwidth, plus one launch.
LayerCost plain_cost(const Model& model, int index, const DeviceKind& device,
                     const CostSetting& setting) {
  const LayerWork work = plain_work(model, index, setting);
  const double rate = peak_flops(device, setting.precision) * device.efficiency;
  const auto time = [&](double flops, Bytes traffic) {
    return std::max(from_seconds(flops / rate), transfer_time(traffic, device.memory_bandwidth)) +
           launch;
  };
  LayerCost cost = held_by(work, kernel_setting(device, setting.precision), setting.precision);
  // What is kept is written once and read once by the next operation.
  const Bytes forward_traffic = work.input + 2 * work.saved + cost.parameters;
  cost.forward = time(work.flops_forward, forward_traffic);
  if (work.flops_backward_input > 0 || work.weights == 0) {
    cost.backward_input =
        time(work.flops_backward_input, forward_traffic + work.saved + work.input);
  }
  if (work.weights > 0) {
    cost.backward_weight =
        time(work.flops_backward_weight, 2 * work.saved_for_weight + cost.gradients);
  }
  return cost;
}

/// Of its modules where `again` names some, without messages between peers; else its attention.
std::optional<SelectiveCost> selective_cost(const LayerOperations& layer, KernelSetting kernels,
                                            const LayerModules& again, const LayerWork& work,
                                            Bytes saved) {
  if (again.empty()) {
    if (work.rebuilt <= 0) return {};
    return SelectiveCost{.again = from_seconds(rebuild_seconds(layer, kernels)),
                         .saved = saved - work.rebuilt};
  }
  kernels.again = again;
  const double seconds = layer_seconds(layer, Recomputed::none, kernels).recompute;
  if (seconds <= 0) return {};
  const Bytes freed =
      kept_bytes(layer, Recomputed::none) - kept_bytes(layer, Recomputed::none, again);
  return SelectiveCost{.again = from_seconds(seconds), .saved = std::max(saved - freed, Bytes{0})};
}

/// The sum of the layer's operations. Messages between tensor-parallel peers are not part of it.
LayerCost transformer_cost(const Transformer& transformer, const Layer& of,
                           const DeviceKind& device, const CostSetting& setting) {
  const KernelSetting kernels = kernel_setting(device, setting.precision, setting.kernels.graphs);
  const LayerWork work = transformer_work(transformer, of, setting);
  LayerCost cost = held_by(work, kernels, setting.precision);
  const LayerOperations layer = layer_operations(transformer, of, work_setting(setting));
  const LayerSeconds seconds = layer_seconds(layer, Recomputed::none, kernels);
  cost.forward = from_seconds(seconds.forward);
  cost.backward_input = from_seconds(seconds.backward_input);
  cost.backward_weight = from_seconds(seconds.backward_weight);
  cost.selective = selective_cost(layer, kernels, setting.kernels.again, work, cost.saved);
  // Words have no gradient: what comes back goes to the table.
  if (of.kind == LayerKind::embedding) {
    cost.backward_weight += std::exchange(cost.backward_input, Duration{0});
  }
  if (device.constants) cost.provenance = Provenance::fitted;
  return cost;
}

/// Layers of the same kind and steps cost the same.
struct KnownCost {
  const Layer* layer = nullptr;
  LayerCost cost;
};

const LayerCost* known_cost(const std::vector<KnownCost>& known, const Layer& layer) {
  for (const KnownCost& other : known) {
    if (other.layer->kind == layer.kind && other.layer->steps == layer.steps) return &other.cost;
  }
  return nullptr;
}

}  // namespace

std::vector<LayerCost> estimate_costs(const Model& model, const DeviceKind& device,
                                      const CostSetting& setting) {
  if (setting.microbatch < 1 || setting.microbatch > 1'000'000) {
    fail("a microbatch has from 1 to 1000000 samples, found ", setting.microbatch);
  }
  if (setting.tensor_parallel < 1) {
    fail("a tensor-parallel degree is at least 1, found ", setting.tensor_parallel);
  }
  CostSetting full = setting;
  if (full.sequence == 0) full.sequence = model.sequence;
  if (full.sequence != model.sequence)
    return estimate_costs(with_sequence(model, full.sequence), device, full);
  std::vector<LayerCost> costs;
  std::vector<KnownCost> of_transformer;
  for (int layer = 0; layer < static_cast<int>(model.layers.size()); ++layer) {
    const LayerKind kind = model.layers[static_cast<std::size_t>(layer)].kind;
    if (!is_of_transformer(kind) || !model.transformer) {
      costs.push_back(plain_cost(model, layer, device, full));
      continue;
    }
    const Layer& of = model.layers[static_cast<std::size_t>(layer)];
    const LayerCost* known = known_cost(of_transformer, of);
    if (known == nullptr) {
      of_transformer.push_back({&of, transformer_cost(*model.transformer, of, device, full)});
      known = &of_transformer.back().cost;
    }
    costs.push_back(*known);
  }
  return costs;
}

}  // namespace stagecraft
