#include "profiles/link_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/least_squares.hpp"

namespace stagecraft {

namespace {

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

/// What an algorithm does at one level; `rate` is in bytes per second, with the links of the start.
struct LevelShare {
  double hops = 0, share = 0, rate = 1;
};

/// One algorithm: its hops one after the other, its bytes at all levels at once or in turn.
struct Way {
  std::vector<LevelShare> levels;
  bool at_once = true;
};

std::optional<Collective> collective_like(MeasuredOperation operation) {
  switch (operation) {
    case MeasuredOperation::all_reduce: return Collective::all_reduce;
    case MeasuredOperation::reduce_scatter: return Collective::reduce_scatter;
    case MeasuredOperation::all_gather: return Collective::all_gather;
    case MeasuredOperation::all_to_all: return Collective::all_to_all;
    case MeasuredOperation::broadcast:
    case MeasuredOperation::reduce: return Collective::broadcast;
    case MeasuredOperation::gather:
    case MeasuredOperation::scatter:
    case MeasuredOperation::send_receive:
    case MeasuredOperation::hypercube: return {};
  }
  return {};
}

/// With links that have an end, whatever the cluster says.
Cluster limited(Cluster cluster) {
  constexpr Bandwidth start{100'000'000'000};
  for (Level& level : cluster.levels) {
    if (level.link.collective.is_unlimited()) level.link.collective = start;
    if (level.link.point_to_point.is_unlimited()) level.link.point_to_point = start;
  }
  return cluster;
}

double as_rate(Bandwidth bandwidth) {
  return static_cast<double>(bandwidth.bytes_per_second);
}

std::vector<Way> collective_ways(Collective collective, const DeviceGroup& group) {
  std::vector<Way> ways;
  for (const AlgorithmName& row : collective_algorithms) {
    const auto terms = collective_terms(collective, row.algorithm, group);
    if (!terms) continue;
    Way way{.levels = {}, .at_once = terms->at_once};
    for (int i = 0; i < group.depth; ++i) {
      const GroupLevel& level = group.levels[index(i)];
      const auto& term = terms->levels[index(i)];
      way.levels.push_back({static_cast<double>(term.hops),
                            static_cast<double>(term.share) / static_cast<double>(term.of),
                            as_rate(term.on_rings ? level.rings : level.port)});
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

/// Messages between pairs. Each rank to the next: whoever crosses the outermost level waits
/// longest. One with all others: its own ports carry all, at all levels at once. An exchange with
/// the neighbour along each axis of a hypercube, of twice as much each time: levels in turn, and
/// the ranks of a box share its ports.
Way message_way(MeasuredOperation operation, const DeviceGroup& group, const Cluster& cluster) {
  Way way{.levels = {}, .at_once = operation != MeasuredOperation::hypercube};
  const int in_box = group.depth > 0 ? group.levels[index(group.depth - 1)].outside : 1;
  for (int i = 0; i < group.depth; ++i) {
    const GroupLevel& level = group.levels[index(i)];
    const Level& its = cluster.levels[index(level.level)];
    LevelShare share{.rate = as_rate(its.link.point_to_point)};
    const double others =
        static_cast<double>(level.outside - level.inside) / static_cast<double>(group.members);
    switch (operation) {
      case MeasuredOperation::send_receive: share.hops = share.share = i == 0 ? 1 : 0; break;
      case MeasuredOperation::hypercube:
        share.hops = std::log2(level.parts);
        share.share = others;
        if (!level.is_box) {
          share.rate *=
              std::min(1.0, static_cast<double>(its.rails) / in_box) / its.oversubscription;
        }
        break;
      default:
        share.hops = i == 0 ? 1 : 0;
        share.share = others;
        break;
    }
    way.levels.push_back(share);
  }
  return way;
}

class LinkProblem {
 public:
  LinkProblem(const CollectiveLog& log, const Cluster& given)
      : cluster_(limited(given)),
        group_(group_of(log, cluster_)),
        of_messages_(is_of_messages(log.operation)) {
    const auto collective = collective_like(log.operation);
    if (collective) {
      ways_ = collective_ways(*collective, group_);
    } else {
      ways_ = {message_way(log.operation, group_, cluster_)};
    }
  }

  const DeviceGroup& group() const { return group_; }
  std::size_t depth() const { return index(group_.depth); }
  int level(std::size_t i) const { return group_.levels[i].level; }
  const Link& start(std::size_t i) const { return cluster_.levels[index(level(i))].link; }
  double start_rate(std::size_t i) const {
    return as_rate(of_messages_ ? start(i).point_to_point : start(i).collective);
  }

  /// Of each level its latency, then its bandwidth. The quickest algorithm and the slowest level
  /// change from size to size, and the sum of squares has a valley for each choice: the fit starts
  /// at the cluster's links and at some that fit the shortest and the longest time, and goes on
  /// from the best that it found.
  Fit fit(const std::vector<Observation>& rows) const {
    const auto [shortest, longest] = std::ranges::minmax_element(rows, {}, &Observation::seconds);
    const double sooner = shortest->seconds / predicted(*shortest, usual());
    const double faster = predicted(*longest, usual()) / longest->seconds;
    std::optional<Fit> best;
    const auto try_from = [&](const std::vector<double>& values) {
      const Fit found = fit_from(rows, values);
      if (!best || found.cost < best->cost) best = found;
    };
    for (const double latency : {1.0, sooner}) {
      for (const double bandwidth : {1.0, 0.8 * faster, 0.9 * faster, faster, 1.2 * faster}) {
        std::vector<double> values = usual();
        for (std::size_t i = 0; i < depth(); ++i) values[2 * i] *= latency;
        values[1] *= bandwidth;
        try_from(values);
      }
    }
    constexpr int rounds = 3;
    for (int round = 0; round < rounds; ++round) try_from(std::vector<double>(best->values));
    return *best;
  }

  double predicted(const Observation& row, const std::vector<double>& values) const {
    double best = std::numeric_limits<double>::infinity();
    for (const Way& way : ways_) {
      double hops = 0, sending = 0;
      for (std::size_t i = 0; i < way.levels.size(); ++i) {
        const LevelShare& here = way.levels[i];
        hops += here.hops * values[2 * i];
        const double time = static_cast<double>(row.bytes) * here.share /
                            (here.rate * values[2 * i + 1] / start_rate(i));
        sending = way.at_once ? std::max(sending, time) : sending + time;
      }
      best = std::min(best, hops + sending);
    }
    return best;
  }

  /// Whether another bandwidth of this level changes any time by a thousandth.
  bool limits(std::size_t i, const std::vector<Observation>& rows,
              std::vector<double> values) const {
    std::vector<double> slower_level = values;
    slower_level[2 * i + 1] *= 0.98;
    return std::ranges::any_of(rows, [&](const Observation& row) {
      return predicted(row, slower_level) > 1.001 * predicted(row, values);
    });
  }

 private:
  static DeviceGroup group_of(const CollectiveLog& log, const Cluster& cluster) {
    std::vector<int> devices(log.hosts.size());
    std::iota(devices.begin(), devices.end(), 0);
    return device_group(cluster, devices);
  }

  /// Latencies and bandwidths of the cluster's links.
  std::vector<double> usual() const {
    std::vector<double> values;
    for (std::size_t i = 0; i < depth(); ++i) {
      values.push_back(std::clamp(seconds(start(i).latency), 1e-8, 1e-2));
      values.push_back(start_rate(i));
    }
    return values;
  }

  /// How far values are from the usual ones, in powers of e. It holds what the times leave open, as
  /// between levels one of which hides the other; rather than the network between boxes, the
  /// bandwidth inside them is taken to be as it was.
  void add_priors(const std::vector<double>& values, std::vector<double>& residuals) const {
    constexpr double weak = 1e-3, firm = 5e-2;
    const std::vector<double> expected = usual();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_inner = i % 2 == 1 && depth() > 1 && group_.levels[i / 2].is_box;
      residuals.push_back(std::sqrt(is_inner ? firm : weak) * std::log(values[i] / expected[i]));
    }
  }

  /// Libraries change protocols between short and long messages, so that sizes between are slower
  /// than a latency and a bandwidth say. The two shortest and the two longest sizes, which tell one
  /// of the two each, weigh 25 times as much as all the others together.
  static std::vector<double> weights_of(const std::vector<Observation>& rows) {
    std::set<Bytes> sizes;
    for (const Observation& row : rows) sizes.insert(row.bytes);
    constexpr std::size_t at_each_end = 2;
    std::vector<double> weights(rows.size(), 1);
    if (sizes.size() <= 2 * at_each_end) return weights;
    const Bytes shortest = *std::next(sizes.begin(), at_each_end - 1);
    const Bytes longest = *std::prev(sizes.end(), at_each_end);
    const auto is_end = [&](const Observation& row) {
      return row.bytes <= shortest || row.bytes >= longest;
    };
    const auto ends = static_cast<double>(std::ranges::count_if(rows, is_end));
    const double others = static_cast<double>(rows.size()) - ends;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (is_end(rows[i])) weights[i] = std::sqrt(std::max(1.0, 25 * others / ends));
    }
    return weights;
  }

  Fit fit_from(const std::vector<Observation>& rows, const std::vector<double>& from) const {
    std::vector<Unknown> unknowns;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const bool is_latency = i % 2 == 0;
      const double least = is_latency ? 1e-9 : 1e5, most = is_latency ? 1 : 1e14;
      unknowns.push_back({.start = std::clamp(from[i], least, most), .least = least, .most = most});
    }
    const std::vector<double> weights = weights_of(rows);
    return fit_least_squares(unknowns, [&](const std::vector<double>& values) {
      std::vector<double> residuals;
      for (std::size_t i = 0; i < rows.size(); ++i)
        residuals.push_back(weights[i] * std::log(predicted(rows[i], values) / rows[i].seconds));
      add_priors(values, residuals);
      return residuals;
    });
  }

  Cluster cluster_;
  DeviceGroup group_;
  bool of_messages_ = false;
  std::vector<Way> ways_;
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

/// A fit that misses most times says nothing about the links, nor does one of impossible links.
void refuse_useless(const LinkFit& fit, const Cluster& cluster, const std::string& file) {
  const auto refuse = [&](const std::string& message) {
    throw Error(ErrorKind::input, message, SourcePlace{file, 0, 0},
                {"give the cluster it ran on with --cluster, and all sizes of one run"});
  };
  constexpr double useless = 0.5;
  if (fit.mean_error > useless) {
    refuse(concat("no latency and bandwidth explain these times: the best are wrong by ",
                  std::llround(100 * fit.mean_error), " % on average"));
  }
  for (const LevelFit& level : fit.levels) {
    const double memory = as_rate(cluster.kinds.front().memory_bandwidth);
    if (!level.limits || cluster.kinds.front().generic || level.bandwidth <= memory) continue;
    refuse(concat("these times take links of ", format_bandwidth({std::llround(level.bandwidth)}),
                  ", faster than the memory of ", cluster.kinds.front().name, " (",
                  format_bandwidth(cluster.kinds.front().memory_bandwidth),
                  "): nothing was sent between devices"));
  }
}

LevelFit level_fit(const LinkProblem& problem, std::size_t i, const Fit& fit,
                   const std::vector<Observation>& rows, bool of_messages) {
  LevelFit level{.level = problem.level(i), .before = problem.start(i), .after = problem.start(i)};
  level.latency = fit.values[2 * i];
  level.latency_interval = 1.96 * fit.errors[2 * i];
  level.bandwidth = fit.values[2 * i + 1];
  level.bandwidth_interval = 1.96 * fit.errors[2 * i + 1];
  level.limits = problem.limits(i, rows, fit.values);
  level.after.latency = from_seconds(level.latency);
  if (level.limits) {
    Bandwidth& rate = of_messages ? level.after.point_to_point : level.after.collective;
    rate = {std::llround(level.bandwidth)};
  }
  return level;
}

}  // namespace

std::string_view to_string(MeasuredOperation operation) {
  for (const MeasuringProgram& row : measuring_programs) {
    if (row.operation == operation) return row.name;
  }
  return "";
}

bool is_of_messages(MeasuredOperation operation) {
  return !collective_like(operation).has_value();
}

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
  const Fit fit = problem.fit(rows);
  LinkFit result{.levels = {}, .of_messages = is_of_messages(log.operation)};
  for (std::size_t i = 0; i < problem.depth(); ++i)
    result.levels.push_back(level_fit(problem, i, fit, rows, result.of_messages));
  add_errors(result, problem, fit.values, rows);
  refuse_useless(result, cluster, file);
  add_held_out(result, problem, rows);
  return result;
}

}  // namespace stagecraft
