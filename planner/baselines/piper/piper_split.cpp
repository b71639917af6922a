// Parametric search: is there a split whose stages all take at most T? Bisection on T finds the
// least, and a last question for anything faster at all proves it.
//
// For a given T, each downset gets, for every s, the fewest devices on which what is beyond it can
// run with replicas that sum to s (Piper's table has the time instead, for every s and number of
// devices, which is devices times as large). Larger downsets come first, as memory depends on the
// stages behind. For one tensor-parallel degree, of the replica counts that are fast enough, the
// smallest is always best, so a larger one matters only where the smaller does not fit. What is
// still to come needs its work in device seconds; with too few devices left for that, a state is
// dropped.

#include "planner/baselines/piper/piper_split.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "planner/baselines/piper/piper_parts.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr int impossible = std::numeric_limits<int>::max();

int rounded_up(int numerator, int denominator) {
  return (numerator + denominator - 1) / denominator;
}

/// Fewer devices are needed from this sum of replicas on.
struct Drop {
  int sum = 0;
  int devices = 0;
};

/// One stage of an answer.
struct Step {
  PiperPart part;
  std::size_t degree = 0;
  int replicas = 1;
};

class Search {
 public:
  Search(const PiperGraph& graph, const Lattice& lattice, PiperParts& parts)
      : graph_(graph),
        lattice_(lattice),
        parts_(parts),
        most_sum_(std::min(graph.microbatches, graph.devices)),
        work_(index(lattice.size()), 0),
        fewest_(index(lattice.size())),
        drops_(index(lattice.size())) {
    for (int d = 1; d <= most_sum_; ++d) {
      if (graph.microbatches % d == 0) divisors_.push_back(d);
    }
    for (int set = 0; set < lattice.size(); ++set) {
      for (const LatticeStep& step : lattice.steps_from(set)) {
        work_[index(step.to)] = work_[index(set)] + device_seconds(graph.nodes[index(step.node)]);
      }
    }
  }

  /// No split is faster than all work on all devices.
  double work_bound() const { return work_.back() / graph_.devices; }

  bool is_possible(double time) {
    const int full = lattice_.size() - 1;
    fewest_[index(full)].assign(index(most_sum_) + 1, 0);
    drops_[index(full)] = {{0, 0}};
    for (int set = full - 1; set >= 0; --set) {
      fewest_[index(set)].assign(index(most_sum_) + 1, impossible);
      const int most = most_devices(set, time);
      for (const PiperPart& part : parts_.beginning_at(set)) extend(set, part, time, most);
      list_drops(set);
    }
    return !drops_[0].empty();
  }

  /// The split that the last question found.
  PiperSplit split(double time) {
    std::vector<Step> steps;
    int set = 0;
    int sum = drops_[0].back().sum;
    while (set + 1 < lattice_.size()) {
      const int devices = fewest_[index(set)][index(sum)];
      while (fewest_[index(set)][index(sum - 1)] == devices) --sum;
      steps.push_back(step_from(set, sum, time));
      set = steps.back().part.above;
      sum -= steps.back().replicas;
    }
    return measured(steps);
  }

 private:
  static double device_seconds(const PiperNode& node) {
    double least = piper_unbounded;
    for (const auto& [degree, choices] : node.choices) {
      for (const PiperChoice& choice : choices) least = std::min(least, degree * choice.time);
    }
    return least;
  }

  /// Devices that may be used beyond the set, so that enough are left for the set itself.
  int most_devices(int set, double time) const {
    const double needed = work_[index(set)] / time;
    const int reserved =
        static_cast<int>(std::min<double>(graph_.devices, std::ceil(needed * (1 - 1e-9))));
    return graph_.devices - reserved;
  }

  void extend(int set, const PiperPart& part, double time, int most) {
    if (drops_[index(part.above)].empty()) return;
    for (std::size_t degree = 0; degree < parts_.degrees().size(); ++degree) {
      extend(set, part, degree, time, most);
    }
  }

