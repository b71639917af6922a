#include "profiles/kernel_times.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

double rate_of(Bandwidth bandwidth) {
  return static_cast<double>(bandwidth.bytes_per_second);
}

bool is_message(OperationKind kind) {
  return kind != OperationKind::product && kind != OperationKind::attention &&
         kind != OperationKind::traffic;
}

const GroupPlace& place_of(PeerGroup group, const KernelSetting& setting) {
  switch (group) {
    case PeerGroup::tensor: return setting.tensor;
    case PeerGroup::context: return setting.context;
    case PeerGroup::expert: return setting.expert;
    case PeerGroup::expert_tensor: return setting.expert_tensor;
  }
  return setting.tensor;
}

Collective collective_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_reduce: return Collective::all_reduce;
    case OperationKind::reduce_scatter: return Collective::reduce_scatter;
    case OperationKind::all_to_all: return Collective::all_to_all;
    case OperationKind::all_gather:
    case OperationKind::ring_exchange:
    case OperationKind::product:
    case OperationKind::attention:
    case OperationKind::traffic: break;
  }
  return Collective::all_gather;
}

/// What NCCL chooses among: sums in phases are left to those who write them by hand.
bool is_usual(OperationKind kind, CollectiveAlgorithm algorithm) {
  if (kind == OperationKind::ring_exchange) return algorithm == CollectiveAlgorithm::ring;
  return algorithm != CollectiveAlgorithm::hierarchical || kind == OperationKind::all_to_all;
}

/// Without the latency that every collective has.
double seconds_of(const CollectiveTerms& terms, const DeviceGroup& group, double bytes, double hop,
                  const KernelConstants& constants) {
  double latency = 0, sending = 0;
  for (int i = 0; i < group.depth; ++i) {
    const auto& term = terms.levels[static_cast<std::size_t>(i)];
    const GroupLevel& level = group.levels[static_cast<std::size_t>(i)];
    const double slowness =
        static_cast<double>(level.latency.count()) / static_cast<double>(usual_hop.count());
    latency += hop * term.hops * slowness;
    const double rate = rate_of(term.on_rings ? level.rings : level.port) *
                        (level.is_box ? constants.inside_rate : constants.between_rate);
    const double here =
        bytes * static_cast<double>(term.share) / static_cast<double>(term.of) / rate;
    sending = terms.at_once ? std::max(sending, here) : sending + here;
  }
  return latency + sending;
}

/// Rows of a product that are computed together, whether there are as many or not.
constexpr double tile_rows = 128;

bool is_grouped(const Operation& operation) {
  return operation.batch > 1 && !operation.core_attention;
}

/// Of an operation's parts, so many run at once: products on four streams (Transformer Engine's
/// grouped linear layer), all where they are one kernel. In the graph of a step they are, since
/// parts are sized by the host, which the graph leaves no say.
double parts_at_once(const Operation& operation, const KernelSetting& setting) {
  if (setting.graphs == CudaGraphs::step) return operation.parts;
  constexpr double streams = 4;
  return operation.kind == OperationKind::product ? std::min(operation.parts, streams) : 1;
}

/// Products grouped by experts run side by side, or one after the other where each is launched by
/// itself; what is one kernel has all outputs at once. An expert's are no fewer than those of a
/// tile.
double outputs_at_once(const Operation& operation, const KernelSetting& setting) {
  if (!is_grouped(operation)) return operation.batch * operation.m * operation.n;
  const bool one_by_one = operation.launches > 1;
  const double products = one_by_one            ? 1
                          : operation.parts > 1 ? parts_at_once(operation, setting)
                                                : operation.batch;
  const bool by_rows = operation.pass != Pass::backward_weight;
  const double rows = by_rows ? std::max(operation.m, tile_rows) : operation.m;
  return products * rows * operation.n;
}

/// Rows in vain of a product grouped by experts: each expert's own end somewhere in a tile, in the
/// middle on average, and fill one at least. They are the outputs' rows, or in the weights'
/// gradient the depth.
double with_last_tiles(const Operation& operation) {
  if (!is_grouped(operation)) return 1;
  const double rows = operation.pass == Pass::backward_weight ? operation.k : operation.m;
  return std::max(1 + tile_rows / 2 / rows, tile_rows / rows);
}

