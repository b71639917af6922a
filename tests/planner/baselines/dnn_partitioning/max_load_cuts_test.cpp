#include "planner/baselines/dnn_partitioning/max_load_cuts.hpp"

#include <algorithm>

#include "planner/baselines/dnn_partitioning/cut_chains.hpp"
#include "planner/baselines/dnn_partitioning/cut_finder.hpp"
#include "planner/baselines/dnn_partitioning/cut_levels.hpp"
#include "profiles/index.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Branches with a few ways across, a tensor for each node and its readers, and some between any
/// two nodes.
MaxLoadProblem random_problem(Random& random, int most_nodes) {
  MaxLoadProblem problem;
  const int nodes = random.between(1, most_nodes);
  const int percent = random.between(10, 60);
  for (int node = 0; node < nodes; ++node) {
    problem.nodes.push_back({.accelerator = static_cast<double>(random.between(0, 9)),
                             .size = static_cast<double>(random.between(0, 9)),
                             .members = {node}});
    problem.tensors.push_back({static_cast<double>(random.between(0, 12)), {node}});
    for (int from = std::max(0, node - 6); from < node; ++from) {
      if (!random.chance(percent)) continue;
      problem.edges.push_back({from, node});
      problem.tensors[index(from)].nodes.push_back(node);
    }
    const int other = random.between(0, node);
    if (other != node && random.chance(15)) problem.tensors.push_back({2, {node, other}});
  }
  problem.accelerators = random.between(1, 4);
  problem.memory = random.chance(70) ? 1000 : random.between(10, 40);
  return problem;
}

Dag dag_of(const MaxLoadProblem& problem) {
  return {.nodes = static_cast<int>(problem.nodes.size()), .edges = problem.edges};
}

/// Who is before each cut there is.
CutList all_cuts(const MaxLoadProblem& problem) {
  const Lattice lattice = *downset_lattice(dag_of(problem), 1 << 20);
  CutList cuts;
  for (int set = 0; set < lattice.size(); ++set) {
    std::vector<bool>& before = cuts.emplace_back();
    for (int node = 0; node < lattice.nodes; ++node) before.push_back(lattice.contains(set, node));
  }
  return cuts;
}

double work_before(const MaxLoadProblem& problem, const std::vector<bool>& before) {
  double work = 0;
  for (std::size_t node = 0; node < before.size(); ++node) {
    if (before[node]) work += problem.nodes[node].accelerator;
  }
  return work;
}

double cost_of(const MaxLoadProblem& problem, const std::vector<bool>& before,
               const std::vector<bool>& is_free) {
  double cost = 0;
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
    const std::vector<int>& nodes = problem.tensors[t].nodes;
    const auto is_before = [&](int node) { return before[index(node)]; };
    if (!is_free[t] && std::any_of(nodes.begin(), nodes.end(), is_before) &&
        !std::all_of(nodes.begin(), nodes.end(), is_before))
      cost += problem.tensors[t].cost;
  }
  return cost;
}

std::vector<bool> random_flags(Random& random, std::size_t count, int percent) {
  std::vector<bool> flags;
  for (std::size_t i = 0; i < count; ++i) flags.push_back(random.chance(percent));
  return flags;
}