  void extend(int set, const PiperPart& part, std::size_t degree, double time, int most) {
    const std::vector<Drop>& behind = drops_[index(part.above)];
    auto drop = behind.begin();  // the first that no smaller number of replicas has served
    for (const int replicas : divisors_) {
      const int devices = replicas * parts_.degrees()[degree];
      const auto has_room = [&](const Drop& it) { return it.devices + devices <= most; };
      drop = std::find_if(drop, behind.end(), has_room);
      const auto end = std::find_if(drop, behind.end(),
                                    [&](const Drop& it) { return it.sum + replicas > most_sum_; });
      if (drop == end) return;
      const int in_flight = parts_.most_in_flight(part, degree, replicas, time,
                                                  rounded_up(drop->sum + replicas, replicas),
                                                  rounded_up((end - 1)->sum + replicas, replicas));
      for (; drop != end && rounded_up(drop->sum + replicas, replicas) <= in_flight; ++drop) {
        int& fewest = fewest_[index(set)][index(drop->sum + replicas)];
        fewest = std::min(fewest, drop->devices + devices);
      }
      if (drop == behind.end()) return;
    }
  }

  void list_drops(int set) {
    drops_[index(set)].clear();
    int least = impossible;
    for (int sum = 0; sum <= most_sum_; ++sum) {
      int& devices = fewest_[index(set)][index(sum)];
      if (devices < least) drops_[index(set)].push_back({sum, devices});
      least = devices = std::min(devices, least);
    }
  }

  /// The stage that the fewest devices at this sum come from.
  Step step_from(int set, int sum, double time) {
    const int devices = fewest_[index(set)][index(sum)];
    for (const PiperPart& part : parts_.beginning_at(set)) {
      for (std::size_t degree = 0; degree < parts_.degrees().size(); ++degree) {
        for (const int replicas : divisors_) {
          if (replicas > sum) break;
          const int behind = fewest_[index(part.above)][index(sum - replicas)];
          if (behind == impossible || behind + replicas * parts_.degrees()[degree] != devices)
            continue;
          const int in_flight = rounded_up(sum, replicas);
          if (parts_.most_in_flight(part, degree, replicas, time, in_flight, in_flight) > 0)
            return {part, degree, replicas};
        }
      }
    }
    assert(false);
    return {};
  }

  PiperSplit measured(const std::vector<Step>& steps) const {
    PiperSplit split;
    int sum = 0;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      sum += step->replicas;
      split.stages.push_back(
          parts_.stage(step->part, step->degree, step->replicas, rounded_up(sum, step->replicas)));
      split.time = std::max(split.time, split.stages.back().time);
    }
    std::reverse(split.stages.begin(), split.stages.end());
    return split;
  }

  const PiperGraph& graph_;
  const Lattice& lattice_;
  PiperParts& parts_;
  int most_sum_;
  std::vector<int> divisors_;
  std::vector<double> work_;              ///< least device seconds of a downset
  std::vector<std::vector<int>> fewest_;  ///< per downset and sum of replicas beyond it, at most
  std::vector<std::vector<Drop>> drops_;  ///< where that changes
};

/// Halves the range between what is impossible and what was found.
class Bisection {
 public:
  Bisection(Search& search, PiperParts& parts, const std::stop_token& stop)
      : search_(search), parts_(parts), stop_(stop) {}

  std::optional<PiperSplit> run() {
    impossible_ = search_.work_bound();
    // Questions near the answer are the quick ones, and the bound is often close.
    const double bound = impossible_;
    for (double step = 0.02; !best_ && step < 1e3 && !stopped(); step *= 2) {
      ask(bound * (1 + step));
    }
    if (!best_ && !ask(piper_unbounded)) return {};
    narrow(1e-6);
    // What is left are few different times: ask for anything faster until there is nothing.
    while (!stopped() && !is_proved_ && best_->time > 0 && probes_ < most_probes) {
      is_proved_ = !ask(best_->time * (1 - rounding));
    }
    const bool is_exact = is_proved_ && !parts_.has_unsettled();
    if (parts_.has_unsettled()) bound_optimistically();
    best_->lower_bound = is_exact ? best_->time : std::min(impossible_, best_->time);
    best_->probes = probes_;
    return best_;
  }

