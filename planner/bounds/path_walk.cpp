#include "planner/bounds/path_walk.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// Rounding must not rule anything out: a part of a limit, and of a device's memory.
constexpr double rounding = 1e-9;

/// Paths that are learned on the way, at most; then new ones take the place of others, now and
/// then.
constexpr std::size_t most_learned = 32;
constexpr std::int64_t between_lessons = 8;

/// Costs of stages are kept if they are so many for each sum.
constexpr std::size_t most_costs = 100'000;

}  // namespace

PathWalk::PathWalk(const Space& space, PathBound& bound) : space_(space), bound_(bound) {
  for (PathBound::Weighting& sum : bound_.weighted_paths()) add(std::move(sum), true);
  for (PathBound::Weighting& sum : bound_.full_moments()) add(std::move(sum), false);
  most_sums_ = sums_.size() + most_learned;
}

void PathWalk::add(PathBound::Weighting weighting, bool is_time) {
  Sum& sum = sums_.emplace_back();
  sum.onward = bound_.least_onward(weighting);
  sum.so_far.resize(index(bound_.costs().stages() + 1));
  sum.so_far.front() = weighting.constant;
  sum.weighting = std::move(weighting);
  sum.is_time = is_time;
  const int stages = bound_.costs().stages(), layers = bound_.costs().layers();
  if (place(stages, 0, 0, Recompute::none) > most_costs) return;
  std::vector<double> costs(place(stages, 0, 0, Recompute::none));
  for (int s = 0; s < stages; ++s) {
    for (int first = 0; first < layers; ++first) {
      for (int end = first + 1; end <= bound_.costs().last_end(s, first); ++end) {
        for (const Recompute recompute : bound_.choices())
          costs[place(s, first, end, recompute)] = cost(sum, s, first, end, recompute);
      }
    }
  }
  sum.costs = std::move(costs);
}

std::size_t PathWalk::place(int stage, int first, int end, Recompute recompute) const {
  const auto places = index(bound_.costs().layers() + 1);
  return ((index(stage) * places + index(first)) * places + index(end)) * 2 +
         (recompute == Recompute::full ? 1 : 0);
}

/// Of a stage, and the cut behind it.
double PathWalk::cost(const Sum& sum, int stage, int first, int end, Recompute recompute) const {
  if (!sum.costs.empty()) return sum.costs[place(stage, first, end, recompute)];
  return bound_.cost(sum.weighting, stage, first, end, recompute) +
         bound_.cut_cost(sum.weighting, stage, end);
}

/// The path is one of the sums from now on; of too many, the one that has ruled out least goes.
void PathWalk::learn(const PassCounts& path, Effort& effort) {
  effort.spend(bound_.steps_per_round());
  std::ranges::stable_sort(sums_, std::greater<>(), &Sum::ruled_out);
  if (sums_.size() >= most_sums_) {
    const auto least =
        std::find_if(sums_.rbegin(), sums_.rend(), [](const Sum& sum) { return sum.is_time; });
    sums_.erase(std::next(least).base());
    for (Sum& sum : sums_) sum.ruled_out /= 2;
  }
  add(bound_.alone(path), true);
  Sum& sum = sums_.back();
  for (int s = 0; s < layout_.stages(); ++s) {
    const int first = layout_.cuts[index(s)], end = layout_.cuts[index(s) + 1];
    sum.so_far[index(s) + 1] =
        sum.so_far[index(s)] + cost(sum, s, first, end, layout_.recompute[index(s)]);
  }
}

bool PathWalk::is_beyond(const Sum& sum, double least) const {
  return sum.is_time ? least > (1 + rounding) * static_cast<double>(limit_) : least > rounding;
}

/// Whether a layout may go on with this stage.
bool PathWalk::goes_on(int stage, int end, Recompute recompute, Effort& effort) {
  constexpr std::int64_t steps_of_kept = 1, steps_of_others = 3;
  for (Sum& sum : sums_) {
    effort.spend(sum.costs.empty() ? steps_of_others : steps_of_kept);
    const double so_far =
        sum.so_far[index(stage)] + cost(sum, stage, layout_.cuts.back(), end, recompute);
    if (is_beyond(sum, so_far + bound_.at(sum.onward, stage + 1, end).value)) {
      ++sum.ruled_out;
      return false;
    }
    sum.so_far[index(stage) + 1] = so_far;
  }
  return true;
}

void PathWalk::choose(int stage, Effort& effort) {
  const int stages = bound_.costs().stages(), layers = bound_.costs().layers();
  if (stage == stages) return end(effort);
  const int first = layout_.cuts.back();
  const bool is_last = stage + 1 == stages;
  const int last_end =
      std::min(bound_.costs().last_end(stage, first), layers - (stages - 1 - stage));
  for (int end = is_last ? layers : first + 1; end <= last_end; ++end) {
    if (!space_.allows(stage, {first, end})) continue;
    for (const Recompute recompute : bound_.choices()) {
      complete_ = complete_ && !effort.is_spent();
      if (!complete_) return;
      if (!goes_on(stage, end, recompute, effort)) continue;
      layout_.cuts.push_back(end);
      layout_.recompute.push_back(recompute);
      choose(stage + 1, effort);
      layout_.cuts.pop_back();
      layout_.recompute.pop_back();
    }
  }
}

/// All stages are there.
void PathWalk::end(Effort& effort) {
  effort.spend(bound_.steps_to_time());
  double step = 0;
  const PassCounts path = bound_.critical_path(layout_, step);
  if (step > static_cast<double>(limit_)) {
    const bool is_full = sums_.size() >= most_sums_;
    if (!is_full || ++too_long_ % between_lessons == 0) learn(path, effort);
    return;
  }
  limit_ = std::min(limit_, (*visit_)(layout_));
}

bool PathWalk::walk(Time limit, Effort& effort, const std::function<Time(const Layout&)>& visit) {
  limit_ = limit;
  layout_ = {.replicas = std::vector<int>(index(bound_.costs().depth()), 1), .cuts = {0}};
  visit_ = &visit;
  complete_ = true;
  choose(0, effort);
  return complete_;
}

}  // namespace stagecraft
