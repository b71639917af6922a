// How long a layer's operations take on a device: a few named constants turn shapes into seconds.
//
// A matrix product reaches its best rate only if it is deep (k) and has many outputs, attention
// only over long sequences; what memory bandwidth limits moves bytes; a message has a latency and a
// bandwidth, by level. No kernel is shorter than its launch, and none starts before the host has
// sent it: a layer takes the longer of its kernels and of the host's work for them.

#pragma once

#include <functional>

#include "profiles/collectives.hpp"
#include "profiles/layer_modules.hpp"
#include "profiles/operations.hpp"

namespace stagecraft {

/// The place of a group of devices: the number in each node, and the links that join them.
struct GroupPlace {
  int members = 1;
  int in_node = 1;  ///< members that share a node
  Link inside;
  Link between;   ///< rate of one port
  int rails = 8;  ///< ports of a node
};

/// Rate of attention in 8 bits relative to `attention_rate`, without its casts.
struct Float8Attention {
  double forward = 1;
  double backward = 1;
  bool operator==(const Float8Attention&) const = default;
};

/// Rates that are not fitted with the constants, since a few runs cannot distinguish them.
struct SharedRates {
  /// Products in 8 bits reach so much of their own peak, as part of `product_rate`.
  double float8_rate = 0.965;
  /// Slowdown of matrix products by the sums and gathers that they hide, as a fraction of these:
  /// both need memory and multiprocessors.
  double contention = 0.1;
  /// A step grows so much with each doubling of nodes, which all wait for the slowest.
  double straggling = 0.005;
  /// FlashAttention 2, which PyTorch's attention takes, reaches so much of `attention_rate`: from
  /// Hopper on others are 1.5 to 2 times as fast (Shah et al. 2024, FlashAttention-3, section 4.1).
  double flash2_rate = 1;
  /// Attention of heads narrower than 128 reaches (width / 128)^narrow_heads of `attention_rate`: a
  /// score takes as many exponentials, and fewer products.
  double narrow_heads = 0;
  Float8Attention float8_attention;
  bool operator==(const SharedRates&) const = default;
};
SharedRates shared_rates(std::string_view device);

/// Transformer Engine's default recipe (`get_default_fp8_recipe`): `mxfp8` on devices that support
/// it, else `delayed`.
Float8Recipe usual_float8_recipe(std::string_view device);
/// Why layers in this precision do not have the recipe they say, or a device does not; else empty.
std::string against_float8_recipe(const LayerKernels& kernels, Precision precision,
                                  const DeviceKind& device);

/// Why layers with these kernels do not have the fused loss they say; else empty.
std::string against_fused_loss(const LayerKernels& kernels);

/// Why layers of this model with these kernels do not have the fused router they say; else empty.
std::string against_router_fusion(const LayerKernels& kernels, const Model& model);

/// Why messages do not run beside kernels as they say; else empty.
std::string against_overlap(const LayerKernels& kernels, const DeviceKind& device);
/// The reason why selective recomputation cannot repeat these modules of this model's layers; else
/// empty.
std::string against_recompute_modules(const LayerKernels& kernels, const Model& model);

/// `DeviceKind::efficiency` that the usual constants rest on: the built-in kind's own, A100's for
/// kinds nobody knows. Of their peak, products reach no more than `best_product_rate` on any.
double usual_efficiency(std::string_view device);
inline constexpr double best_product_rate = 0.95;

/// A device with the constants in force, and the places of a layer's peers.
struct KernelSetting {
  KernelConstants constants;
  SharedRates rates;
  double peak = 1;              ///< FLOP/s of the precision
  double wide_peak = 1;         ///< rate of the operations that fp8 training runs in bf16; else the
                                ///< same
  double memory_bandwidth = 1;  ///< bytes per second
  GroupPlace tensor, context, expert, expert_tensor;
  bool overlapped_messages = false;   ///< tensor-parallel messages run beside the products
  bool overlapped_exchanges = false;  ///< tokens go to experts beside another microbatch's work
  CudaGraphs graphs = CudaGraphs::none;
  LayerModules again;  ///< done again in backward, beside what a layer's `Recomputed` says
};

/// The device computing in this precision, with its own constants or, scaled to its efficiency, the
/// usual ones; no peers. Throws Error (input) if it does not compute in it.
KernelSetting kernel_setting(const DeviceKind& device, Precision precision,
                             CudaGraphs graphs = CudaGraphs::none);

/// Seconds of a collective of `bytes` (see OperationKind) over the group by the quickest algorithm
/// (collectives.hpp), with the constants' latencies and rates; zero for one member.
double collective_seconds(OperationKind kind, double bytes, const GroupPlace& place,
                          const KernelConstants& constants);
/// The times on devices of a cluster, whose latencies count relative to `usual_hop`.
double collective_seconds(OperationKind kind, double bytes, const DeviceGroup& group,
                          const KernelConstants& constants);
/// An exchange as its links find it.
struct Exchange {
  DeviceGroup group;
  double bytes = 0;
};
/// Of equal copies that go to any member, so many each, only the first to come to a member is sent,
/// and to a node, or part of another level: fewer bytes, which those levels pass faster still. With
/// one copy, nothing changes.
Exchange with_first_copies(const Exchange& exchange, const RowCopies& copies);
/// Latency of a hop over NVLink or InfiniBand in the links of built-in kinds: there it takes
/// `peer_seconds`.
inline constexpr Duration usual_hop{5'000};

/// Bytes of memory traffic for each weight in an update: Adam reads and writes its states, and
/// around it gradients are measured, scaled and cleared, weights copied from their masters, and
/// narrow gradients widened, each a pass over memory. Arguments are bytes of one weight's.
double update_traffic(double states, double gradient, double element);
/// Seconds of one kernel or message, without the host.
double operation_seconds(const Operation& operation, const KernelSetting& setting);

/// Seconds of a layer's passes for one microbatch; `recompute` is what backward does first.
struct LayerSeconds {
  double forward = 0;
  double recompute = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double messages = 0;  ///< part of all these that is collectives

  double backward() const { return backward_input + backward_weight; }
};
LayerSeconds layer_seconds(const LayerOperations& layer, Recomputed recompute,
                           const KernelSetting& setting);
/// Seconds of a message over the peers of its group.
using MessageSeconds = std::function<double(const Operation&)>;
/// The same where messages take what `message` says, over a cluster of any number of levels; of
/// the setting's places only the numbers of members count.
LayerSeconds layer_seconds(const LayerOperations& layer, Recomputed recompute,
                           const KernelSetting& setting, const MessageSeconds& message);
/// Time of the operations that recompute tensors of `Kept::rebuilt`.
double rebuild_seconds(const LayerOperations& layer, const KernelSetting& setting);

}  // namespace stagecraft
