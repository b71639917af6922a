// Most of the graph is on one side of all cuts that are asked for. Minimum cuts of networks tell
// which nodes can be on either side, and which neighbours can be on different sides; the others are
// put there, or together. What is left is small, or is divided by the side of one more node.

#include "planner/baselines/dnn_partitioning/cut_finder.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>

#include "planner/space/downsets.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Downsets of groups that are listed without further questions.
constexpr std::int64_t listed_at_once = 200;

/// Cuts with these sides and limits, as networks whose least cost says that there are none.
class LimitedCuts {
 public:
  LimitedCuts(const MaxLoadProblem& problem, const WorkAround& work, const CutLimits& limits,
              const std::vector<CutSide>& sides) {
    // The sum of both limits, weighed, is a limit too, on the cost of tensors that count in both.
    std::vector<bool> either = limits.above_free;
    for (std::size_t t = 0; t < either.size(); ++t) either[t] = either[t] || limits.below_free[t];
    for (const double price : {0.0, 0.5, -0.5}) {
      const double limit = ((1 + price) * limits.above + (1 - price) * limits.below) / 2;
      add(problem, work, sides, either, price, limit);
    }
    add(problem, work, sides, limits.above_free, 1, limits.above);
    add(problem, work, sides, limits.below_free, -1, limits.below);
  }

  /// False only if there is no cut at all within the limits.
  bool allow_any() {
    for (Limited& limited : networks_) {
      const bool is_allowed = limited.network.raise(limited.limit) < limited.limit;
      steps_ += limited.network.steps();
      if (!is_allowed) return false;
      limited.cheapest = limited.network.before();
    }
    return true;
  }

  // Once some cut is allowed: false only if there is none with these nodes on these sides.

  bool allow_before(int node) { return allow(node, {}); }
  bool allow_behind(int node) { return allow({}, node); }
  bool allow_between(int before, int behind) { return allow(before, behind); }

  std::int64_t steps() const { return steps_; }

  /// Once some cut is allowed: one cheapest cut for each price.
  CutList cheapest() const {
    CutList cuts;
    for (const Limited& limited : networks_) cuts.push_back(limited.cheapest);
    return cuts;
  }

 private:
  struct Limited {
    ClosureCut network;
    double limit = 0;
    std::vector<bool> cheapest;  ///< who is before one cheapest cut
  };

  void add(const MaxLoadProblem& problem, const WorkAround& work, const std::vector<CutSide>& sides,
           const std::vector<bool>& is_free, double price, double limit) {
    const CutQuestion question{.sides = sides, .is_free = is_free, .price = price};
    double fixed = 0;  // what the network leaves out
    for (std::size_t node = 0; node < sides.size(); ++node) {
      const bool counts =
          price > 0 ? sides[node] == CutSide::before : sides[node] != CutSide::behind;
      if (counts) fixed += price * problem.nodes[node].accelerator;
    }
    networks_.push_back(
        {ClosureCut(problem, question), limit - fixed + work_rounding * work.total, {}});
  }

  bool allow(std::optional<int> before, std::optional<int> behind) {
    return std::all_of(networks_.begin(), networks_.end(), [&](const Limited& limited) {
      const bool is_met = (!before || limited.cheapest[index(*before)]) &&
                          (!behind || !limited.cheapest[index(*behind)]);
      if (is_met) return true;
      ClosureCut network = limited.network;
      if (before) network.put_before(*before);
      if (behind) network.put_behind(*behind);
      const bool is_allowed = network.raise(limited.limit) < limited.limit;
      steps_ += network.steps() - limited.network.steps() + network.size();
      return is_allowed;
    });
  }

  std::vector<Limited> networks_;
  std::int64_t steps_ = 0;
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

/// Groups of open nodes: where there is a way in the graph both there and back.
CutGroups groups_of(const Graph& graph, const std::vector<Edge>& open,
                    const std::vector<CutSide>& sides) {
  std::vector<int> component(sides.size());
  boost::strong_components(graph, component.data());
  CutGroups groups{.dag = {}, .group = std::vector<int>(sides.size(), -1)};
  std::vector<int> number(sides.size(), -1);
  for (std::size_t node = 0; node < sides.size(); ++node) {
    if (sides[node] != CutSide::open) continue;
    int& group = number[index(component[node])];
    if (group < 0) group = groups.dag.nodes++;
    groups.group[node] = group;
  }
  for (const Edge& edge : open) {
    const int from = groups.group[index(edge.from)];
    const int to = groups.group[index(edge.to)];
    if (from != to) groups.dag.edges.push_back({from, to});
  }
  return groups;
}

bool crosses(const MaxLoadTensor& tensor, const std::vector<bool>& before) {
  const auto inside = std::count_if(tensor.nodes.begin(), tensor.nodes.end(),
                                    [&](int node) { return before[index(node)]; });
  return inside > 0 && inside < static_cast<std::ptrdiff_t>(tensor.nodes.size());
}

/// Puts an open node on a side, and all open ones that are there with it; how many those are.
std::ptrdiff_t put(std::vector<CutSide>& sides, std::size_t node, CutSide side,
                   const std::vector<std::vector<int>>& neighbours) {
  std::vector<std::size_t> stack{node};
  sides[node] = side;
  std::ptrdiff_t count = 0;
  while (!stack.empty()) {
    const std::size_t now = stack.back();
    stack.pop_back();
    ++count;
    for (const int next : neighbours[now]) {
      if (sides[index(next)] != CutSide::open) continue;
      sides[index(next)] = side;
      stack.push_back(index(next));
    }
  }
  return count;
}

}  // namespace