/// The part of the peak: half of the best at `product_depth`, and at `product_outputs`.
double product_seconds(const Operation& operation, const KernelSetting& setting) {
  const KernelConstants& constants = setting.constants;
  const double slowdown = (1 + constants.product_depth / operation.k) *
                          (1 + constants.product_outputs / outputs_at_once(operation, setting)) *
                          with_last_tiles(operation);
  const bool in_8_bits = operation.narrow && setting.peak > setting.wide_peak;
  const double peak = in_8_bits ? setting.peak * setting.rates.float8_rate : setting.wide_peak;
  return operation.flops / (peak * constants.product_rate) * slowdown;
}

/// Heads of this width and more have enough products beside the exponentials of their scores.
constexpr double wide_head = 128;

double attention_seconds(const Operation& operation, const KernelSetting& setting) {
  const KernelConstants& constants = setting.constants;
  const Float8Attention& narrow = setting.rates.float8_attention;
  double rate = constants.attention_rate * (operation.flash2 ? setting.rates.flash2_rate : 1);
  if (operation.narrow) rate *= operation.pass == Pass::forward ? narrow.forward : narrow.backward;
  if (operation.n < wide_head && !operation.flash2)
    rate *= std::pow(operation.n / wide_head, setting.rates.narrow_heads);
  // Queries go by tiles, which see the keys of all their rows.
  const bool has_window = operation.m < operation.k;
  const double keys_in_vain = has_window ? tile_rows / operation.m : 0;
  return operation.flops / (setting.wide_peak * rate) * (1 + keys_in_vain) *
         (1 + constants.attention_length / operation.m);
}

/// Kernels are sent one by one; a module of the framework takes the host's time besides.
double host_seconds(const Operation& operation, const KernelConstants& constants) {
  return constants.host_seconds *
         (operation.launches * operation.parts + constants.module_launches * operation.modules);
}

/// Whether the host sends the operation by itself, not as a part of a CUDA graph.
bool sends_alone(const Operation& operation, CudaGraphs graphs) {
  switch (graphs) {
    case CudaGraphs::none: return true;
    case CudaGraphs::layers: return operation.routed;
    case CudaGraphs::step: return false;
  }
  return true;
}

/// The larger of device and host, a little more where they are close: neither is ahead all the
/// time. Messages are sent by the host, too, and wait for the kernels before them.
double together(double device, double host) {
  const double larger = std::max(device, host), smaller = std::min(device, host);
  if (larger <= 0) return 0;
  const double ratio = smaller / larger;
  return larger * std::sqrt(std::sqrt(1 + ratio * ratio * ratio * ratio));
}

/// Sums of kernels, of messages, and of the host's work for both.
struct PassSum {
  double kernels = 0;
  double messages = 0;
  double host = 0;
  double routed_device = 0, routed_host = 0;  ///< of these, what `Operation::routed` says
  double attention = 0;  ///< of `kernels`: beside it a ring of keys and values runs
  double ring = 0;       ///< messages of that
  double tensor = 0;     ///< messages that run beside the pass's own kernels
  double exchanges = 0;  ///< beside kernels of another microbatch

  double& part_of(const Operation& operation, const KernelSetting& setting) {
    if (!is_message(operation.kind)) return kernels;
    if (operation.kind == OperationKind::ring_exchange) return ring;
    const bool exchanged = operation.kind == OperationKind::all_to_all;
    if (setting.overlapped_exchanges && exchanged) return exchanges;
    const bool of_tensor = operation.group == PeerGroup::tensor;
    return setting.overlapped_messages && of_tensor ? tensor : messages;
  }

  void hide_tensor(double overlap) { messages += tensor - overlap * std::min(tensor, kernels); }
  void hide_exchanges(double part) {
    messages += exchanges * (1 - part);
    routed_device += exchanges * (1 - part);
  }

  /// Each of a ring's n - 1 messages goes beside 1/n of the attention (Liu et al. 2023).
  void hide_ring(int members) {
    const double beside = attention * (members - 1) / members;
    messages += std::max(0.0, ring - beside);
  }

  double seconds() const { return together(kernels + messages, host); }

  /// The same where the host has waited to learn how many tokens came to each expert: what it sends
  /// then, it is not ahead with (Megatron-LM's `_maybe_dtoh_and_synchronize`).
  double seconds_after_counts() const {
    return together(kernels + messages - routed_device, host - routed_host) +
           together(routed_device, routed_host);
  }
};

}  // namespace

