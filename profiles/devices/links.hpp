// What joins devices of the built-in kinds, and what no plan gets of their memory. For the tables
// of this folder.
//
// Collective bandwidths are ring "bus bandwidths" of the size nccl-tests reports on such machines;
// point-to-point ones are link rates in one direction. Both are datasheet-grade: measure to be
// sure.

#pragma once

#include "profiles/devices/rows.hpp"

namespace stagecraft::devices {

// --- Links ---

constexpr Bandwidth gigabytes(std::int64_t rate) {
  return {rate * 1'000'000'000};
}
constexpr Bandwidth gigabits(std::int64_t rate) {
  return {rate * 125'000'000};
}

constexpr Link link(std::int64_t latency_ns, Bandwidth point_to_point, Bandwidth collective) {
  return {Duration(latency_ns), point_to_point, collective};
}

inline constexpr Link pcie3 = link(10'000, gigabytes(12), gigabytes(10));
inline constexpr Link pcie4 = link(10'000, gigabytes(24), gigabytes(20));
inline constexpr Link infiniband_edr = link(5'000, gigabits(100), gigabits(100));
inline constexpr Link infiniband_hdr = link(5'000, gigabits(200), gigabits(200));
inline constexpr Link infiniband_ndr = link(5'000, gigabits(400), gigabits(400));
inline constexpr Link ethernet_10 = link(30'000, gigabits(10), gigabits(10));
inline constexpr Link ethernet_25 = link(30'000, gigabits(25), gigabits(25));
inline constexpr Link nvlink1 = link(8'000, gigabytes(20), gigabytes(60));
inline constexpr Link nvlink2 = link(8'000, gigabytes(25), gigabytes(120));
inline constexpr Link nvswitch_a100 = link(5'000, gigabytes(300), gigabytes(230));
inline constexpr Link nvswitch_h100 = link(5'000, gigabytes(450), gigabytes(360));
inline constexpr Link nvswitch_b200 = link(5'000, gigabytes(900), gigabytes(700));
inline constexpr Link shared_memory = link(1'000, gigabytes(8), gigabytes(4));
inline constexpr Link pcie5 = link(10'000, gigabytes(48), gigabytes(40));
/// Where devices reach each other through the host's memory only.
inline constexpr Link pcie4_without_peers = link(15'000, gigabytes(12), gigabytes(8));
inline constexpr Link infiniband_xdr = link(5'000, gigabits(800), gigabits(800));
inline constexpr Link nvswitch_a800 = link(5'000, gigabytes(200), gigabytes(155));
inline constexpr Link nvswitch_h800 = link(5'000, gigabytes(200), gigabytes(160));
/// Between dies of a box of four accelerators, where most pairs have one link.
inline constexpr Link xgmi_mi250x = link(8'000, gigabytes(50), gigabytes(90));
inline constexpr Link xgmi_mi300x = link(8'000, gigabytes(64), gigabytes(310));
inline constexpr Link xgmi_mi355x = link(8'000, gigabytes(76), gigabytes(370));

inline constexpr DeviceFabric slot_pcie3{.pcie = 12}, slot_pcie4{.pcie = 24},
    slot_pcie5{.pcie = 48};
inline constexpr DeviceFabric nvlinks_p100{"NVLink", 4, 20, 18, 12},
    nvlinks_v100{"NVLink", 6, 25, 20, 12}, nvlinks_a100{"NVLink", 12, 25, 20, 24},
    nvlinks_a800{"NVLink", 8, 25, 20, 24}, nvlinks_h100{"NVLink", 18, 25, 20.6, 48},
    nvlinks_h800{"NVLink", 8, 25, 20.6, 48}, nvlinks_b200{"NVLink", 18, 50, 40.1, 48},
    bridges_a100{"NVLink", 12, 25, 20, 24}, bridges_h100{"NVLink", 12, 25, 20.6, 48},
    bridges_rtx3090{"NVLink", 4, 14.0625, 12, 24};
/// RCCL's graph/topo.h: 36 and 48 GB/s of a link's 50 and 64.
inline constexpr DeviceFabric xgmi_links_mi250x{"xGMI", 8, 50, 36, 24},
    xgmi_links_mi300x{"xGMI", 7, 64, 48, 48}, xgmi_links_mi355x{"xGMI", 7, 76.8, 57.6, 48};

// --- Memory that no plan gets ---

/// Buffers of NCCL grow with its channels, so with the links, and with communicators; plans do not
/// count them: three or more took 6 GB there.
inline constexpr Reserve nvswitch_reserve{
    512, 1024,
    "512MiB are CUDA's context, 1GiB one NCCL communicator after an all-reduce (together 1.6 GB: "
    "NVIDIA/nccl issue 864)"};
inline constexpr Reserve eager_reserve{
    1024, 0,
    "1GiB are CUDA's context with all kernels loaded (pytorch/pytorch issues 28394 and 107667)"};
inline constexpr Reserve lazy_reserve{
    512, 0,
    "512MiB are CUDA's context with kernels loaded as needed, from 300 "
    "MB on (pytorch/pytorch issue "
    "107667)"};
inline constexpr Reserve hip_reserve{512, 0, "512MiB are HIP's context, taken as large as CUDA's"};

}  // namespace stagecraft::devices
