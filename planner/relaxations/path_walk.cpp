#include "planner/relaxations/path_walk.hpp"

#include <algorithm>
#include <utility>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Maximum number of paths learned in a walk; later ones replace others from time to time.
constexpr std::size_t most_learned = 32;
constexpr std::int64_t between_lessons = 8;

}  // namespace

PathWalk::PathWalk(PathBound& bound) : bound_(bound), choices_(bound.choices()) {
  for (LayoutSum& sum : bound_.sums()) add(std::move(sum));
  most_sums_ = sums_.size() + most_learned;
}

void PathWalk::add(LayoutSum sum) {
  Sum& own = sums_.emplace_back();
  own.onward = choices_.onward(sum.weighting);
  own.so_far.resize(index(bound_.costs().stages() + 1));
  own.so_far.front() = sum.weighting.constant;
  own.most = PathBound::safe * sum.most(static_cast<double>(limit_));
  own.sum = std::move(sum);
}

/// Adds the path to the sums. If there are too many, the sum that has pruned least is removed.
void PathWalk::learn(const PassCounts& path, Effort& effort) {
  effort.spend(choices_.steps());
  std::ranges::stable_sort(sums_, std::greater<>(), &Sum::ruled_out);
  if (sums_.size() >= most_sums_) {
    const auto least = std::find_if(sums_.rbegin(), sums_.rend(),
                                    [](const Sum& sum) { return sum.sum.per_time > 0; });
    sums_.erase(std::next(least).base());
    for (Sum& sum : sums_) sum.ruled_out /= 2;
  }
  add(bound_.alone(path));
  Sum& sum = sums_.back();
  for (std::size_t s = 0; s < chosen_.size(); ++s)
    sum.so_far[s + 1] = sum.so_far[s] + sum.onward.costs[s][chosen_[s]];
}

void PathWalk::set_limit(Time limit) {
  limit_ = limit;
  for (Sum& sum : sums_) sum.most = PathBound::safe * sum.sum.most(static_cast<double>(limit_));
}

/// Whether the layout may continue with this choice.
bool PathWalk::goes_on(int stage, std::size_t place, Effort& effort) {
  const int end = choices_.of(stage)[place].end;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    Sum& sum = sums_[i];
    const double so_far = sum.so_far[index(stage)] + sum.onward.costs[index(stage)][place];
    if (so_far + sum.onward.least[index(stage + 1)][index(end)] > sum.most) {
      ++sum.ruled_out;
      effort.spend(1 + static_cast<std::int64_t>(i) / 4);
      // A sum that pruned this choice will probably prune others, so it moves forward.
      if (i > 0) std::swap(sums_[i], sums_[i / 2]);
      return false;
    }
    sum.so_far[index(stage) + 1] = so_far;
  }
  effort.spend(1 + static_cast<std::int64_t>(sums_.size()) / 4);
  return true;
}

void PathWalk::choose(int stage, Effort& effort) {
  if (stage == bound_.costs().stages()) return end(effort);
  const int first = layout_.cuts.back();
  const std::size_t last = choices_.place(stage, first + 1);
  for (std::size_t place = choices_.place(stage, first); place < last; ++place) {
    complete_ = complete_ && !effort.is_spent();
    if (!complete_) return;
    if (!goes_on(stage, place, effort)) continue;
    const StageChoices::Choice& choice = choices_.of(stage)[place];
    layout_.cuts.push_back(choice.end);
    layout_.recompute.push_back(choice.recompute);
    chosen_.push_back(place);
    choose(stage + 1, effort);
    chosen_.pop_back();
    layout_.cuts.pop_back();
    layout_.recompute.pop_back();
  }
}

/// Times a complete layout.
void PathWalk::end(Effort& effort) {
  effort.spend(bound_.steps_to_time());
  double step = 0;
  const PassCounts path = bound_.critical_path(layout_, step);
  if (step > static_cast<double>(limit_)) {
    const bool is_full = sums_.size() >= most_sums_;
    if (!is_full || ++too_long_ % between_lessons == 0) learn(path, effort);
    return;
  }
  const Time limit = (*visit_)(layout_);
  if (limit < limit_) set_limit(limit);
}

bool PathWalk::walk(Time limit, Effort& effort, const std::function<Time(const Layout&)>& visit) {
  if (choices_.are_too_many()) return false;
  set_limit(limit);
  layout_ = {.replicas = std::vector<int>(index(bound_.costs().depth()), 1), .cuts = {0}};
  visit_ = &visit;
  complete_ = true;
  choose(0, effort);
  return complete_;
}

}  // namespace stagecraft