namespace {

/// The part of exchanges that is hidden: one microbatch's forward and another's backward go side by
/// side (Megatron-LM's `overlap_moe_expert_parallel_comm`), and no more than there are kernels for.
double hidden_exchanges(const std::array<PassSum*, 4>& passes, double overlap) {
  double kernels = 0, exchanges = 0;
  for (const PassSum* pass : passes) {
    kernels += pass->kernels;
    exchanges += pass->exchanges;
  }
  return exchanges <= 0 ? 0 : overlap * std::min(1.0, kernels / exchanges);
}

}  // namespace

KernelSetting kernel_setting(const DeviceKind& device, Precision precision, CudaGraphs graphs) {
  if (device.generic) fail("a generic device has no datasheet to estimate costs from");
  const double peak = peak_flops(device, precision);
  if (peak <= 0 || (is_float8(precision) && device.flops_bf16 <= 0)) {
    fail("device ", device.name, " does not compute in ", to_string(precision));
  }
  KernelConstants constants = device.constants.value_or(usual_constants(device.name));
  if (!device.constants) {
    // A cluster's file may say another efficiency than the kind's own.
    const double relative = device.efficiency / usual_efficiency(device.name);
    constants.product_rate = std::min(best_product_rate, constants.product_rate * relative);
    constants.attention_rate *= relative;
  }
  return {.constants = constants,
          .rates = shared_rates(device.name),
          .peak = peak,
          .wide_peak = is_float8(precision) ? device.flops_bf16 : peak,
          .memory_bandwidth = static_cast<double>(device.memory_bandwidth.bytes_per_second),
          .tensor = {},
          .context = {},
          .expert = {},
          .expert_tensor = {},
          .graphs = graphs,
          .again = {}};
}

namespace {

DeviceGroup group_at(const GroupPlace& place) {
  const int nodes = (place.members + place.in_node - 1) / place.in_node;
  DeviceGroup group = boxes_group(nodes, place.in_node, place.inside, place.between, place.rails);
  group.members = place.members;
  return group;
}

}  // namespace

double collective_seconds(OperationKind kind, double bytes, const GroupPlace& place,
                          const KernelConstants& constants) {
  if (place.members <= 1) return 0;
  return collective_seconds(kind, bytes, group_at(place), constants);
}

double collective_seconds(OperationKind kind, double bytes, const DeviceGroup& group,
                          const KernelConstants& constants) {
  if (group.members <= 1) return 0;
  const Collective collective = collective_of(kind);
  // `peer_seconds` is of a round: an all-reduce goes around twice.
  const double hop = constants.peer_seconds / (collective == Collective::all_reduce ? 2 : 1);
  double best = std::numeric_limits<double>::infinity();
  for (const AlgorithmName& row : collective_algorithms) {
    if (!is_usual(kind, row.algorithm)) continue;
    const auto terms = collective_terms(collective, row.algorithm, group);
    if (terms) best = std::min(best, seconds_of(*terms, group, bytes, hop, constants));
  }
  return constants.message_seconds + best;
}

namespace {

/// Of equal copies that go to any of so many places, the part of them that are the first to come to
/// theirs: copies / places come to a place on average, and 1 - (1 - 1 / places)^copies first ones.
/// Places out of reach get none.
double first_copies(double places, const RowCopies& copies) {
  const double reached = places_in_reach(copies, places);
  return (1 - std::pow(1 - 1 / reached, copies.count)) / (copies.count / reached);
}

}  // namespace

Exchange with_first_copies(const Exchange& exchange, const RowCopies& copies) {
  const int members = exchange.group.members;
  if (copies.count <= 1 || members <= 1) return exchange;
  const double to_members = first_copies(members, copies);
  Exchange first{.group = exchange.group, .bytes = exchange.bytes * to_members};
  for (int i = 0; i < first.group.depth; ++i) {
    GroupLevel& level = first.group.levels[static_cast<std::size_t>(i)];
    const double parts = std::ceil(static_cast<double>(members) / level.inside);
    for (Bandwidth* rate : {&level.rings, &level.port}) {
      if (level.is_box || rate->is_unlimited()) continue;
      rate->bytes_per_second = static_cast<std::int64_t>(
          static_cast<double>(rate->bytes_per_second) * to_members / first_copies(parts, copies));
    }
  }
  return first;
}

