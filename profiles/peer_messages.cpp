#include "profiles/peer_messages.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/estimate.hpp"
#include "profiles/kernel_times.hpp"

namespace stagecraft {

namespace {

/// The first of them is device 0.
DeviceGroup group_of(const Cluster& cluster, const PeerSpan& span) {
  std::vector<int> devices;
  for (int member = 0; member < span.members; ++member) devices.push_back(member * span.stride);
  // A group that the cluster cannot hold is refused elsewhere.
  std::erase_if(devices, [&](int device) { return device >= device_count(cluster); });
  return device_group(cluster, std::move(devices));
}

/// Of GPUs' libraries: links of CPUs and of generic devices are taken as they are.
std::optional<KernelConstants> constants_of(const DeviceKind& device) {
  if (device.generic || device.name == "cpu") return {};
  return device.constants.value_or(usual_constants(device.name));
}

Collective collective_named(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_reduce: return Collective::all_reduce;
    case OperationKind::reduce_scatter: return Collective::reduce_scatter;
    case OperationKind::all_to_all: return Collective::all_to_all;
    default: return Collective::all_gather;
  }
}

/// The peers of one setting on one cluster.
struct Peers {
  const Cluster& cluster;
  std::optional<KernelConstants> constants;
  PeerSpan tensor, context, expert, expert_tensor;
  int nodes_of_token = 0;  ///< `Parallelism::expert_nodes`
  std::int64_t active = 1;

  Peers(const Cluster& cluster_of, const DeviceKind& device, const CostSetting& setting,
        const Transformer& transformer)
      : cluster(cluster_of),
        constants(constants_of(device)),
        nodes_of_token(setting.parallelism.expert_nodes),
        active(transformer.experts ? transformer.experts->active : 1) {
    const Parallelism& parallelism = setting.parallelism;
    const int share = expert_tensor_of(parallelism, setting.tensor_parallel);
    tensor = {setting.tensor_parallel, 1};
    context = {parallelism.context, setting.tensor_parallel};
    expert = {parallelism.expert, share};
    expert_tensor = {share, 1};
  }

  /// With the device's constants, as recipes have it (planner/calibration/recipe.hpp).
  double seconds_of(const Operation& operation) const {
    const PeerSpan& span = of(operation.group);
    if (operation.kind == OperationKind::all_to_all)
      return seconds(exchange_time(span, static_cast<Bytes>(operation.bytes), operation.copies));
    if (span.members < 2) return 0;
    return collective_seconds(operation.kind, operation.bytes, group_of(cluster, span), *constants);
  }

  const PeerSpan& of(PeerGroup group) const {
    switch (group) {
      case PeerGroup::tensor: return tensor;
      case PeerGroup::context: return context;
      case PeerGroup::expert: return expert;
      case PeerGroup::expert_tensor: return expert_tensor;
    }
    return tensor;
  }

  /// With the device's constants; as the links say where it has none.
  Duration collective(OperationKind kind, const DeviceGroup& group, double bytes) const {
    if (!constants)
      return collective_time(collective_named(kind), group, static_cast<Bytes>(bytes));
    return from_seconds(collective_seconds(kind, bytes, group, *constants));
  }

  /// `attention`: of the pass, computed beside a ring.
  Duration time(const Operation& operation, Duration attention) const {
    const PeerSpan& span = of(operation.group);
    const auto bytes = static_cast<Bytes>(operation.bytes);
    switch (operation.kind) {
      case OperationKind::product:
      case OperationKind::attention:
      case OperationKind::traffic: return Duration{0};
      case OperationKind::all_reduce:
      case OperationKind::all_gather:
      case OperationKind::reduce_scatter:
        return collective(operation.kind, group_of(cluster, span), operation.bytes);
      case OperationKind::all_to_all: return exchange_time(span, bytes, operation.copies);
      case OperationKind::ring_exchange:
        return ring_exchange_time(span_link(cluster, span), span.members, bytes, attention);
    }
    return Duration{0};
  }

