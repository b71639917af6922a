#include "planner/analysis/utilisation.hpp"

#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

/// Whether such a layer has products, so that a count of none says that nobody counted.
bool has_products(LayerKind kind) {
  switch (kind) {
    case LayerKind::transformer:
    case LayerKind::expert_transformer:
    case LayerKind::prediction:
    case LayerKind::head:
    case LayerKind::convolution:
    case LayerKind::dense:
    case LayerKind::opaque: return true;
    case LayerKind::embedding:
    case LayerKind::pool:
    case LayerKind::activation:
    case LayerKind::normalization: return false;
  }
  return true;
}

bool is_of_transformer(LayerKind kind) {
  switch (kind) {
    case LayerKind::embedding:
    case LayerKind::transformer:
    case LayerKind::expert_transformer:
    case LayerKind::prediction:
    case LayerKind::head: return true;
    default: return false;
  }
}

/// Of one sample's forward, and what of it each form of recomputation does again.
struct LayerFlops {
  double forward = 0;
  double selective = 0;
  double masked = 0;  ///< what a causal mask leaves out of `forward`
};

LayerFlops flops_of(const Model& model, const Layer& layer, std::int64_t sequence) {
  if (!model.transformer || !is_of_transformer(layer.kind)) return {.forward = layer.flops_forward};
  const TransformerFlops flops = layer_flops(*model.transformer, layer, sequence);
  return {.forward = flops.linear + flops.attention,
          .selective = flops.selective,
          .masked = model.transformer->causal ? flops.attention / 2 : 0};
}

double done_again(const LayerFlops& flops, Recomputed what) {
  switch (what) {
    case Recomputed::none: return 0;
    case Recomputed::selective: return flops.selective;
    case Recomputed::full:
    case Recomputed::with_next: return flops.forward;
  }
  return 0;
}

/// What the stage does again of its layer, which is its i-th one.
Recomputed again(const Stage& stage, std::size_t i) {
  if (stage.recompute == Recompute::full) return Recomputed::full;
  return stage.again.empty() ? Recomputed::none : stage.again[i];
}

struct SampleFlops {
  double forward = 0;
  double again = 0;
  double masked = 0;
};

/// Where a model answers, logits are those of the last token.
bool is_of_last_token(const Plan& plan, const Model& model, const Layer& layer) {
  return serves(plan) && layer.kind == LayerKind::head && model.transformer &&
         model.transformer->causal && plan.batch.sequence > 0;
}

std::optional<SampleFlops> sample_flops(const Plan& plan, const Model& model) {
  SampleFlops sum;
  for (const Stage& stage : plan.stages) {
    const auto first = static_cast<std::size_t>(stage.layers.first);
    for (std::size_t i = 0; i < static_cast<std::size_t>(stage.layers.size()); ++i) {
      const Layer& layer = model.layers[first + i];
      LayerFlops flops = flops_of(model, layer, plan.batch.sequence);
      if (is_of_last_token(plan, model, layer))
        flops.forward /= static_cast<double>(plan.batch.sequence);
      if (flops.forward <= 0 && has_products(layer.kind)) return {};
      sum.forward += flops.forward;
      sum.masked += flops.masked;
      sum.again += done_again(flops, again(stage, i));
    }
  }
  return sum;
}

/// 0 if one of the devices has none.
double peak_of_all(const Plan& plan, const Cluster& cluster) {
  double sum = 0;
  for (const int device : used_devices(plan)) {
    const double peak = peak_flops(kind_of(cluster, device), plan.precision);
    if (peak <= 0) return 0;
    sum += peak;
  }
  return sum;
}

}  // namespace

std::optional<Utilisation> utilisation_of(const Plan& plan, const Model& model,
                                          const Cluster& cluster, const Prediction& prediction) {
  const std::optional<SampleFlops> sample = sample_flops(plan, model);
  const double peak = peak_of_all(plan, cluster);
  if (!sample || sample->forward <= 0 || peak <= 0) return {};
  const bool trains = !serves(plan);
  const double per_second = prediction.samples_per_second / peak;
  const double times = trains ? 3 : 1;
  const double needed = sample->forward * times;
  return Utilisation{.model = needed * per_second,
                     .causal = (sample->forward - sample->masked) * times * per_second,
                     .hardware = (needed + sample->again) * per_second,
                     .peak = peak};
}

}  // namespace stagecraft
