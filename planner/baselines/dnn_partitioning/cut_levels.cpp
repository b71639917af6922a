// A part between two cuts is loaded with its work and with the tensors that cross one of them and
// have some of their nodes in the part. Those are all tensors that cross one of them, but for
// tensors that pass the part by, from before it to behind it; and a tensor that crosses both cuts
// costs once only. If a tensor has node a before the part and node b behind it, then nothing in
// the part is needed by a or by what a needs, and nothing in it needs b: the part's work is at most
// the work that is neither until a nor from b. The most of that over all such a and b is the
// tensor's span. So with the tensors of a span below the part's work,
//
//   load >= work + cost of crossing the cut before + cost of crossing the cut behind.
//
// A cut costs at least what the cheapest cut with about the same work before it costs. Cheapest for
// a given amount of work is hard; but with a price p for each unit of work before the cut it is a
// minimum cut of a network, and for every p
//
//   cost of the cut >= (least of cost + p * work) - p * work.
//
// Where such costs are known for each level of work, a walk over the levels tells how far each
// number of devices can get.

#include "planner/baselines/dnn_partitioning/cut_levels.hpp"

#include <algorithm>
#include <cmath>

#include "planner/space/downsets.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Prices tried per level and class.
constexpr int most_prices = 6;

/// Per node, it and all nodes that come before it along these neighbours.
class Closures {
 public:
  Closures(const std::vector<int>& order, const std::vector<std::vector<int>>& neighbours)
      : words_((order.size() + 63) / 64), bits_(words_ * order.size()) {
    for (const int node : order) {
      bits_[index(node) * words_ + index(node) / 64] |= std::uint64_t{1} << (node % 64);
      for (const int other : neighbours[index(node)]) {
        for (std::size_t w = 0; w < words_; ++w)
          bits_[index(node) * words_ + w] |= bits_[index(other) * words_ + w];
      }
    }
  }

  bool contains(int node, int other) const {
    return (bits_[index(node) * words_ + index(other) / 64] >> (other % 64) & 1U) != 0;
  }