  /// A copy of each token to each of its experts, or, of its `copies`, the first to each peer.
  /// Where its experts are on few nodes and all copies would be sent, one goes to the peer on each
  /// such node, which hands it on inside the box meanwhile (DeepSeek-V3, section 3.2.2).
  Duration exchange_time(const PeerSpan& span, Bytes bytes, RowCopies copies_of_token) const {
    const auto all_to_all = [&](const PeerSpan& among, Bytes sent) {
      const Exchange first =
          with_first_copies({group_of(cluster, among), static_cast<double>(sent)}, copies_of_token);
      return collective(OperationKind::all_to_all, first.group, first.bytes);
    };
    const int width = cluster.levels.empty() ? 1 : cluster.levels.back().count;
    const int inside = std::clamp(width / span.stride, 1, span.members);
    const int nodes = (span.members + inside - 1) / inside;
    const bool has_limit = nodes_of_token > 0 && nodes > 1;
    if (has_limit && copies_of_token.count > 1) {
      copies_of_token.groups = {.count = nodes, .active = std::min(nodes_of_token, nodes)};
      return all_to_all(span, bytes);
    }
    const Duration each = all_to_all(span, bytes);
    if (!has_limit) return each;
    const auto copies = std::min<std::int64_t>({nodes_of_token, nodes, active});
    const Duration between = all_to_all({nodes, inside * span.stride}, bytes * copies / active);
    const Duration within = all_to_all({inside, span.stride}, bytes);
    return std::min(each, std::max(between, within));
  }
};

/// Seconds of attention's kernels in a pass.
Duration attention_time(const LayerOperations& layer, Pass pass, const KernelSetting& kernels) {
  double seconds = 0;
  for (const Operation& operation : layer.operations) {
    const bool is_core = operation.core_attention || operation.kind == OperationKind::attention;
    if (is_core && operation.pass == pass) seconds += operation_seconds(operation, kernels);
  }
  return from_seconds(seconds);
}

/// What a layer's messages add.
struct MessageTimes {
  Duration forward{0};
  Duration ring{0};   ///< of `forward`, what attention needs
  Duration again{0};  ///< of `forward`, of modules that selective recomputation does again
  Duration backward_input{0};
  Duration backward_weight{0};
  /// Of them, what goes between experts.
  Duration forward_exchange{0}, backward_exchange{0};
};

/// Of the passes, what attention's kernels take; only a ring is beside them.
struct AttentionTimes {
  Duration forward{0}, backward{0};
};

AttentionTimes attention_times(const LayerOperations& layer, const DeviceKind& device,
                               const CostSetting& setting) {
  if (setting.parallelism.context == 1) return {};
  const KernelSetting kernels = kernel_setting(device, setting.precision);
  return {.forward = attention_time(layer, Pass::forward, kernels),
          .backward = attention_time(layer, Pass::backward_input, kernels)};
}

MessageTimes message_times(const LayerOperations& layer, const Peers& peers,
                           const AttentionTimes& attention, const LayerModules& again) {
  MessageTimes times;
  for (const Operation& operation : layer.operations) {
    switch (operation.pass) {
      case Pass::forward: {
        const Duration time = peers.time(operation, attention.forward);
        times.forward += time;
        if (operation.group == PeerGroup::expert) times.forward_exchange += time;
        if (operation.kind == OperationKind::ring_exchange) times.ring += time;
        if (is_again(operation, layer, again)) times.again += time;
        break;
      }
      case Pass::backward_input: {
        const Duration time = peers.time(operation, attention.backward);
        times.backward_input += time;
        if (operation.group == PeerGroup::expert) times.backward_exchange += time;
        break;
      }
      case Pass::backward_weight:
        times.backward_weight += peers.time(operation, Duration{0});
        break;
    }
  }
  return times;
}

void add(LayerCost& cost, LayerKind kind, const MessageTimes& times) {
  const Duration beside = cost.backward_input;
  cost.forward += times.forward;
  // Words have no gradient: what comes back goes to the table.
  const bool is_table = kind == LayerKind::embedding;
  (is_table ? cost.backward_weight : cost.backward_input) += times.backward_input;
  cost.backward_weight += std::max(times.backward_weight - beside, Duration{0});
  if (cost.selective) cost.selective->again += times.ring + times.again;
  cost.forward_exchange += times.forward_exchange;
  cost.backward_exchange += times.backward_exchange;
}

}  // namespace

