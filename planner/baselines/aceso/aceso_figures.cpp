#include "planner/baselines/aceso/aceso_figures.hpp"

#include <algorithm>
#include <numeric>

#include "planner/baselines/own_figures.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

double mebibytes(Bytes bytes) {
  return static_cast<double>(bytes) / aceso_mebibyte;
}

double microseconds(Duration time) {
  return seconds(time) * 1e6;
}

std::vector<AcesoOperator> operators_of(const Model& model, const std::vector<LayerCost>& costs) {
  std::vector<AcesoOperator> operators;
  for (const LayerCost& cost : costs) {
    operators.push_back({.forward = microseconds(cost.forward),
                         .backward = microseconds(cost.backward()),
                         .weights = mebibytes(cost.parameters),
                         .activations = mebibytes(cost.saved + cost.output),
                         .backward_reserved = mebibytes(cost.workspace)});
  }
  const std::vector<Bytes> crossing = crossing_bytes(model, costs);
  for (std::size_t cut = 1; cut < costs.size(); ++cut) {
    const double size = mebibytes(crossing[cut]);
    operators[cut - 1].output = size;
    operators[cut].input = size;
  }
  return operators;
}

/// Per byte of weights; Aceso counts gradients by themselves, as large as the weights.
double optimizer_ratio(const std::vector<LayerCost>& costs) {
  double weights = 0;
  double others = 0;
  for (const LayerCost& cost : costs) {
    weights += static_cast<double>(cost.parameters);
    others += static_cast<double>(cost.gradients + cost.optimizer);
  }
  return weights > 0 ? std::max(0.0, others / weights - 1) : 0;
}

std::vector<double> rates_of(const Link& link) {
  constexpr double gigabyte = 1000 * aceso_mebibyte;  // Aceso takes MiB over GB/s as milliseconds
  constexpr double fastest = 1e30;
  const Bandwidth rate = link.point_to_point;
  return {rate.is_unlimited() ? fastest : static_cast<double>(rate.bytes_per_second) / gigabyte};
}

Link link_inside_node(const Problem& problem) {
  const int count = std::min(usable_devices(problem), aceso_devices_per_node(problem));
  std::vector<int> node(static_cast<std::size_t>(count));
  std::iota(node.begin(), node.end(), 0);
  return count > 1 ? group_link(problem.cluster, node) : Link{};
}

/// What 1, 2, 4, … replicas have of each microbatch.
std::vector<std::int64_t> shares_of(const Problem& problem) {
  std::vector<std::int64_t> shares;
  for (const std::int64_t size : problem.microbatches) {
    for (int replicas = 1; replicas <= usable_devices(problem); replicas *= 2) {
      if (size % replicas == 0) shares.push_back(size / replicas);
    }
  }
  std::sort(shares.begin(), shares.end());
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  return shares;
}

bool has_costs(const Problem& problem, const CostSetting& setting) {
  return problem.profile.entries.empty() || find_entry(problem.profile, setting) != nullptr;
}

}  // namespace

int aceso_devices_per_node(const Problem& problem) {
  const auto& levels = problem.cluster.levels;
  return levels.size() < 2 ? usable_devices(problem) : levels.back().count;
}

AcesoDatabase aceso_figures(const Problem& problem) {
  AcesoDatabase database{.family = "profile", .size = problem.profile.model.name};
  const DeviceKind& kind = kind_of(problem.cluster, 0);
  for (const std::int64_t share : shares_of(problem)) {
    for (const int degree : problem.tensor_parallel) {
      const CostSetting setting{.device = kind.generic ? "generic" : kind.name,
                                .microbatch = share,
                                .sequence = problem.sequence,
                                .tensor_parallel = degree,
                                .precision = problem.precision,
                                .kernels = problem.kernels};
      if (!has_costs(problem, setting)) continue;
      const std::vector<LayerCost> costs = layer_costs(problem.profile, kind, setting);
      database.tables.push_back(
          {static_cast<int>(share), degree, operators_of(problem.profile.model, costs)});
      database.optimizer_ratio = optimizer_ratio(costs);
    }
  }
  if (database.tables.empty()) costs_at(problem, problem.tensor_parallel.front());
  const std::size_t layers = problem.profile.model.layers.size();
  for (std::size_t i = 0; i < layers; ++i) database.names.push_back(concat("layer ", i));
  database.chain.resize(layers);
  std::iota(database.chain.begin(), database.chain.end(), 0);
  database.between_devices = rates_of(link_inside_node(problem));
  database.between_nodes = rates_of(slowest_link(problem));
  return database;
}

}  // namespace stagecraft