CutFinder::CutFinder(const MaxLoadProblem& problem, const WorkAround& work, double tolerance,
                     std::int64_t most_steps, const std::stop_token& stop)
    : problem_(problem),
      work_(work),
      tolerance_(tolerance),
      steps_left_(most_steps),
      stop_(stop),
      inputs_(problem.nodes.size()),
      readers_(problem.nodes.size()) {
  for (const Edge& edge : problem.edges) {
    inputs_[index(edge.to)].push_back(edge.from);
    readers_[index(edge.from)].push_back(edge.to);
  }
}

std::optional<LeastLeft> CutFinder::find(const CutLimits& limits) {
  limits_ = limits;
  found_ = {};
  const std::optional<std::vector<CutSide>> sides = work_.sides(limits.least, limits.most);
  if (sides && !list(*sides)) return {};
  found_.value = limits_.below;
  return std::move(found_);
}

bool CutFinder::may_go_on() const {
  return steps_left_ > 0 && !stop_.stop_requested();
}

bool CutFinder::list(std::vector<CutSide> sides) {
  if (!settle(sides)) return may_go_on();
  const CutGroups groups = grouped(sides);
  const auto lattice = downset_lattice(groups.dag, listed_at_once);
  if (!lattice) return may_go_on() && branch(sides);
  try_all(sides, groups, *lattice);
  return may_go_on();
}

/// Puts open nodes on the side that they are on in all cuts within the limits; false if there are
/// no such cuts, or it takes too much to tell.
bool CutFinder::settle(std::vector<CutSide>& sides) {
  LimitedCuts cuts(problem_, work_, limits_, sides);
  bool is_possible = cuts.allow_any();
  if (is_possible) {
    for (const std::vector<bool>& cut : cuts.cheapest()) try_cut(cut);
  }
  for (std::size_t node = 0; node < sides.size() && is_possible; ++node) {
    if (sides[node] != CutSide::open) continue;
    if (stop_.stop_requested()) break;
    const bool before = cuts.allow_before(static_cast<int>(node));
    const bool behind = cuts.allow_behind(static_cast<int>(node));
    is_possible = before || behind;
    if (before != behind) sides[node] = before ? CutSide::before : CutSide::behind;
  }
  steps_left_ -= cuts.steps();
  return is_possible && may_go_on();
}

CutGroups CutFinder::grouped(const std::vector<CutSide>& sides) {
  LimitedCuts cuts(problem_, work_, limits_, sides);
  if (!cuts.allow_any()) return {.dag = {}, .group = std::vector<int>(sides.size(), 0)};
  Graph graph(sides.size());
  std::vector<Edge> open;
  for (const Edge& edge : problem_.edges) {
    if (sides[index(edge.from)] != CutSide::open || sides[index(edge.to)] != CutSide::open)
      continue;
    open.push_back(edge);
    boost::add_edge(index(edge.from), index(edge.to), graph);
    if (!cuts.allow_between(edge.from, edge.to))
      boost::add_edge(index(edge.to), index(edge.from), graph);
  }
  steps_left_ -= cuts.steps();
  return groups_of(graph, open, sides);
}

/// Cuts with a node before them, and those with it behind; the node has about as many open nodes
/// that come with it on one side as on the other.
bool CutFinder::branch(const std::vector<CutSide>& sides) {
  std::vector<CutSide> best_before, best_behind;
  std::ptrdiff_t most = -1;
  for (std::size_t node = 0; node < sides.size(); ++node) {
    if (sides[node] != CutSide::open) continue;
    std::vector<CutSide> before = sides, behind = sides;
    const std::ptrdiff_t fewer = std::min(put(before, node, CutSide::before, inputs_),
                                          put(behind, node, CutSide::behind, readers_));
    if (fewer <= most) continue;
    most = fewer;
    best_before = std::move(before);
    best_behind = std::move(behind);
  }
  return list(std::move(best_before)) && list(std::move(best_behind));
}

void CutFinder::try_all(const std::vector<CutSide>& sides, const CutGroups& groups,
                        const Lattice& lattice) {
  std::vector<bool> before(sides.size());
  for (int set = 0; set < lattice.size() && may_go_on(); ++set) {
    for (std::size_t node = 0; node < sides.size(); ++node) {
      before[node] = sides[node] == CutSide::before ||
                     (sides[node] == CutSide::open && lattice.contains(set, groups.group[node]));
    }
    try_cut(before);
  }
}

/// From now on only better cuts are of interest.
void CutFinder::try_cut(const std::vector<bool>& before) {
  double work = 0;
  for (std::size_t node = 0; node < before.size(); ++node) {
    if (before[node]) work += problem_.nodes[node].accelerator;
  }
  steps_left_ -= static_cast<std::int64_t>(problem_.nodes.size() + problem_.tensors.size());
  double above = work;
  double below = -work;
  for (std::size_t t = 0; t < problem_.tensors.size(); ++t) {
    if (!crosses(problem_.tensors[t], before)) continue;
    if (!limits_.above_free[t]) above += problem_.tensors[t].cost;
    if (!limits_.below_free[t]) below += problem_.tensors[t].cost;
  }
  if (above >= limits_.above + work_rounding * work_.total || below >= limits_.below) return;
  found_.cuts.push_back(before);
  limits_.below = below - tolerance_;
}

}  // namespace stagecraft
