#include "profiles/served_costs.hpp"

#include <algorithm>

#include "profiles/estimate.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/operations.hpp"
#include "profiles/peer_messages.hpp"

namespace stagecraft {

namespace {

bool looks_ahead(const Layer& layer) {
  return std::ranges::any_of(layer.steps, [](const Step& step) {
    return step.kind == StepKind::attention && !step.causal;
  });
}

bool has_learned_positions(const Model& model) {
  return model.transformer && model.transformer->position == Transformer::Position::learned;
}

/// A pass of so many tokens, which so many of the samples' last ones are among. As one long sample,
/// unless there are no positions for that: then they are whole samples.
CostSetting pass_of(const Model& model, CostSetting setting, std::int64_t tokens) {
  setting.ends = (tokens + setting.sequence - 1) / setting.sequence;
  if (has_learned_positions(model) && tokens > setting.sequence) {
    setting.microbatch = tokens / setting.sequence;
    return setting;
  }
  setting.microbatch = 1;
  setting.sequence = tokens;
  return setting;
}

/// What each layer's attention takes of a forward pass, kernels alone.
std::vector<double> attention_seconds(const Model& model, const DeviceKind& device,
                                      const CostSetting& setting) {
  const KernelSetting kernels = kernel_setting(device, setting.precision, setting.kernels.graphs);
  std::vector<double> seconds(model.layers.size(), 0);
  for (std::size_t layer = 0; layer < seconds.size(); ++layer) {
    const Layer& of = model.layers[layer];
    const bool is_alike = layer > 0 && model.layers[layer - 1].kind == of.kind &&
                          model.layers[layer - 1].steps == of.steps;
    if (is_alike) {
      seconds[layer] = seconds[layer - 1];
      continue;
    }
    const LayerOperations operations =
        layer_operations(*model.transformer, of, work_setting(setting));
    for (const Operation& operation : operations.operations) {
      const bool is_core = operation.core_attention || operation.kind == OperationKind::attention;
      if (is_core && operation.pass == Pass::forward)
        seconds[layer] += operation_seconds(operation, kernels);
    }
  }
  return seconds;
}

/// What attention takes more, or less where a pass has several samples, which do not look at each
/// other.
Duration longer_by(double all, double in_passes) {
  return all < in_passes ? -from_seconds(in_passes - all) : from_seconds(all - in_passes);
}

}  // namespace

bool reads_in_chunks(const Model& model) {
  return model.transformer && model.transformer->causal && !model.transformer->patches &&
         std::ranges::none_of(model.layers, looks_ahead);
}

PassTokens tokens_of_pass(const Model& model, const CostSetting& setting) {
  const std::int64_t sequence = setting.sequence > 0 ? setting.sequence : model.sequence;
  const std::int64_t all = std::max<std::int64_t>(setting.microbatch * sequence, 1);
  if (setting.chunk == 0 || !reads_in_chunks(model)) return {all, all};
  const std::int64_t peers = setting.parallelism.context;
  std::int64_t chunk = std::max<std::int64_t>(setting.chunk / peers, 1) * peers;
  if (has_learned_positions(model) && chunk > sequence) chunk -= chunk % sequence;
  return {all, std::min(all, chunk)};
}

std::vector<LayerCost> served_costs(const Profile& profile, const Cluster& cluster,
                                    const DeviceKind& device, const CostSetting& setting) {
  const Model& model = profile.model;
  CostSetting whole = setting;
  whole.device = device.generic ? "generic" : device.name;
  if (whole.sequence == 0) whole.sequence = model.sequence;
  const bool is_estimate = find_entry(profile, whole) == nullptr;
  if (!is_estimate || !reads_in_chunks(model)) whole.chunk = 0;
  if (whole.chunk == 0) return costs_with_messages(profile, cluster, device, whole);
  const auto [tokens, chunk] = tokens_of_pass(model, whole);
  if (tokens == chunk) return costs_with_messages(profile, cluster, device, whole);
  const std::int64_t passes = tokens / chunk, rest = tokens % chunk;
  const CostSetting pass = pass_of(model, whole, chunk);
  std::vector<LayerCost> costs = costs_with_messages(profile, cluster, device, pass);
  const std::vector<double> of_all = attention_seconds(model, device, whole);
  const std::vector<double> of_pass = attention_seconds(model, device, pass);
  std::vector<LayerCost> last;
  std::vector<double> of_last(costs.size(), 0);
  if (rest > 0) {
    last = costs_with_messages(profile, cluster, device, pass_of(model, whole, rest));
    of_last = attention_seconds(model, device, pass_of(model, whole, rest));
  }
  for (std::size_t layer = 0; layer < costs.size(); ++layer) {
    LayerCost& cost = costs[layer];
    cost.forward =
        passes * cost.forward +
        longer_by(of_all[layer], of_last[layer] + static_cast<double>(passes) * of_pass[layer]);
    cost.forward_exchange = passes * cost.forward_exchange;
    if (rest > 0) {
      cost.forward += last[layer].forward;
      cost.forward_exchange += last[layer].forward_exchange;
    }
    cost.forward = std::max(cost.forward, cost.forward_exchange);
    // Handed on of all tokens; the head's is of each sample.
    cost.output = cost.output / chunk * tokens + cost.output % chunk * tokens / chunk;
  }
  return costs;
}

}  // namespace stagecraft
