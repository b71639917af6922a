// DAPPLE's planner (Fan et al., PPoPP 2021; HPGO, the Rust program of AlibabaPAI/DAPPLE): its
// formulas and its bandwidths, which are constants of its code, whatever the cluster's links are.

#pragma once

#include <optional>
#include <vector>

#include "planner/baselines/pipedream/pipedream.hpp"

namespace stagecraft {

/// Devices of a stage: per server, from its first free device on, how many were taken before it and
/// how many it takes.
struct DappleDevices {
  std::vector<int> before;
  std::vector<int> taken;
  auto operator<=>(const DappleDevices&) const = default;
  int count() const;
  std::vector<int> after() const;  ///< taken by it and all before, per server
};

/// Equal servers; the first `before[s]` devices of server s are in use.
struct DappleServers {
  int servers = 1;
  int devices_each = 1;
  int devices() const { return servers * devices_each; }
};

/// The three policies: servers that are still empty first (those alone), those in use already
/// (those alone), or one device of each in turn. Each choice once.
std::vector<DappleDevices> dapple_choices(const DappleServers& cluster,
                                          const std::vector<int>& used, int need);

/// Seconds per byte of `split_concat`: from a stage to the next one.
double dapple_transfer(const DappleDevices& from, const DappleDevices& to);
/// Seconds to sum `bytes` bytes of gradients over a stage's devices.
double dapple_all_reduce(const DappleDevices& devices, double bytes);

/// States [first, end) of the order, and where they run, all copies of the pipeline together.
struct DappleStage {
  int first = 0;
  int end = 0;
  DappleDevices devices;
};

struct DapplePlan {
  double latency = 0;  ///< L: seconds per global batch
  double speedup = 0;  ///< over one device
  std::vector<DappleStage> stages;
  std::int64_t compared = 0;
};

/// Samples are counted in profiled microbatches.
struct DappleBatch {
  double scale = 1;      ///< times and activations of the global batch over those profiled
  int microbatches = 1;  ///< time of one pipeline without replicas
};

/// The formula by which it ranks plans: `copies` of the pipeline (its rp) share the batch, the
/// slowest stage or transfer takes `block` seconds for all of it. Its slips stay: fill is not
/// shared by a stage's replicas, the first state of the next stage counts for a stage's gradients
/// too. Infinite if there is no microbatch per copy.
double dapple_latency(const PipedreamStates& states, const DappleBatch& batch, int copies,
                      double block, const std::vector<DappleStage>& stages);

/// The best of its candidates: 2 to all devices' pipelines with copies, straight ones, and all
/// ways to cut into two stages.
std::optional<DapplePlan> dapple_plan(const PipedreamStates& states, const DappleServers& cluster,
                                      const DappleBatch& batch, bool straight);

}  // namespace stagecraft
