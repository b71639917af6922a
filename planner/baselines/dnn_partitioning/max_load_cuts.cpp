// A part between two cuts is loaded with at least
//
//   (work before the second + cost of the second) - (work before the first - cost of the first)
//
// where costs are those of tensors that cannot have nodes both before the part and behind it (see
// cut_levels.cpp). So the first device gets to cuts with work + cost below the limit; of these, the
// one with the largest work - cost leaves least for the others. The second device gets to cuts with
// work + cost below the limit plus that; and so on. Each of these questions, one cut at a time, is
// answered by branch and bound. If the last device cannot do what is left, then no split loads all
// devices less than the limit; if it can, the cuts met on the way make a split, maybe not quite as
// good, since nothing made each of them lie behind the one before it.

#include "planner/baselines/dnn_partitioning/max_load_cuts.hpp"

#include <algorithm>

#include "planner/baselines/dnn_partitioning/cut_chains.hpp"
#include "planner/baselines/dnn_partitioning/cut_finder.hpp"
#include "planner/baselines/dnn_partitioning/cut_levels.hpp"
#include "planner/baselines/dnn_partitioning/cut_windows.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr int most_work_levels = 128;
/// Levels are wider where there are more nodes than this.
constexpr std::size_t nodes_of_most_work_levels = 1024;
/// What nodes need, and who needs them, takes a bit for each two of them.
constexpr std::size_t most_nodes = 4096;
/// Arcs looked at take some nanoseconds each.
constexpr std::int64_t steps_of_levels = 600'000'000;
constexpr std::int64_t steps_of_walks = 1'200'000'000;
/// What bound and answer may differ by, and what each cut of a walk may add to that.
constexpr double precision = 5e-4;
constexpr double precision_of_cuts = 1e-4;
/// The same for a proof.
constexpr double exactness = 1e-6;
constexpr double exactness_of_cuts = 1e-8;

int levels_for(std::size_t nodes) {
  const std::size_t wider = std::max<std::size_t>(1, nodes / nodes_of_most_work_levels);
  return most_work_levels / static_cast<int>(wider);
}

class SearchByCuts {
 public:
  SearchByCuts(const MaxLoadProblem& problem, double below, const std::stop_token& stop)
      : problem_(problem),
        stop_(stop),
        levels_(problem, levels_for(problem.nodes.size()), steps_of_levels, stop),
        chains_(problem) {
    double all = levels_.work().total;
    for (const MaxLoadTensor& tensor : problem.tensors) all += tensor.cost;
    result_.load = std::min(below, all * (1 + precision));  // no part has a larger load than all
  }

  void add_order(const std::vector<int>& order) {
    std::vector<bool> before(order.size(), false);
    for (const int node : order) {
      before[index(node)] = true;
      chains_.add(before);
    }
  }

  CutSearch run() {
    for (const std::vector<bool>& cut : levels_.cuts()) chains_.add(cut);
    improve();
    result_.lower_bound = levels_.lower_bound(problem_.accelerators, result_.load);
    halve();
    improve();
    try_between();
    prove();
    result_.compared = chains_.compared();
    return std::move(result_);
  }

 private:
  enum class Answer { no, maybe, unknown };

  bool may_go_on() const { return steps_left_ > 0 && !stop_.stop_requested(); }

  double gap() const { return 1 - result_.lower_bound / result_.load; }

  /// Is there a split that loads all devices less? The cuts on the way are kept.
  Answer walk(double load, double tolerance) {
    const CutWindows windows(problem_, levels_, load);
    const std::int64_t most_steps = std::min(steps_left_, steps_of_walks / 6);
    CutFinder finder(problem_, levels_.work(), tolerance * load, most_steps, stop_);
    double ahead = 0;
    for (int before = 1; before < problem_.accelerators; ++before) {
      std::optional<CutLimits> limits = windows.limits(before);
      if (!limits) return Answer::no;
      limits->above = std::min(limits->above, load + ahead);
      const std::int64_t known = finder.steps_left();
      const std::optional<LeastLeft> found = finder.find(*limits);
      steps_left_ -= known - finder.steps_left();
      if (!found) return Answer::unknown;
      if (found->cuts.empty()) return Answer::no;
      for (const std::vector<bool>& cut : found->cuts) chains_.add(cut);
      ahead = -found->value;
    }
    const double last = levels_.work().total - ahead;
    return last < load + levels_.tolerance() ? Answer::maybe : Answer::no;
  }

  /// Bisection: the least load that walks do not rule out.
  void halve() {
    double allowed = result_.load;
    while (may_go_on() && allowed - result_.lower_bound > precision * allowed) {
      const double middle = (allowed + result_.lower_bound) / 2;
      (walk(middle, precision_of_cuts) == Answer::no ? result_.lower_bound : allowed) = middle;
    }
    allowed_ = allowed;
  }

  /// Where bound and answer are far from each other: cuts for loads between them.
  void try_between() {
    constexpr int loads = 4;
    const double most = result_.load;
    if (gap() < 2 * precision) return;
    for (int i = 1; i < loads && may_go_on(); ++i) {
      walk(allowed_ + (most - allowed_) * i / loads, precision_of_cuts);
    }
    improve();
  }

  /// Where they are near: is there anything better at all?
  void prove() {
    if (gap() > 2 * precision || gap() <= exactness || !may_go_on()) return;
    const double load = result_.load * (1 - exactness);
    if (walk(load, exactness_of_cuts) == Answer::no) result_.lower_bound = load;
    improve();
  }

  /// The best split there is with the cuts known.
  void improve() {
    constexpr double rounding = 1e-12;
    const auto parts = chains_.best(result_.load * (1 - rounding), stop_);
    if (parts.empty()) return;
    result_.parts = parts;
    result_.load = 0;
    for (const std::vector<int>& part : parts)
      result_.load = std::max(result_.load, load_of(problem_, part, false));
  }

  const MaxLoadProblem& problem_;
  std::stop_token stop_;
  CutLevels levels_;
  CutChains chains_;
  CutSearch result_;
  double allowed_ = 0;
  std::int64_t steps_left_ = steps_of_walks;
};

}  // namespace

bool can_search_cuts(const MaxLoadProblem& problem) {
  return problem.processors == 0 && problem.accelerators > 0 &&
         problem.nodes.size() <= most_nodes &&
         std::all_of(problem.nodes.begin(), problem.nodes.end(),
                     [](const MaxLoadNode& node) { return node.accelerated; });
}

CutSearch search_cuts(const MaxLoadProblem& problem, const std::vector<std::vector<int>>& orders,
                      double below, const std::stop_token& stop) {
  SearchByCuts search(problem, below, stop);
  for (const std::vector<int>& order : orders) search.add_order(order);
  return search.run();
}

}  // namespace stagecraft