DeviceGroup span_group(const Cluster& cluster, const PeerSpan& span) {
  return group_of(cluster, span);
}

Link span_link(const Cluster& cluster, const PeerSpan& span) {
  std::vector<int> devices;
  for (int member = 0; member < span.members; ++member) devices.push_back(member * span.stride);
  std::erase_if(devices, [&](int device) { return device >= device_count(cluster); });
  return group_link(cluster, devices);
}

Duration ring_exchange_time(const Link& link, int members, Bytes bytes, Duration attention) {
  if (members <= 1) return Duration{0};
  const Duration message = message_time(link, (bytes + members - 1) / members);
  return (members - 1) * std::max(message - attention / members, Duration{0});
}

namespace {

/// Whether a ring is gone around again without being among modules that are: latent attention is
/// not what selective recomputation does again.
bool has_ring_again(const LayerModules& again, const Transformer& transformer) {
  return again.empty() && !transformer.latent;
}

/// Layers of the same kind and steps send the same messages.
struct KnownTimes {
  const Layer* layer = nullptr;
  MessageTimes times;
};

}  // namespace

std::vector<LayerCost> with_peer_messages(std::vector<LayerCost> costs, const Model& model,
                                          const Cluster& cluster, const DeviceKind& device,
                                          const CostSetting& setting) {
  if (setting.tensor_parallel == 1 && setting.parallelism == Parallelism{}) return costs;
  if (!model.transformer) fail("only the layers of transformers have peers");
  CostSetting full = setting;
  if (full.sequence == 0) full.sequence = model.sequence;
  const Peers peers(cluster, device, full, *model.transformer);
  const LayerModules& again = full.kernels.again;
  std::vector<KnownTimes> times;
  for (std::size_t layer = 0; layer < costs.size(); ++layer) {
    const Layer& of = model.layers[layer];
    const auto alike = [&](const KnownTimes& other) {
      return other.layer->kind == of.kind && other.layer->steps == of.steps;
    };
    auto known = std::find_if(times.begin(), times.end(), alike);
    if (known == times.end()) {
      const LayerOperations operations =
          layer_operations(*model.transformer, of, work_setting(full));
      times.push_back({&of, message_times(operations, peers,
                                          attention_times(operations, device, full), again)});
      known = times.end() - 1;
      if (!has_ring_again(again, *model.transformer)) known->times.ring = Duration{0};
    }
    add(costs[layer], of.kind, known->times);
  }
  return costs;
}