double operation_seconds(const Operation& operation, const KernelSetting& setting) {
  const KernelConstants& constants = setting.constants;
  if (is_message(operation.kind)) {
    const GroupPlace place = place_of(operation.group, setting);
    if (place.members <= 1) return 0;
    const Exchange sent = with_first_copies({group_at(place), operation.bytes}, operation.copies);
    return collective_seconds(operation.kind, sent.bytes, sent.group, constants);
  }
  double seconds = operation.bytes / (setting.memory_bandwidth * constants.memory_rate);
  if (operation.kind == OperationKind::product) {
    seconds = std::max(seconds, product_seconds(operation, setting));
  } else if (operation.kind == OperationKind::attention) {
    seconds = std::max(seconds, attention_seconds(operation, setting));
  }
  const double in_turn =
      operation.launches * operation.kernels * operation.parts / parts_at_once(operation, setting);
  return seconds + constants.kernel_seconds * in_turn;
}

LayerSeconds layer_seconds(const LayerOperations& layer, Recomputed recompute,
                           const KernelSetting& setting) {
  return layer_seconds(layer, recompute, setting, {});
}

LayerSeconds layer_seconds(const LayerOperations& layer, Recomputed recompute,
                           const KernelSetting& setting, const MessageSeconds& message_seconds) {
  PassSum forward, again, to_input, to_weight;
  const auto add = [&](PassSum& sum, const Operation& operation, double seconds) {
    const bool message = is_message(operation.kind);
    const bool core = operation.core_attention || operation.kind == OperationKind::attention;
    if (core) sum.attention += seconds;
    sum.part_of(operation, setting) += seconds;
    const bool exchanged = operation.kind == OperationKind::all_to_all;
    if (operation.routed && !(exchanged && setting.overlapped_exchanges))
      sum.routed_device += seconds;
    if (!sends_alone(operation, setting.graphs)) return;
    double host = host_seconds(operation, setting.constants);
    // Members wait for the last of them to come, the longer the more they are.
    if (message)
      host +=
          setting.constants.host_peer_seconds * (place_of(operation.group, setting).members - 1);
    sum.host += host;
    if (operation.routed) sum.routed_host += host;
  };
  for (const Operation& operation : layer.operations) {
    const bool elsewhere = message_seconds && is_message(operation.kind);
    const double seconds =
        elsewhere ? message_seconds(operation) : operation_seconds(operation, setting);
    switch (operation.pass) {
      case Pass::forward:
        add(forward, operation, seconds);
        if (recompute == Recomputed::full ||
            (recompute == Recomputed::selective && attends(operation)) ||
            is_again(operation, layer, setting.again)) {
          add(again, operation, seconds);
        }
        break;
      case Pass::backward_input: add(to_input, operation, seconds); break;
      case Pass::backward_weight: add(to_weight, operation, seconds); break;
    }
  }
  const std::array passes{&forward, &again, &to_input, &to_weight};
  const double hidden = hidden_exchanges(passes, setting.constants.message_overlap);
  for (PassSum* pass : passes) {
    pass->hide_ring(setting.context.members);
    pass->hide_tensor(setting.constants.message_overlap);
    pass->hide_exchanges(hidden);
  }
  // What weight gradients need is gathered while the input's gradient is computed.
  to_weight.messages = std::max(0.0, to_weight.messages - to_input.kernels);
  return {.forward = forward.seconds_after_counts(),
          .recompute = again.seconds_after_counts(),
          .backward_input = to_input.seconds(),
          .backward_weight = to_weight.seconds(),
          .messages = forward.messages + again.messages + to_input.messages + to_weight.messages};
}

double update_traffic(double states, double gradient, double element) {
  constexpr double wide = 4;
  const double widened = gradient < wide ? gradient + wide : 0;
  return 2 * states + wide + 3 * wide + wide + element + gradient + widened;
}

double rebuild_seconds(const LayerOperations& layer, const KernelSetting& setting) {
  PassSum sum;
  for (const Operation& operation : layer.operations) {
    if (!operation.rebuilds) continue;
    sum.kernels += operation_seconds(operation, setting);
    sum.host += host_seconds(operation, setting.constants);
  }
  return sum.seconds();
}

}  // namespace stagecraft
