#include "planner/search/heuristics/placement.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/space/device_orders.hpp"

namespace stagecraft {

namespace {

Link faster(const Link& a, const Link& b) {
  return {.latency = std::min(a.latency, b.latency),
          .point_to_point = std::max(a.point_to_point, b.point_to_point),
          .collective = std::max(a.collective, b.collective)};
}

/// An exchange of two parts of a level within the same parent: `size` devices each, from `first`
/// and from `second` on.
struct Exchange {
  int size = 1;
  int first = 0, second = 0;
  auto operator<=>(const Exchange&) const = default;
};

/// All exchanges that move an end of an override, or a device whose kind differs from its
/// neighbour's.
std::vector<Exchange> exchanges(const Cluster& cluster) {
  std::set<int> told_apart;
  for (const LinkOverride& entry : cluster.overrides) told_apart.insert({entry.from, entry.to});
  for (int device = 1; device < device_count(cluster); ++device) {
    if (kind_of(cluster, device) == kind_of(cluster, device - 1)) continue;
    told_apart.insert({device - 1, device});
  }
  std::set<Exchange> all;
  for (const int device : told_apart) {
    int outside = device_count(cluster);
    for (const Level& level : cluster.levels) {
      const int size = outside / level.count;
      const int from = device / outside * outside, own = device / size * size;
      for (int other = from; other < from + outside; other += size) {
        if (other != own) all.insert({size, std::min(own, other), std::max(own, other)});
      }
      outside = size;
    }
  }
  return {all.begin(), all.end()};
}

/// Whether the override is slower in any respect than the relaxed cluster's link between the same
/// devices.
bool is_slow(const LinkOverride& entry, const Cluster& alike) {
  const Link usual = link_between(alike, entry.from, entry.to);
  return !(slower(usual, entry.link) == usual);
}

/// A cover of the slow links by devices, chosen greedily: repeatedly the device with the most
/// remaining slow links.
std::vector<int> ends_of_slow_links(const Cluster& cluster, const Cluster& alike) {
  std::vector<LinkOverride> left = cluster.overrides;
  std::erase_if(left, [&](const LinkOverride& entry) { return !is_slow(entry, alike); });
  std::vector<int> ends;
  while (!left.empty()) {
    std::map<int, int> links;
    for (const LinkOverride& entry : left) {
      ++links[entry.from];
      ++links[entry.to];
    }
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    ends.push_back(std::max_element(links.begin(), links.end(), fewer)->first);
    std::erase_if(left, [&](const LinkOverride& entry) {
      return entry.from == ends.back() || entry.to == ends.back();
    });
  }
  return ends;
}

/// The problem without these devices.
Problem without(Problem problem, const std::vector<int>& shunned) {
  std::vector<int> left = devices_in_use(problem);
  std::erase_if(left, [&](int device) { return std::ranges::count(shunned, device) > 0; });
  problem.devices.reset();
  problem.excluded = devices_other_than(left, problem.cluster);
  return problem;
}

class Placement {
 public:
  Placement(const Space& space, const Candidate& candidate, Effort& effort)
      : space_(space), plan_(candidate.plan), effort_(effort) {
    for (const Stage& stage : plan_.stages) {
      chunks_ += static_cast<std::int64_t>(stage.devices.size());
    }
    best_.candidate = candidate;
    best_.candidate.prediction.reset();
    best_.order.resize(static_cast<std::size_t>(device_count(space.cluster())));
    std::iota(best_.order.begin(), best_.order.end(), 0);
    try_out(best_.order);
  }

  Placed run() {
    const std::vector<Exchange> moves = exchanges(space_.cluster());
    for (bool better = true; better;) {
      better = false;
      for (const Exchange& move : moves) {
        if (effort_.is_spent()) return std::move(best_);
        better = try_out(exchanged(move)) || better;
      }
    }
    return std::move(best_);
  }

 private:
  /// The order of devices after the exchange.
  std::vector<int> exchanged(const Exchange& move) const {
    std::vector<int> order = best_.order;
    for (int& device : order) {
      const int in_first = device - move.first, in_second = device - move.second;
      if (in_first >= 0 && in_first < move.size) {
        device = move.second + in_first;
      } else if (in_second >= 0 && in_second < move.size) {
        device = move.first + in_second;
      }
    }
    return order;
  }

  bool try_out(const std::vector<int>& order) {
    const Plan plan = renumbered(plan_, order);
    if (!is_wanted(space_, plan)) return false;
    effort_.spend(2 * steps_per_simulated_instruction * plan.batch.microbatches * chunks_);
    Candidate candidate = space_.evaluate(best_.candidate.name, plan);
    if (!candidate.prediction || !candidate.prediction->fits) return false;
    const auto& known = best_.candidate.prediction;
    if (known && pace(*candidate.prediction) >= pace(*known)) return false;
    best_ = {order, std::move(candidate)};
    return true;
  }

  const Space& space_;
  Plan plan_;
  Effort& effort_;
  std::int64_t chunks_ = 0;
  Placed best_;
};

}  // namespace

Cluster with_best_links(const Cluster& cluster) {
  Cluster best = cluster;
  best.overrides.clear();
  for (const LinkOverride& entry : cluster.overrides) {
    int inside = device_count(cluster);
    for (Level& level : best.levels) {
      inside /= level.count;
      if (entry.from / inside == entry.to / inside) continue;
      level.link = faster(level.link, entry.link);
      break;
    }
  }
  return best;
}

Cluster with_fastest_links(const Cluster& cluster) {
  Cluster flat = with_best_links(cluster);
  Link fastest = flat.levels.front().link;
  for (const Level& level : flat.levels) fastest = faster(fastest, level.link);
  fastest.latency = Duration{0};
  flat.levels = {{.count = device_count(cluster), .link = fastest}};
  flat.positions.clear();
  return flat;
}

Problem with_best_links(Problem problem) {
  problem.cluster = with_best_links(problem.cluster);
  return problem;
}

std::vector<Problem> questions_to_place(const Problem& problem) {
  std::vector<Problem> questions{with_best_links(problem)};
  const Problem& alike = questions.front();
  std::optional<Problem> clear;
  const std::vector<int> shunned = ends_of_slow_links(problem.cluster, alike.cluster);
  if (!shunned.empty() && std::ssize(shunned) * 2 < device_count(problem.cluster))
    clear = without(alike, shunned);
  if (!problem.straight) {
    Problem straight = alike;
    straight.straight = true;
    questions.push_back(std::move(straight));
  }
  if (clear && available_devices(*clear) > 0) questions.push_back(*std::move(clear));
  return questions;
}

Placed place(const Space& space, const Candidate& candidate, Effort& effort) {
  return Placement(space, candidate, effort).run();
}

}  // namespace stagecraft
