#include "profiles/kernel_times.hpp"

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Of the devices that the usual constants were fitted on.
constexpr double usual_efficiency = 0.65;

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

/// Times the bytes of a collective that pass each member's link.
double passes(OperationKind kind, int members) {
  const double share = (members - 1.0) / members;
  return kind == OperationKind::all_reduce ? 2 * share : share;
}

/// The part of the peak: half of the best at `product_depth`, and at `product_outputs`.
double product_seconds(const Operation& operation, const KernelSetting& setting) {
  const KernelConstants& constants = setting.constants;
  const double outputs = operation.batch * operation.m * operation.n;
  const double slowdown =
      (1 + constants.product_depth / operation.k) * (1 + constants.product_outputs / outputs);
  return operation.flops / (setting.peak * constants.product_rate) * slowdown;
}

double attention_seconds(const Operation& operation, const KernelSetting& setting) {
  const KernelConstants& constants = setting.constants;
  return operation.flops / (setting.peak * constants.attention_rate) *
         (1 + constants.attention_length / operation.m);
}

/// Sums of kernels, of messages, and of the host's work for both.
struct PassSum {
  double kernels = 0;
  double messages = 0;
  double host = 0;

  /// The larger of device and host, a little more where they are close: neither is ahead all the
  /// time. Messages are sent by the host, too, and wait for the kernels before them.
  double seconds() const {
    const double device = kernels + messages;
    const double larger = std::max(device, host), smaller = std::min(device, host);
    if (larger <= 0) return 0;
    const double ratio = smaller / larger;
    return larger * std::sqrt(std::sqrt(1 + ratio * ratio * ratio * ratio));
  }
};

}  // namespace

KernelSetting kernel_setting(const DeviceKind& device, Precision precision) {
  if (device.generic) fail("a generic device has no datasheet to estimate costs from");
  const double peak = peak_flops(device, precision);
  if (peak <= 0) fail("device ", device.name, " does not compute in ", to_string(precision));
  KernelConstants constants = device.constants.value_or(usual_constants(device.name));
  if (!device.constants) {
    constants.product_rate *= device.efficiency / usual_efficiency;
    constants.attention_rate *= device.efficiency / usual_efficiency;
  }
  return {.constants = constants,
          .peak = peak,
          .memory_bandwidth = static_cast<double>(device.memory_bandwidth.bytes_per_second),
          .tensor = {},
          .context = {},
          .expert = {},
          .expert_tensor = {}};
}

double ring_bandwidth(const GroupPlace& place, const KernelConstants& constants) {
  const double inside = rate_of(place.inside.collective) * constants.inside_rate;
  if (place.members <= place.in_node) return inside;
  const double ports = rate_of(place.between.collective) * constants.between_rate * place.in_node;
  return place.in_node > 1 ? std::min(inside, ports) : ports;
}

namespace {

/// Each sends to all others at once: to those of its node over its links inside, to all others
/// through its own port.
double exchange_seconds(double bytes, const GroupPlace& place, const KernelConstants& constants) {
  const int near = std::min(place.in_node, place.members);
  const double each = bytes / place.members;
  const double inside =
      each * (near - 1) / (rate_of(place.inside.point_to_point) * constants.inside_rate);
  if (place.members <= near) return inside;
  const double outside = each * (place.members - near) /
                         (rate_of(place.between.point_to_point) * constants.between_rate);
  return std::max(inside, outside);
}

}  // namespace

double collective_seconds(OperationKind kind, double bytes, const GroupPlace& place,
                          const KernelConstants& constants) {
  if (place.members <= 1) return 0;
  const double latency = constants.message_seconds + constants.peer_seconds * (place.members - 1);
  if (kind == OperationKind::all_to_all) return latency + exchange_seconds(bytes, place, constants);
  return latency + passes(kind, place.members) * bytes / ring_bandwidth(place, constants);
}

double operation_seconds(const Operation& operation, const KernelSetting& setting) {
  const KernelConstants& constants = setting.constants;
  if (is_message(operation.kind)) {
    return collective_seconds(operation.kind, operation.bytes, place_of(operation.group, setting),
                              constants);
  }
  double seconds = operation.bytes / (setting.memory_bandwidth * constants.memory_rate);
  if (operation.kind == OperationKind::product) {
    seconds = std::max(seconds, product_seconds(operation, setting));
  } else if (operation.kind == OperationKind::attention) {
    seconds = std::max(seconds, attention_seconds(operation, setting));
  }
  return seconds + constants.kernel_seconds;
}

LayerSeconds layer_seconds(const LayerOperations& layer, Recomputed recompute,
                           const KernelSetting& setting) {
  PassSum forward, again, to_input, to_weight;
  const auto add = [&](PassSum& sum, const Operation& operation, double seconds) {
    const bool message = is_message(operation.kind);
    const bool hides =
        setting.overlapped_messages && message && operation.group == PeerGroup::tensor;
    if (hides) seconds *= 1 - setting.constants.message_overlap;
    (message ? sum.messages : sum.kernels) += seconds;
    sum.host += setting.constants.host_seconds;
    // Members wait for the last of them to come, the longer the more they are.
    if (message) {
      sum.host +=
          setting.constants.host_peer_seconds * (place_of(operation.group, setting).members - 1);
    }
  };
  for (const Operation& operation : layer.operations) {
    const double seconds = operation_seconds(operation, setting);
    switch (operation.pass) {
      case Pass::forward:
        add(forward, operation, seconds);
        if (recompute == Recomputed::full ||
            (recompute == Recomputed::selective && operation.core_attention)) {
          add(again, operation, seconds);
        }
        break;
      case Pass::backward_input: add(to_input, operation, seconds); break;
      case Pass::backward_weight: add(to_weight, operation, seconds); break;
    }
  }
  // What weight gradients need is gathered while the input's gradient is computed.
  to_weight.messages = std::max(0.0, to_weight.messages - to_input.kernels);
  return {.forward = forward.seconds(),
          .recompute = again.seconds(),
          .backward_input = to_input.seconds(),
          .backward_weight = to_weight.seconds(),
          .messages = forward.messages + again.messages + to_input.messages + to_weight.messages};
}

}  // namespace stagecraft