 private:
  static constexpr double rounding = 1e-12;
  static constexpr int most_probes = 200;

  bool stopped() const { return stop_.stop_requested(); }

  bool ask(double time) {
    ++probes_;
    if (search_.is_possible(time)) {
      const PiperSplit found = search_.split(time);
      if (!best_ || found.time < best_->time) best_ = found;
      return true;
    }
    if (!parts_.has_unsettled()) impossible_ = std::max(impossible_, time);
    low_ = std::max(low_, time);
    return false;
  }

  void narrow(double width) {
    low_ = std::max(low_, impossible_);
    while (!stopped() && best_->time - low_ > width * best_->time && probes_ < most_probes) {
      ask(low_ + (best_->time - low_) / 2);
    }
  }

  /// A bound where parts too hard to settle count as fast enough.
  void bound_optimistically() {
    parts_.be_optimistic(true);
    for (double gap = rounding; !stopped() && gap < 1; gap = std::max(10 * gap, 1e-8)) {
      ++probes_;
      const double time = best_->time * (1 - gap);
      if (time <= impossible_) return;
      if (search_.is_possible(time)) continue;
      impossible_ = gap > rounding ? time : best_->time;
      return;
    }
  }

  Search& search_;
  PiperParts& parts_;
  std::stop_token stop_;
  std::optional<PiperSplit> best_;
  double impossible_ = 0;  ///< proved
  double low_ = 0;         ///< no split was found there
  bool is_proved_ = false;
  int probes_ = 0;
};

Dag dag_of(const PiperGraph& graph) {
  Dag dag{.nodes = static_cast<int>(graph.nodes.size()), .edges = {}};
  for (const PiperEdge& edge : graph.edges) dag.edges.push_back({edge.from, edge.to});
  return dag;
}

}  // namespace

void measure(const PiperGraph& graph, PiperStage& stage) {
  std::vector<const PiperChoice*> choice_of(graph.nodes.size(), nullptr);
  double work = 0;
  double sums = 0;
  stage.memory = 0;
  for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
    const PiperNode& node = graph.nodes[index(stage.nodes[i])];
    const PiperChoice& choice = node.choices.at(stage.tensor_parallel)[index(stage.choices[i])];
    choice_of[index(stage.nodes[i])] = &choice;
    work += choice.time;
    sums += 4 * choice.parameters / graph.microbatches;
    stage.memory += choice.memory_per_microbatch * stage.in_flight + choice.memory_fixed;
  }
  double crossing = 0;
  for (const PiperEdge& edge : graph.edges) {
    const PiperChoice* from = choice_of[index(edge.from)];
    const PiperChoice* to = choice_of[index(edge.to)];
    if (from != nullptr && to == nullptr) crossing += 2 * (edge.bytes + from->sync_out.at(edge.to));
    if (from == nullptr && to != nullptr) crossing += 2 * (edge.bytes + to->sync_in.at(edge.from));
  }
  const double replicas = stage.data_parallel;
  const double bytes = crossing / replicas + sums * (replicas - 1) / replicas;
  stage.time = bytes / graph.bandwidth + work / replicas;
}

std::optional<PiperSplit> split_by_piper(const PiperGraph& graph, std::int64_t most_downsets,
                                         const std::stop_token& stop) {
  const Dag dag = dag_of(graph);
  std::optional<Lattice> lattice = downset_lattice(dag, most_downsets);
  const bool is_complete = lattice.has_value();
  if (!is_complete) lattice = linear_lattice(dag, depth_first_order(dag));
  PiperParts parts(graph, *lattice);
  Search search(graph, *lattice, parts);
  std::optional<PiperSplit> best = Bisection(search, parts, stop).run();
  if (!best) return {};
  if (!is_complete) best->lower_bound = std::min(best->time, search.work_bound());
  best->downsets = lattice->size();
  best->parts = parts.size();
  return best;
}

}  // namespace stagecraft