  double work(const MaxLoadProblem& problem, int node) const {
    double sum = 0;
    for (std::size_t other = 0; other < problem.nodes.size(); ++other) {
      if (contains(node, static_cast<int>(other))) sum += problem.nodes[other].accelerator;
    }
    return sum;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

double work_before(const MaxLoadProblem& problem, const std::vector<bool>& before) {
  double sum = 0;
  for (std::size_t node = 0; node < before.size(); ++node) {
    if (before[node]) sum += problem.nodes[node].accelerator;
  }
  return sum;
}

double work_of(const MaxLoadProblem& problem, const std::vector<CutSide>& sides, CutSide side) {
  double sum = 0;
  for (std::size_t node = 0; node < sides.size(); ++node) {
    if (sides[node] == side) sum += problem.nodes[node].accelerator;
  }
  return sum;
}

/// A few spans that divide the tensors evenly, and the largest.
std::vector<double> classes_of(std::vector<double> spans) {
  if (spans.empty()) return {0};
  std::sort(spans.begin(), spans.end());
  std::vector<double> classes;
  for (const double share : {0.25, 0.5, 0.75, 0.9, 0.97}) {
    classes.push_back(spans[static_cast<std::size_t>(share * static_cast<double>(spans.size()))]);
  }
  classes.push_back(spans.back());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

/// How far devices get, one after the other, from the first level on.
class Walk {
 public:
  Walk(const std::vector<CutLevel>& levels, const std::vector<double>& classes, double load)
      : levels_(levels), classes_(classes), load_(load) {}

  std::vector<std::vector<double>> run(int devices) const {
    std::vector<std::vector<double>> reached(1, std::vector<double>(levels_.size(), -1));
    if (devices > 0) reached.push_back(first());
    while (static_cast<int>(reached.size()) <= devices) {
      std::vector<double> next = reached.back();
      for (std::size_t from = 0; from < levels_.size(); ++from) {
        if (reached.back()[from] >= 0) extend(next, from, reached.back()[from]);
      }
      reached.push_back(std::move(next));
    }
    return reached;
  }

 private:
  std::vector<double> first() const {
    std::vector<double> reached(levels_.size(), -1);
    for (std::size_t to = 0; to < levels_.size(); ++to) {
      const double most = std::min(levels_[to].most, load_ - levels_[to].costs.back());
      if (levels_[to].is_possible && most >= levels_[to].least) reached[to] = most;
    }
    return reached;
  }

  void extend(std::vector<double>& next, std::size_t from, double start) const {
    for (std::size_t to = from; to < levels_.size(); ++to) {
      if (levels_[to].least > start + load_) return;
      if (levels_[to].is_possible) next[to] = std::max(next[to], farthest(from, to, start));
    }
  }

  /// How far a part gets that begins at the start. Where its work is above a class's span, and up
  /// to the next one's, tensors of that class and those below count.
  double farthest(std::size_t from, std::size_t to, double start) const {
    double best = -1;
    for (std::size_t count = 0; count <= classes_.size(); ++count) {
      const double above = count == 0 ? 0 : classes_[count - 1];
      const double up_to = count < classes_.size() ? classes_[count] : ClosureCut::unlimited;
      const double cost =
          count == 0 ? 0 : levels_[from].costs[count - 1] + levels_[to].costs[count - 1];
      const double end = std::min({levels_[to].most, start + up_to, start + load_ - cost});
      if (end >= levels_[to].least && end >= start + above) best = std::max(best, end);
    }
    return best;
  }

  const std::vector<CutLevel>& levels_;
  const std::vector<double>& classes_;
  double load_;
};

}  // namespace

WorkAround::WorkAround(const MaxLoadProblem& problem)
    : until(problem.nodes.size()), from(problem.nodes.size()), spans(problem.tensors.size(), 0) {
  std::vector<std::vector<int>> inputs(problem.nodes.size()), readers(problem.nodes.size());
  for (const Edge& edge : problem.edges) {
    inputs[index(edge.to)].push_back(edge.from);
    readers[index(edge.from)].push_back(edge.to);
  }
  std::vector<int> order = order_by_number({static_cast<int>(problem.nodes.size()), problem.edges});
  const Closures needed(order, inputs);
  std::reverse(order.begin(), order.end());
  const Closures needing(order, readers);
  for (const int node : order) {
    total += problem.nodes[index(node)].accelerator;
    until[index(node)] = needed.work(problem, node);
    from[index(node)] = needing.work(problem, node);
  }
  for (std::size_t t = 0; t < spans.size(); ++t) {
    for (const int before : problem.tensors[t].nodes) {
      for (const int behind : problem.tensors[t].nodes) {
        if (needed.contains(before, behind)) continue;
        spans[t] = std::max(spans[t], total - until[index(before)] - from[index(behind)]);
      }
    }
  }
}

std::optional<std::vector<CutSide>> WorkAround::sides(double least, double most) const {
  const double tolerance = work_rounding * total;
  std::vector<CutSide> result(until.size(), CutSide::open);
  for (std::size_t node = 0; node < result.size(); ++node) {
    const bool is_before = total - from[node] < least - tolerance;
    const bool is_behind = until[node] > most + tolerance;
    if (is_before && is_behind) return {};
    if (is_before) result[node] = CutSide::before;
    if (is_behind) result[node] = CutSide::behind;
  }
  return result;
}

CutLevels::CutLevels(const MaxLoadProblem& problem, int levels, std::int64_t most_steps,
                     const std::stop_token& stop)
    : problem_(problem), work_(problem), classes_(classes_of(work_.spans)) {
  for (int number = 0; number < levels; ++number) {
    CutLevel level{.least = work_.total * number / levels,
                   .most = work_.total * (number + 1) / levels,
                   .costs = std::vector<double>(classes_.size(), 0)};
    if (!stop.stop_requested()) {
      const auto sides = work_.sides(level.least, level.most);
      level.is_possible = sides.has_value();
      if (sides) most_steps -= measure(level, *sides, most_steps / (levels - number));
    }
    levels_.push_back(std::move(level));
  }
}

/// Costs of all classes, the one with all tensors first; the steps that took.
std::int64_t CutLevels::measure(CutLevel& level, const std::vector<CutSide>& sides,
                                std::int64_t most_steps) {
  std::int64_t steps = 0;
  for (std::size_t c = classes_.size(); c-- > 0 && steps < most_steps;) {
    CutQuestion question{.sides = sides, .is_free = {}};
    for (const double span : work_.spans) question.is_free.push_back(span > classes_[c]);
    level.costs[c] = least_cost(level, question, steps);
  }
  for (std::size_t c = 1; c < classes_.size(); ++c)
    level.costs[c] = std::max(level.costs[c], level.costs[c - 1]);
  return steps;
}

/// The largest bound that a few prices give: higher where cheap cuts have too much work before
/// them, lower where they have too little.
double CutLevels::least_cost(const CutLevel& level, CutQuestion& question, std::int64_t& steps) {
  const double before = work_of(problem_, question.sides, CutSide::before);
  const double behind = work_of(problem_, question.sides, CutSide::behind);
  double best = 0;
  double low = -ClosureCut::unlimited;
  double high = ClosureCut::unlimited;
  for (int tried = 0; tried < most_prices; ++tried) {
    ClosureCut network(problem_, question);
    const double priced = network.raise(ClosureCut::unlimited);
    steps += network.steps();
    const double price = question.price;
    const double work = price >= 0 ? level.most - before : work_.total - level.least - behind;
    best = std::max(best, priced - std::abs(price) * work - work_rounding * priced);
    const std::vector<bool> cut = network.before();
    if (cuts_.empty() || cuts_.back() != cut) cuts_.push_back(cut);
    const double found = work_before(problem_, cut);
    if (found >= level.least && found <= level.most) break;
    (found > level.most ? low : high) = price;
    if (low > -ClosureCut::unlimited && high < ClosureCut::unlimited) {
      question.price = (low + high) / 2;
    } else {
      question.price = found > level.most ? std::max(2 * price, 0.5) : std::min(2 * price, -0.5);
    }
  }
  return best;
}

double CutLevels::tolerance() const {
  return work_rounding * work_.total;
}

double CutLevels::cost(const CutLevel& level, double part) const {
  double result = 0;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c] < part - tolerance()) result = level.costs[c];
  }
  return result;
}