bool agree(const std::vector<CutSide>& sides, const std::vector<bool>& before) {
  for (std::size_t node = 0; node < sides.size(); ++node) {
    if (sides[node] == (before[node] ? CutSide::behind : CutSide::before)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the cheapest cut of a network is that of all cuts") {
  Random random(21);
  for (int round = 0; round < 400; ++round) {
    const MaxLoadProblem problem = random_problem(random, 9);
    const CutList cuts = all_cuts(problem);
    // Sides on which two cuts, one inside the other or not, agree.
    const auto& one = cuts[index(random.between(0, static_cast<int>(cuts.size()) - 1))];
    const auto& other = cuts[index(random.between(0, static_cast<int>(cuts.size()) - 1))];
    CutQuestion question{.sides = {},
                         .is_free = random_flags(random, problem.tensors.size(), 20),
                         .price = random.between(-4, 4) / 4.0};
    for (std::size_t node = 0; node < one.size(); ++node) {
      question.sides.push_back(one[node] != other[node] ? CutSide::open
                               : one[node]              ? CutSide::before
                                                        : CutSide::behind);
    }
    double least = 1e300;
    for (const std::vector<bool>& cut : cuts) {
      if (!agree(question.sides, cut)) continue;
      double cost = cost_of(problem, cut, question.is_free);
      for (std::size_t node = 0; node < cut.size(); ++node) {
        if (question.sides[node] != CutSide::open || cut[node] != (question.price > 0)) continue;
        cost += std::abs(question.price) * problem.nodes[node].accelerator;
      }
      least = std::min(least, cost);
    }
    ClosureCut network(problem, question);
    REQUIRE(network.raise(1e300) == Approx(least).margin(1e-9));
    REQUIRE(agree(question.sides, network.before()));
    REQUIRE(std::find(cuts.begin(), cuts.end(), network.before()) != cuts.end());
  }
}

TEST_CASE("no part passes a tensor by that has more work than the tensor's span") {
  Random random(22);
  for (int round = 0; round < 150; ++round) {
    const MaxLoadProblem problem = random_problem(random, 8);
    const WorkAround work(problem);
    const CutList cuts = all_cuts(problem);
    for (const std::vector<bool>& from : cuts) {
      for (const std::vector<bool>& to : cuts) {
        bool is_inside = true;
        for (std::size_t node = 0; node < from.size(); ++node)
          is_inside = is_inside && (!from[node] || to[node]);
        if (!is_inside) continue;
        const double part = work_before(problem, to) - work_before(problem, from);
        for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
          const std::vector<int>& nodes = problem.tensors[t].nodes;
          const bool passes =
              std::any_of(nodes.begin(), nodes.end(), [&](int n) { return from[index(n)]; }) &&
              std::any_of(nodes.begin(), nodes.end(), [&](int n) { return !to[index(n)]; });
          if (passes) REQUIRE(part <= work.spans[t] + 1e-9);
        }
      }
    }
  }
}

TEST_CASE("sides are those of all cuts with that much work, and levels cost no more than any") {
  Random random(23);
  for (int round = 0; round < 200; ++round) {
    const MaxLoadProblem problem = random_problem(random, 9);
    const CutLevels levels(problem, random.between(1, 12), 1 << 20, {});
    for (const std::vector<bool>& cut : all_cuts(problem)) {
      const double work = work_before(problem, cut);
      for (const CutLevel& level : levels.levels()) {
        if (work < level.least || work > level.most) continue;
        REQUIRE(level.is_possible);
        const auto sides = levels.work().sides(level.least, level.most);
        REQUIRE(sides);
        REQUIRE(agree(*sides, cut));
        const std::vector<bool> none(problem.tensors.size(), false);
        REQUIRE(level.costs.back() <= cost_of(problem, cut, none) + 1e-6);
      }
    }
  }
}

TEST_CASE("the cut that leaves least is found among all within limits", "[seconds]") {
  Random random(24);
  int found = 0, possible = 0;
  for (int round = 0; round < 1500; ++round) {
    const MaxLoadProblem problem = random_problem(random, 11);
    const WorkAround work(problem);
    CutLimits limits{
        .least = random.chance(50) ? random.between(0, 10) * work.total / 20 : 0,
        .most = random.chance(50) ? random.between(10, 20) * work.total / 20 : work.total,
        .above = random.between(0, 100) + 0.5,
        .below = random.between(-50, 20) + 0.5,
        .above_free = random_flags(random, problem.tensors.size(), 20),
        .below_free = random_flags(random, problem.tensors.size(), 20)};
    double least = limits.below;
    for (const std::vector<bool>& cut : all_cuts(problem)) {
      const double before = work_before(problem, cut);
      if (before < limits.least || before > limits.most ||
          before + cost_of(problem, cut, limits.above_free) >= limits.above)
        continue;
      least = std::min(least, cost_of(problem, cut, limits.below_free) - before);
    }
    constexpr double tolerance = 1e-4;
    CutFinder finder(problem, work, tolerance, 1 << 30, {});
    const std::optional<LeastLeft> answer = finder.find(limits);
    REQUIRE(answer);
    REQUIRE(answer->value <= least + 1e-6);
    REQUIRE(answer->cuts.empty() == (answer->value == limits.below));
    if (least < limits.below) ++possible;
    // A cut with other work may be found instead.
    if (limits.least > 0 || limits.most < work.total || least >= limits.below) continue;
    REQUIRE(answer->value >= least - 2 * tolerance);
    ++found;
  }
  CHECK(possible > 400);
  CHECK(found > 100);
}

TEST_CASE("chains of all cuts are all splits") {
  Random random(25);
  for (int round = 0; round < 300; ++round) {
    const MaxLoadProblem problem = random_problem(random, 8);
    const auto exact = split_by_max_load(problem, 1 << 20, {});
    CutChains chains(problem);
    for (const std::vector<bool>& cut : all_cuts(problem)) chains.add(cut);
    const auto parts = chains.best(1e300, {});
    REQUIRE(parts.empty() == !exact);
    double load = 0;
    for (const std::vector<int>& part : parts) load = std::max(load, load_of(problem, part, false));
    if (exact) CHECK(load == Approx(exact->load).epsilon(1e-12));
  }
}

TEST_CASE("without a list of downsets, bounds hold and splits are nearly always the best",
          "[seconds]") {
  Random random(26);
  int solved = 0, proved = 0, all = 0;
  for (int round = 0; round < 400; ++round) {
    const MaxLoadProblem problem = random_problem(random, 12);
    const auto exact = split_by_max_load(problem, 1 << 20, {});
    const auto rough = split_by_max_load(problem, 1, {});
    if (!rough) continue;
    INFO(round);
    REQUIRE(exact);
    REQUIRE(rough->load >= exact->load * (1 - 1e-12));
    REQUIRE(rough->lower_bound <= exact->load * (1 + 1e-12));
    ++all;
    solved += rough->load <= exact->load * (1 + 1e-9);
    proved += rough->lower_bound >= rough->load * (1 - 1e-5);
  }
  CHECK(solved > all * 8 / 10);
  CHECK(proved > all / 2);
  UNSCOPED_INFO(all << " " << solved << " " << proved);
  CHECK(all > 300);
}

TEST_CASE("chains of branches with too many downsets are split almost as well as can be",
          "[seconds]") {
  // Cells of three branches of eight nodes each; tensors inside are dear, between cells cheap.
  MaxLoadProblem problem{.nodes = {}, .edges = {}, .tensors = {}, .accelerators = 4};
  problem.memory = 1e9;
  const auto add = [&](double cost, const std::vector<int>& inputs) {
    const int node = static_cast<int>(problem.nodes.size());
    problem.nodes.push_back({.accelerator = 1, .size = 1, .members = {node}});
    problem.tensors.push_back({cost, {node}});
    for (const int input : inputs) {
      problem.edges.push_back({input, node});
      problem.tensors[index(input)].nodes.push_back(node);
    }
    return node;
  };
  int last = add(2, {});
  for (int cell = 0; cell < 12; ++cell) {
    std::vector<int> ends;
    for (int branch = 0; branch < 6; ++branch) {
      int end = last;
      for (int i = 0; i < 8; ++i) end = add(3, {end});
      ends.push_back(end);
    }
    last = add(2, ends);
  }
  // 12 cells of 49 nodes on 4 devices: the second and third have 147 nodes and two cuts, each.
  const auto split = split_by_max_load(problem, 1000, {});
  REQUIRE(split);
  CHECK(split->load == 151);
  CHECK(split->lower_bound == Approx(151).epsilon(1e-5));
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = split_by_max_load(problem, 1000, stop.get_token());
  REQUIRE(stopped);
  CHECK(stopped->load >= split->load);
  CHECK(stopped->lower_bound <= split->load);
}
