#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "planner/baselines/dapple/dapple.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

// Bytes per second, from its environment/*.rs.
constexpr double nvlink = 25e9;
constexpr double ethernet = 1e9;
constexpr double ethernet_collective = 3e9;

/// The only server that has any of the devices, if there is one.
std::optional<std::size_t> only_server(const DappleDevices& devices) {
  std::optional<std::size_t> found;
  for (std::size_t server = 0; server < devices.taken.size(); ++server) {
    if (devices.taken[server] == 0) continue;
    if (found) return {};
    found = server;
  }
  return found;
}

/// Takes devices of the servers for which `may` holds, in order; nothing if they have too few.
template <class May>
std::optional<DappleDevices> fill(const DappleServers& cluster, const std::vector<int>& used,
                                  int need, May may) {
  DappleDevices devices{used, std::vector<int>(used.size())};
  for (std::size_t server = 0; server < used.size() && need > 0; ++server) {
    if (!may(used[server])) continue;
    devices.taken[server] = std::min(need, cluster.devices_each - used[server]);
    need -= devices.taken[server];
  }
  if (need > 0) return {};
  return devices;
}

DappleDevices scatter(const DappleServers& cluster, const std::vector<int>& used, int need) {
  DappleDevices devices{used, std::vector<int>(used.size())};
  while (need > 0) {
    for (std::size_t server = 0; server < used.size() && need > 0; ++server) {
      if (used[server] + devices.taken[server] == cluster.devices_each) continue;
      ++devices.taken[server];
      --need;
    }
  }
  return devices;
}

/// What a range of states sums to, both ends included.
double range(const PipedreamStates& states, double PipedreamState::*figure, int first, int last) {
  return states.states[index(last)].*figure -
         (first > 0 ? states.states[index(first - 1)].*figure : 0);
}

}  // namespace

int DappleDevices::count() const {
  return std::accumulate(taken.begin(), taken.end(), 0);
}

std::vector<int> DappleDevices::after() const {
  std::vector<int> sum = before;
  for (std::size_t server = 0; server < sum.size(); ++server) sum[server] += taken[server];
  return sum;
}

std::vector<DappleDevices> dapple_choices(const DappleServers& cluster,
                                          const std::vector<int>& used, int need) {
  const int free = cluster.devices() - std::accumulate(used.begin(), used.end(), 0);
  if (need > free) return {};
  std::set<DappleDevices> choices{scatter(cluster, used, need)};
  const auto is_fresh = [](int taken) { return taken == 0; };
  if (auto fresh = fill(cluster, used, need, is_fresh)) choices.insert(*std::move(fresh));
  const auto in_use = [](int taken) { return taken > 0; };
  if (auto appended = fill(cluster, used, need, in_use)) choices.insert(*std::move(appended));
  return {choices.begin(), choices.end()};
}

double dapple_transfer(const DappleDevices& from, const DappleDevices& to) {
  const std::optional<std::size_t> source = only_server(from);
  const std::optional<std::size_t> target = only_server(to);
  if (source && target && *source == *target) return 1 / nvlink;
  if (!target) return 1 / ethernet_collective;
  const int elsewhere = from.count() - from.taken[*target];
  return static_cast<double>(elsewhere) / from.count() / ethernet;
}

double dapple_all_reduce(const DappleDevices& devices, double bytes) {
  const int count = devices.count();
  if (count == 1) return 0;
  const double traffic = 2 * bytes * (count - 1) / count;
  if (!only_server(devices)) return traffic / ethernet_collective;
  const int half = count / 2;  // theirs rounds half of an odd number down
  return traffic / nvlink / half;
}

double dapple_latency(const PipedreamStates& states, const DappleBatch& batch, int copies,
                      double block, const std::vector<DappleStage>& stages) {
  const int microbatches = batch.microbatches / copies;
  if (microbatches == 0) return std::numeric_limits<double>::infinity();
  const double each = 1.0 / copies / microbatches;
  block /= microbatches;
  const double compute = batch.scale * states.states.back().compute;
  double latency = block * (microbatches - 1) + compute * each;
  double exposed = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const bool is_last = s + 1 == stages.size();
    const int end = stages[s].end;
    if (!is_last) {
      const double bytes = batch.scale * states.states[index(end - 1)].output * each;
      latency += bytes * dapple_transfer(stages[s].devices, stages[s + 1].devices);
    }
    const int counted_end = is_last ? end - 1 : end;
    const double sum =
        dapple_all_reduce(stages[s].devices,
                          range(states, &PipedreamState::parameters, stages[s].first, counted_end));
    exposed = std::max(exposed, sum - static_cast<double>(s) * block);
  }
  return latency + exposed;
}

}  // namespace stagecraft