std::vector<std::vector<double>> CutLevels::reach(int devices, double load) const {
  return Walk(levels_, classes_, load + tolerance()).run(devices);
}

std::vector<std::vector<double>> CutLevels::reach_back(int devices, double load) const {
  std::vector<CutLevel> mirrored(levels_.rbegin(), levels_.rend());
  for (CutLevel& level : mirrored) {
    const double least = work_.total - level.most;
    level.most = work_.total - level.least;
    level.least = least;
  }
  auto result = Walk(mirrored, classes_, load + tolerance()).run(devices);
  for (std::vector<double>& reached : result) {
    std::reverse(reached.begin(), reached.end());
    for (double& work : reached) work = work < 0 ? -1 : work_.total - work;
  }
  return result;
}

bool CutLevels::allow(int devices, double load) const {
  if (work_.total <= load) return true;
  const std::vector<double> reached = reach(devices - 1, load).back();
  for (std::size_t number = 0; number < levels_.size(); ++number) {
    if (reached[number] < 0) continue;
    const double last = work_.total - reached[number] + levels_[number].costs.back();
    if (last <= load + tolerance()) return true;
  }
  return false;
}

double CutLevels::lower_bound(int devices, double most) const {
  if (!allow(devices, most)) return most;
  double low = 0;
  constexpr int halvings = 30;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + most) / 2;
    (allow(devices, middle) ? most : low) = middle;
  }
  return low;
}

}  // namespace stagecraft
