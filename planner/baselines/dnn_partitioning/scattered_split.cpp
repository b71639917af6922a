#include "planner/baselines/dnn_partitioning/scattered_split.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "planner/baselines/dnn_partitioning/max_load_annealing.hpp"
#include "planner/baselines/dnn_partitioning/max_load_joined.hpp"
#include "planner/baselines/dnn_partitioning/max_load_packing.hpp"
#include "planner/baselines/dnn_partitioning/max_load_surroundings.hpp"
#include "planner/baselines/dnn_partitioning/max_load_work.hpp"
#include "planner/space/workers.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Walks side by side, one for each power.
constexpr std::array powers{5, 6};

/// Each begins with the best so far. First whole groups move that share tensors of at least a part
/// of the best load: what is in them would not come along node by node.
struct Round {
  int parts = 1;  ///< of the steps
  double least_cost = 1;
  double most_time = 0;  ///< of a group, as a part of the best load
};
constexpr std::array rounds{Round{1, 0.02, 0.25}, Round{1, 0.02, 0.5}, Round{1, 0.1, 0.5},
                            Round{4, 1, 0}};
/// Limits that the proof of a bound tries, with a part of the effort each.
constexpr int most_limits = 12;
/// Groups, the heaviest, whose surroundings are looked at for each.
constexpr std::size_t most_surroundings = 16;

using Placement = std::vector<int>;

/// Folded, with no more devices than nodes; members are the nodes' own numbers.
MaxLoadProblem numbered(MaxLoadProblem problem) {
  const int nodes = static_cast<int>(problem.nodes.size());
  for (int node = 0; node < nodes; ++node) problem.nodes[index(node)].members = {node};
  problem.accelerators = std::min(problem.accelerators, std::max(nodes, 1));
  problem.processors = std::min(problem.processors, std::max(nodes, 1));
  return problem;
}

class ScatteredSearch {
 public:
  ScatteredSearch(const MaxLoadProblem& problem, const ScatteredEffort& effort,
                  const std::stop_token& stop)
      : folded_(folded(problem)), small_(numbered(folded_)), effort_(effort), stop_(stop) {}

  ScatteredAnswer run(const MaxLoadProblem& problem) {
    if (!find_start(problem)) return {.split = {}, .complete = complete_};
    if (!small_.nodes.empty()) improve_and_prove();
    MaxLoadSplit split = to_split();
    split.lower_bound = complete_ ? split.load : std::min(lower_bound_, split.load);
    split.compared = compared_;
    return {.split = split, .complete = complete_};
  }

 private:
  bool find_start(const MaxLoadProblem& problem) {
    if (const auto split = split_by_max_load(problem, effort_.most_downsets, stop_)) {
      compared_ += split->compared;
      adopt(placement_of(*split));
      return true;
    }
    const MaxLoadPacking packing =
        pack_below(small_, MaxLoadWork::infinite, effort_.proof_steps, stop_);
    compared_ += packing.steps;
    complete_ = packing.complete && !packing.found;
    if (packing.found) adopt(*packing.found);
    return packing.found.has_value();
  }

  Placement placement_of(const MaxLoadSplit& split) const {
    std::map<int, int> device_of_member;
    int accelerator = 0, processor = small_.accelerators;
    for (const MaxLoadPart& part : split.parts) {
      const int device = part.on_processor ? processor++ : accelerator++;
      for (const int member : part.members) device_of_member[member] = device;
    }
    Placement placement;
    for (const MaxLoadNode& node : folded_.nodes) {
      placement.push_back(device_of_member.at(node.members.front()));
    }
    return placement;
  }

  /// Takes the placement if it is better, or the first.
  void adopt(const Placement& placement) {
    const double load = load_of(placement);
    if (!best_.empty() && load >= load_) return;
    best_ = placement;
    load_ = load;
  }

  std::vector<int> nodes_on(const Placement& placement, int device) const {
    std::vector<int> nodes;
    for (std::size_t node = 0; node < placement.size(); ++node) {
      if (placement[node] == device) nodes.push_back(static_cast<int>(node));
    }
    return nodes;
  }

  double load_of(const Placement& placement) const {
    double most = 0;
    for (int device = 0; device < small_.accelerators + small_.processors; ++device) {
      const bool on_processor = device >= small_.accelerators;
      const double load = stagecraft::load_of(small_, nodes_on(placement, device), on_processor);
      most = std::max(most, load);
    }
    return most;
  }

  void improve_and_prove() {
    lower_bound_ = work_bound();
    prove_or_improve(effort_.proof_steps / most_limits);
    for (const Round& round : rounds) {
      if (complete_ || stop_.stop_requested()) break;
      walk(round);
    }
    if (!complete_) prove_or_improve(effort_.proof_steps);
    if (!complete_) raise_bound();
  }

  /// All devices together do the work in no less.
  double work_bound() const {
    const MaxLoadWork work(small_);
    double total = 0;
    for (const MaxLoadNode& node : small_.nodes) total += work.of(node);
    return total / work.capacity(small_.accelerators, small_.processors);
  }

