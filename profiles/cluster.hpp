// The machines: devices of one or several kinds, and the links between them.
//
// Links form a hierarchy, outermost first ("16 nodes of 8 devices"): two devices talk over the
// level at which their positions first differ. Point-to-point and collective bandwidth are separate
// facts: an all-reduce rarely reaches line rate.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/kernel_constants.hpp"
#include "profiles/model.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

/// A type of device with datasheet figures; `source` says where they are from.
struct DeviceKind {
  std::string name;
  Bytes memory = 0;
  bool memory_unlimited = false;
  double flops_fp64 = 0, flops_fp32 = 0, flops_bf16 = 0, flops_fp16 = 0,
         flops_fp8 = 0;  ///< dense peak per second; 0 = not supported
  Bandwidth memory_bandwidth;
  /// Part of the peak that large matrix products reach in practice, used only where nothing was
  /// measured.
  double efficiency = 1.0;
  /// Fitted to measurements; they take the place of `efficiency` for transformers' layers.
  std::optional<KernelConstants> constants;
  /// Runs a profile's times as they stand, whatever device they were measured on.
  bool generic = false;
  std::string source;
  /// The part of `memory` that plans cannot use: the framework's context, buffers of its
  /// communication library, and memory that its allocator cannot use. `reserve_source` is the
  /// source of the figure.
  Bytes reserve = 0;
  std::string reserve_source;
  std::optional<double> price_per_hour;  ///< price of one device, in any currency; datasheets have
                                         ///< none
  bool operator==(const DeviceKind&) const = default;
};
double peak_flops(const DeviceKind& kind, Precision precision);
/// The part of a device's limited memory that plans may use.
inline Bytes usable_memory(const DeviceKind& kind) {
  return kind.memory - kind.reserve;
}

struct Link {
  Duration latency{0};
  Bandwidth point_to_point =
      Bandwidth::unlimited();  ///< one direction, between one pair of devices
  Bandwidth collective =
      Bandwidth::unlimited();  ///< bus bandwidth of a ring all-reduce (nccl-tests' busbw)
  bool operator==(const Link&) const = default;
};

/// More are taken for a mistake.
inline constexpr int most_levels = 6;

/// `count` equal parts joined by `link`; the innermost level joins the devices of a box.
struct Level {
  int count = 1;
  Link link;
  /// Network ports of each box, of a device or more each, that collectives use side by side. The
  /// innermost level has none.
  int rails = 1;
  /// Oversubscription, at least 1: the rate of all ports below the level, relative to the rate of
  /// the level.
  double oversubscription = 1;
  bool operator==(const Level&) const = default;
};

/// A connection that differs from the hierarchy's, in one direction only.
struct LinkOverride {
  int from = 0;
  int to = 0;
  Link link;
  bool operator==(const LinkOverride&) const = default;
};

struct Cluster {
  std::string name;
  std::vector<DeviceKind> kinds;
  std::vector<int> devices;  ///< the kind (index into `kinds`) of each device, in order of position
  std::vector<Level>
      levels;  ///< outermost first; the product of the counts is the number of devices
  std::vector<LinkOverride> overrides;
  /// The position of each device, to which levels and overrides refer; empty: its own number. Files
  /// have none; searches use it to take the devices in another order.
  std::vector<int> positions = {};
  bool operator==(const Cluster&) const = default;
};

/// More are taken for a slip of the keyboard.
inline constexpr int most_devices = 1'000'000;

/// Throws Error (input) unless counts match, kinds exist, and all figures are positive.
void validate(const Cluster& cluster);

int device_count(const Cluster& cluster);
const DeviceKind& kind_of(const Cluster& cluster, int device);
/// See `Cluster::positions`.
int position_of(const Cluster& cluster, int device);
std::vector<int> positions_of(const Cluster& cluster, std::vector<int> devices);
/// The link from one device to another (different) one.
Link link_between(const Cluster& cluster, int from, int to);
/// The link from one position to another.
Link link_of_positions(const Cluster& cluster, int from, int to);
/// The link with the slower of both latencies and bandwidths.
Link slower(const Link& a, const Link& b);
/// The slowest link among the devices: what a ring over them runs at.
Link group_link(const Cluster& cluster, const std::vector<int>& devices);

/// One message: latency plus bytes at the point-to-point bandwidth.
Duration message_time(const Link& link, Bytes bytes);
/// Ring all-reduce of `bytes` over n members: 2(n-1) steps of latency, 2(n-1)/n of the bytes at the
/// collective bandwidth.
Duration all_reduce_time(const Link& link, int members, Bytes bytes);
/// Half of that: reduce-scatter or all-gather.
Duration reduce_scatter_time(const Link& link, int members, Bytes bytes);

std::vector<std::string>
builtin_device_kinds();  ///< p100 v100 a100 a100-80gb h100 h200 b200 gb200 rtx4090 cpu generic
DeviceKind builtin_device_kind(std::string_view name);

std::vector<std::string> builtin_clusters();
/// A built-in name (dgx-a100, hgx-h100, gb200-nvl72, v100-pcie-10gbe, … each also as
/// "4xdgx-a100"), or an expression
/// `[COUNTx]…DEVICE[@LINK[,LINK…]]`, outermost level first: "8xh100", "16x8xh100@400Gb/s",
/// "4x4xgeneric@1.25GB/s,10GB/s". A LINK is a bandwidth and, behind colons, what else differs from
/// the device kind's own: "400Gb/s:5us:collective=45GB/s:rails=8:oversubscription=7".
/// A level without one takes the device kind's own. Throws Error (usage) that says what is wrong
/// and where in the text.
Cluster parse_cluster(std::string_view text);
/// The expression with the largest power of two of devices in each innermost part, which suits
/// degrees of parallelism ("4x72xgb200": "4x64xgb200", "gb200-nvl72": "64xgb200"). Nothing if that
/// is the number already, if there are fewer than six or more than a box has, or if the text is not
/// an expression.
std::optional<std::string> with_narrower_boxes(std::string_view text);
/// In a sentence: that "144xgb300" are more devices than a box has, and so machines of one each,
/// which few mean. Empty for other expressions, for those that say a link, and for other texts.
std::string why_single_devices(std::string_view text);

// stagecraft-cluster/1; the annotated example opens cluster_json.cpp.
Cluster read_cluster(const class Json& json);
std::string write_cluster(const Cluster& cluster);

/// A built-in name, an expression or a file, in this order; an existing file wins over nothing
/// else.
Cluster load_cluster(std::string_view argument);

}  // namespace stagecraft