namespace {

/// Of a layer with its peers: host, kernels and messages of a pass together, as nobody measured
/// them apart. Costs of the update and of memory are those of `cost`.
void take_passes(LayerCost& cost, const LayerOperations& layer, LayerKind kind, const Peers& peers,
                 const KernelSetting& kernels, bool again_has_ring) {
  const LayerSeconds passes =
      layer_seconds(layer, Recomputed::none, kernels,
                    [&](const Operation& operation) { return peers.seconds_of(operation); });
  MessageTimes exchanged;
  double ring = 0, attention = 0;
  for (const Operation& operation : layer.operations) {
    const bool back = operation.pass != Pass::forward;
    if (operation.group == PeerGroup::expert && operation.kind == OperationKind::all_to_all) {
      const Duration time = from_seconds(peers.seconds_of(operation));
      (back ? exchanged.backward_exchange : exchanged.forward_exchange) += time;
    }
    if (back) continue;
    if (operation.kind == OperationKind::ring_exchange) ring += peers.seconds_of(operation);
    const bool is_core = operation.core_attention || operation.kind == OperationKind::attention;
    if (is_core) attention += operation_seconds(operation, kernels);
  }
  cost.forward = from_seconds(passes.forward);
  cost.backward_input = from_seconds(passes.backward_input);
  cost.backward_weight = from_seconds(passes.backward_weight);
  // Words have no gradient: what comes back goes to the table.
  if (kind == LayerKind::embedding)
    cost.backward_weight += std::exchange(cost.backward_input, Duration{0});
  // Nothing is left for a schedule to hide where layers hide it.
  if (!kernels.overlapped_exchanges) {
    cost.forward_exchange = exchanged.forward_exchange;
    cost.backward_exchange = exchanged.backward_exchange;
  }
  if (cost.selective && !kernels.again.empty())
    cost.selective->again = from_seconds(passes.recompute);
  const int members = peers.context.members;
  if (cost.selective && again_has_ring) {
    cost.selective->again +=
        from_seconds(std::max(0.0, ring - attention * (members - 1) / members));
  }
}

/// Estimates of layers with their peers on a device whose libraries' constants are known.
std::vector<LayerCost> estimates_with_peers(std::vector<LayerCost> costs, const Model& model,
                                            const Cluster& cluster, const DeviceKind& device,
                                            const CostSetting& setting) {
  const Peers peers(cluster, device, setting, *model.transformer);
  KernelSetting kernels = kernel_setting(device, setting.precision, setting.kernels.graphs);
  kernels.again = setting.kernels.again;
  // Gathers and scatters of tokens run beside products, sums do not (Transformer Engine).
  kernels.overlapped_messages = setting.kernels.overlap.tensor && setting.parallelism.sequence;
  kernels.overlapped_exchanges = setting.kernels.overlap.experts;
  kernels.tensor.members = peers.tensor.members;
  kernels.context.members = peers.context.members;
  kernels.expert.members = peers.expert.members;
  kernels.expert_tensor.members = peers.expert_tensor.members;
  std::vector<std::size_t> known;
  for (std::size_t layer = 0; layer < costs.size(); ++layer) {
    const Layer& of = model.layers[layer];
    const auto alike = std::find_if(known.begin(), known.end(), [&](std::size_t other) {
      return model.layers[other].kind == of.kind && model.layers[other].steps == of.steps;
    });
    if (alike != known.end()) {
      costs[layer] = costs[*alike];
      continue;
    }
    known.push_back(layer);
    take_passes(costs[layer], layer_operations(*model.transformer, of, work_setting(setting)),
                of.kind, peers, kernels, has_ring_again(kernels.again, *model.transformer));
  }
  return costs;
}

}  // namespace

std::vector<LayerCost> costs_with_messages(const Profile& profile, const Cluster& cluster,
                                           const DeviceKind& device, const CostSetting& setting) {
  CostSetting wanted = setting;
  wanted.device = device.generic ? "generic" : device.name;
  if (wanted.sequence == 0) wanted.sequence = profile.model.sequence;
  std::vector<LayerCost> costs = layer_costs(profile, device, wanted);
  const ProfileEntry* entry = find_entry(profile, wanted);
  if (entry != nullptr && entry->has_peer_messages) return costs;
  const bool has_peers = wanted.tensor_parallel > 1 || wanted.parallelism != Parallelism{};
  if (entry == nullptr && has_peers && profile.model.transformer && constants_of(device))
    return estimates_with_peers(std::move(costs), profile.model, cluster, device, wanted);
  return with_peer_messages(std::move(costs), profile.model, cluster, device, wanted);
}

}  // namespace stagecraft
