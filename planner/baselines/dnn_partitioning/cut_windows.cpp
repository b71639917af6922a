#include "planner/baselines/dnn_partitioning/cut_windows.hpp"

#include <algorithm>

#include "profiles/index.hpp"

namespace stagecraft {

CutWindows::CutWindows(const MaxLoadProblem& problem, const CutLevels& levels, double load)
    : problem_(problem),
      levels_(levels),
      load_(load),
      reach_(levels.reach(problem.accelerators - 1, load)),
      reach_back_(levels.reach_back(problem.accelerators - 1, load)) {}

std::optional<CutLimits> CutWindows::limits(int before) const {
  const std::optional<Window> last = window(before - 1);
  const std::optional<Window> here = window(before);
  const std::optional<Window> next = window(before + 1);
  if (!last || !here || !next) return {};
  return CutLimits{.least = here->least,
                   .most = here->most,
                   .above = above(before, *here),
                   .below = below(before, *here),
                   .above_free = passing(*last, *here),
                   .below_free = passing(*here, *next)};
}

std::optional<CutWindows::Window> CutWindows::window(int before) const {
  const double total = levels_.work().total;
  if (before == 0) return Window{0, 0};
  if (before == problem_.accelerators) return Window{total, total};
  std::optional<Window> window;
  for (std::size_t number = 0; number < levels_.levels().size(); ++number) {
    const double most = reach_[index(before)][number];
    const double least = reach_back_[index(problem_.accelerators - before)][number];
    if (most < 0 || least < 0 || least > most + levels_.tolerance()) continue;
    if (!window) window = Window{least, most};
    window->least = std::min(window->least, least);
    window->most = std::max(window->most, most);
  }
  return window;
}

/// Tensors that may have nodes both before one cut and behind the next.
std::vector<bool> CutWindows::passing(const Window& from, const Window& to) const {
  const WorkAround& work = levels_.work();
  std::vector<bool> result;
  for (const MaxLoadTensor& tensor : problem_.tensors) {
    const auto can_be_before = [&](int node) {
      return work.until[index(node)] <= from.most + levels_.tolerance();
    };
    const auto can_be_behind = [&](int node) {
      return work.total - work.from[index(node)] >= to.least - levels_.tolerance();
    };
    result.push_back(std::any_of(tensor.nodes.begin(), tensor.nodes.end(), can_be_before) &&
                     std::any_of(tensor.nodes.begin(), tensor.nodes.end(), can_be_behind));
  }
  return result;
}

/// The part before the cut begins at the start, or at a cut of some level.
double CutWindows::above(int before, const Window& here) const {
  double above = load_;
  for (std::size_t number = 0; number < levels_.levels().size(); ++number) {
    const CutLevel& level = levels_.levels()[number];
    const double start = reach_[index(before - 1)][number];
    if (start < 0 || level.least > here.most) continue;
    const double part = std::max(0.0, here.least - start);
    const double cost = levels_.cost(level, part);
    if (part + cost < load_ + levels_.tolerance()) above = std::max(above, load_ + start - cost);
  }
  return above;
}

/// The part behind the cut ends at a cut of some level, or at the end.
double CutWindows::below(int before, const Window& here) const {
  double below = load_ - levels_.work().total;
  for (std::size_t number = 0; number < levels_.levels().size(); ++number) {
    const CutLevel& level = levels_.levels()[number];
    const double end = reach_back_[index(problem_.accelerators - before - 1)][number];
    if (end < 0 || level.most < here.least) continue;
    const double part = std::max(0.0, end - here.most);
    const double cost = levels_.cost(level, part);
    if (part + cost < load_ + levels_.tolerance()) below = std::max(below, load_ - end - cost);
  }
  return below;
}

}  // namespace stagecraft
