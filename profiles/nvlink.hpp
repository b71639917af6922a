// Rings over point-to-point NVLinks, where no switch joins all devices (DGX-1's hybrid cube mesh).

#pragma once

#include <vector>

namespace stagecraft {

/// [a][b]: links between devices a and b, the same both ways.
using NvlinkMatrix = std::vector<std::vector<int>>;

/// One DGX-1 with V100: six links of each device, two cubes of four.
NvlinkMatrix hybrid_cube_mesh();

/// Rings over all these devices, one each way of a cycle, that have their links to themselves: the
/// most there can be. Two devices have as many as links. At most 8 devices.
int nvlink_rings(const NvlinkMatrix& links, const std::vector<int>& devices);

/// The bus bandwidth (as in nccl-tests) of an all-reduce over these devices, in links: the number
/// of rings; without a ring, a chain in both directions, for which the bus bandwidth is 2(n-1)/n
/// links; 0 if the devices are not connected.
double nvlink_bus_links(const NvlinkMatrix& links, const std::vector<int>& devices);

}  // namespace stagecraft