  /// One round of walks from the best placement.
  void walk(const Round& round) {
    const auto groups = groups_below(small_, load_ * (1 + load_rounding));
    if (!groups) return;
    const MaxLoadProblem fine = joined(small_, *groups);
    const std::vector<int> coarse =
        groups_by_cost(fine, round.least_cost * load_, round.most_time * load_);
    const MaxLoadProblem problem = joined(fine, coarse);
    Placement start;
    for (const MaxLoadNode& group : problem.nodes) {
      start.push_back(best_[index(fine.nodes[index(group.members.front())].members.front())]);
    }
    if (!fits(problem, start)) return;
    int parts = 0;
    for (const Round& each : rounds) parts += each.parts;
    const auto nodes = static_cast<std::int64_t>(problem.nodes.size());
    const std::int64_t all = std::min(effort_.steps, nodes * effort_.steps_per_node);
    const auto walks = static_cast<std::int64_t>(powers.size());
    const std::int64_t steps = all * round.parts / parts / walks;
    std::vector<Placement> found(powers.size());
    Workers(effort_.threads).run(static_cast<int>(walks), [&](int, int number) {
      const AnnealingSettings settings{.steps = steps,
                                       .seed = seed_ + static_cast<std::uint32_t>(number),
                                       .doublings = powers[index(number)],
                                       .scale = load_};
      found[index(number)] = annealed(problem, start, settings, stop_);
    });
    seed_ += static_cast<std::uint32_t>(walks);
    compared_ += steps * walks;
    for (const Placement& placement : found) adopt(on_nodes(fine, on_nodes(problem, placement)));
  }

  /// The placement of groups as one of the nodes that they were made of.
  static Placement on_nodes(const MaxLoadProblem& problem, const Placement& placement) {
    std::size_t nodes = 0;
    for (const MaxLoadNode& group : problem.nodes) nodes += group.members.size();
    Placement result(nodes);
    for (std::size_t group = 0; group < placement.size(); ++group) {
      for (const int node : problem.nodes[group].members) result[index(node)] = placement[group];
    }
    return result;
  }

  static bool fits(const MaxLoadProblem& problem, const Placement& placement) {
    std::vector<double> size(index(problem.accelerators), 0);
    for (std::size_t node = 0; node < placement.size(); ++node) {
      if (placement[node] >= problem.accelerators) continue;
      if (!problem.nodes[node].accelerated) return false;
      size[index(placement[node])] += problem.nodes[node].size;
    }
    return std::all_of(size.begin(), size.end(),
                       [&](double each) { return each <= problem.memory; });
  }

  /// Looks for a placement below the limit. Whether there is none for sure.
  bool is_impossible(double limit, std::int64_t steps) {
    const auto groups = groups_below(small_, limit);
    if (!groups) return true;
    const MaxLoadProblem problem = joined(small_, *groups);
    if (is_one_too_heavy(problem, limit)) return true;
    const MaxLoadPacking packing = pack_below(problem, limit, steps, stop_);
    compared_ += packing.steps;
    if (packing.found) adopt(on_nodes(problem, *packing.found));
    return packing.complete && !packing.found;
  }

  /// Whether one of the heaviest nodes loads every device with the limit, whatever is beside it.
  bool is_one_too_heavy(const MaxLoadProblem& problem, double limit) const {
    std::vector<int> heaviest(problem.nodes.size());
    std::iota(heaviest.begin(), heaviest.end(), 0);
    std::stable_sort(heaviest.begin(), heaviest.end(), [&](int one, int other) {
      return problem.nodes[index(one)].accelerator > problem.nodes[index(other)].accelerator;
    });
    heaviest.resize(std::min(heaviest.size(), most_surroundings));
    return std::any_of(heaviest.begin(), heaviest.end(), [&](int node) {
      if (problem.processors > 0 && problem.nodes[index(node)].processor < limit) return false;
      return least_load_with(problem, node) >= limit;
    });
  }

  void prove_or_improve(std::int64_t steps) {
    for (double before = 2 * load_; load_ < before && load_ > 0;) {
      before = load_;
      complete_ = is_impossible(load_ * (1 - load_rounding), steps);
    }
    if (load_ <= 0) complete_ = true;
  }

  /// The largest limit, about, of which is proved that nothing is below it.
  void raise_bound() {
    double open = load_;
    for (int i = 0; i < most_limits && !stop_.stop_requested(); ++i) {
      const double limit = (lower_bound_ + open) / 2;
      if (is_impossible(limit, effort_.proof_steps / 6)) {
        lower_bound_ = limit * (1 - load_rounding);
      } else {
        open = limit;
      }
    }
  }

  MaxLoadSplit to_split() const {
    MaxLoadSplit split;
    for (int device = 0; device < small_.accelerators + small_.processors; ++device) {
      const std::vector<int> nodes = nodes_on(best_, device);
      if (nodes.empty()) continue;
      const bool on_processor = device >= small_.accelerators;
      MaxLoadPart part{.members = {},
                       .on_processor = on_processor,
                       .load = stagecraft::load_of(small_, nodes, on_processor)};
      for (const int node : nodes) {
        const std::vector<int>& members = folded_.nodes[index(node)].members;
        part.members.insert(part.members.end(), members.begin(), members.end());
      }
      std::sort(part.members.begin(), part.members.end());
      split.load = std::max(split.load, part.load);
      split.parts.push_back(std::move(part));
    }
    return split;
  }

  MaxLoadProblem folded_;
  MaxLoadProblem small_;
  ScatteredEffort effort_;
  std::stop_token stop_;
  Placement best_;
  double load_ = 0, lower_bound_ = 0;
  bool complete_ = false;
  std::uint32_t seed_ = 1;
  std::int64_t compared_ = 0;
};

}  // namespace

ScatteredAnswer split_without_contiguity(const MaxLoadProblem& problem,
                                         const ScatteredEffort& effort,
                                         const std::stop_token& stop) {
  return ScatteredSearch(problem, effort, stop).run(problem);
}

}  // namespace stagecraft
