#include "profiles/link_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "profiles/error.hpp"
#include "profiles/least_squares.hpp"

namespace stagecraft {

namespace {

/// Seconds by the quickest algorithm with another link at one level.
double seconds_with(const DeviceGroup& group, Collective collective, Bytes bytes, int level,
                    double latency, double factor) {
  double best = std::numeric_limits<double>::infinity();
  for (const AlgorithmName& row : collective_algorithms) {
    const auto terms = collective_terms(collective, row.algorithm, group);
    if (!terms) continue;
    double hops = 0, sending = 0;
    for (int i = 0; i < group.depth; ++i) {
      const GroupLevel& here = group.levels[static_cast<std::size_t>(i)];
      const auto& term = terms->levels[static_cast<std::size_t>(i)];
      const bool fitted = here.level == level;
      const Bandwidth rate = term.on_rings ? here.rings : here.port;
      hops += term.hops * (fitted ? latency : seconds(here.latency));
      const double time = static_cast<double>(bytes) * static_cast<double>(term.share) /
                          static_cast<double>(term.of) /
                          (static_cast<double>(rate.bytes_per_second) * (fitted ? factor : 1));
      sending = terms->at_once ? std::max(sending, time) : sending + time;
    }
    best = std::min(best, hops + sending);
  }
  return best;
}

struct Observation {
  Bytes bytes = 0;
  double seconds = 0;
};

/// Both ways of each row; times of nothing say nothing.
std::vector<Observation> observations_of(const CollectiveLog& log) {
  std::vector<Observation> result;
  for (const MeasuredCollective& row : log.rows) {
    if (row.bytes == 0) continue;
    for (const double time : {row.out_of_place, row.in_place})
      if (time > 0) result.push_back({row.bytes, time});
  }
  return result;
}

class LinkProblem {
 public:
  LinkProblem(const CollectiveLog& log, const Cluster& cluster)
      : collective_(log.collective), group_(group_of(log, cluster)) {
    level_ = group_.depth > 0 ? group_.levels[0].level : 0;
    start_ = cluster.levels[static_cast<std::size_t>(level_)].link;
    base_ = start_.collective.is_unlimited()
                ? 1e11
                : static_cast<double>(start_.collective.bytes_per_second);
    if (start_.collective.is_unlimited()) {
      Cluster limited = cluster;
      limited.levels[static_cast<std::size_t>(level_)].link.collective = {std::llround(base_)};
      group_ = group_of(log, limited);
    }
  }

  int level() const { return level_; }
  const Link& start() const { return start_; }
  const DeviceGroup& group() const { return group_; }

  Fit fit(const std::vector<Observation>& rows) const {
    const double latency = std::clamp(seconds(start_.latency), 1e-7, 1e-2);
    return fit_least_squares(
        {{.start = latency, .least = 1e-9, .most = 1, .prior = 1e-4},
         {.start = base_, .least = 1e5, .most = 1e14, .prior = 1e-4}},
        [&](const std::vector<double>& values) {
          std::vector<double> residuals;
          for (const Observation& row : rows)
            residuals.push_back(std::log(predicted(row, values) / row.seconds));
          return residuals;
        });
  }

  double predicted(const Observation& row, const std::vector<double>& values) const {
    return seconds_with(group_, collective_, row.bytes, level_, values[0], values[1] / base_);
  }

 private:
  static DeviceGroup group_of(const CollectiveLog& log, const Cluster& cluster) {
    std::vector<int> devices(log.hosts.size());
    std::iota(devices.begin(), devices.end(), 0);
    return device_group(cluster, devices);
  }

  Collective collective_;
  DeviceGroup group_;
  int level_ = 0;
  Link start_;
  double base_ = 1;
};

void add_errors(LinkFit& result, const LinkProblem& problem, const std::vector<double>& values,
                const std::vector<Observation>& rows) {
  for (const Observation& row : rows) {
    const double error = std::abs(problem.predicted(row, values) / row.seconds - 1);
    result.mean_error += error / static_cast<double>(rows.size());
    if (error < result.worst_error) continue;
    result.worst_error = error;
    result.worst_bytes = row.bytes;
  }
}

/// Every fourth size is fitted.
void add_held_out(LinkFit& result, const LinkProblem& problem,
                  const std::vector<Observation>& rows) {
  std::vector<Bytes> sizes;
  for (const Observation& row : rows) sizes.push_back(row.bytes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() < 8) return;
  std::vector<Observation> fitted, others;
  for (const Observation& row : rows) {
    const auto at = std::lower_bound(sizes.begin(), sizes.end(), row.bytes) - sizes.begin();
    (at % 4 == 0 ? fitted : others).push_back(row);
  }
  const std::vector<double> values = problem.fit(fitted).values;
  for (const Observation& row : others) {
    result.held_out_error += std::abs(problem.predicted(row, values) / row.seconds - 1) /
                             static_cast<double>(others.size());
  }
  result.held_out = static_cast<int>(others.size());
}

}  // namespace

LinkFit fit_link(const CollectiveLog& log, const Cluster& cluster, const std::string& file) {
  if (static_cast<int>(log.hosts.size()) > device_count(cluster)) {
    throw Error(ErrorKind::input,
                concat("the log has ", log.hosts.size(), " ranks, the cluster ",
                       device_count(cluster), " devices"),
                SourcePlace{file, 0, 0}, {"give the cluster it ran on with --cluster"});
  }
  const LinkProblem problem(log, cluster);
  const std::vector<Observation> rows = observations_of(log);
  if (rows.size() < 3 || problem.group().members < 2) {
    throw Error(
        ErrorKind::input,
        "a latency and a bandwidth need two ranks and at least three times of sizes above 0",
        SourcePlace{file, 0, 0}, {"run nccl-tests with more sizes: -b 8 -e 1G -f 2"});
  }
  LinkFit result{.level = problem.level(), .before = problem.start(), .after = problem.start()};
  const Fit fit = problem.fit(rows);
  result.latency = fit.values[0];
  result.bandwidth = fit.values[1];
  result.latency_interval = 1.96 * fit.errors[0];
  result.bandwidth_interval = 1.96 * fit.errors[1];
  result.after.latency = from_seconds(result.latency);
  result.after.collective = {std::llround(result.bandwidth)};
  add_errors(result, problem, fit.values, rows);
  add_held_out(result, problem, rows);
  return result;
}

}  // namespace stagecraft
