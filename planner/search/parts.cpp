#include "planner/search/parts.hpp"

#include <algorithm>

#include "planner/problem/question.hpp"
#include "planner/relaxations/relaxations.hpp"

namespace stagecraft {

SearchControl SearchParts::next() {
  SearchControl own = control_;
  own.explain = false;
  if (control_.progress) {
    own.progress = [this, part = part_](SearchProgress progress) {
      progress.done = (static_cast<double>(part) + progress.done) / static_cast<double>(parts_);
      control_.progress(progress);
    };
  }
  ++part_;
  if (const auto threshold = board_.threshold()) {
    const auto part = static_cast<Duration::rep>(static_cast<double>(threshold->count()) *
                                                 std::max(control_.gap, 0.0));
    const Duration worth = *threshold - Duration{part + 1};
    own.worth = std::min(own.worth.value_or(worth), worth);
  }
  return own;
}

void SearchParts::take(const SearchResult& part) {
  for (const Candidate& plan : part.plans) board_.add(plan);
  strategy_ = part.strategy;
  may_be_verified_ = may_be_verified_ && part.question.has_value();
  searched_.add({.bounds = part.families, .counts = part});
  if (!part.families.has(PlanFamily::any_kind) || part.plans.empty()) return;
  const Candidate& best = part.plans.front();
  if (!beyond_ || pace(*best.prediction) < pace(*beyond_->prediction)) beyond_ = best;
}

void SearchParts::leave_rest() {
  searched_.counts.interrupted = true;
  searched_.bounds.add(FamilyBound{});
}

SearchResult SearchParts::finish(const Problem& problem, const BoundBeyond& bound_beyond) {
  const Duration best = board_.best().value_or(Duration::max());
  FamilyBounds& bounds = searched_.bounds;
  bounds.cap_searched(best);
  bounds.remove(PlanFamily::any_kind);
  SearchResult result{searched_.counts};
  result.strategy = strategy_;
  if (may_be_verified_) result.question = question_of(problem);
  if (beyond_ && pace(*beyond_->prediction) <= best) {
    const Duration mixed = bounds.bound_of(PlanFamily::several_degrees);
    bounds.add({PlanFamily::any_kind, bound_beyond(beyond_->plan, mixed),
                std::string(relaxation::work_of_any_plan)});
    if (bounds.least() <= Duration{0})
      result.question.reset();  // a bound of zero needs no
                                // certificate
  }
  if (bounds.least_left_out() >= best) bounds.remove_left_out();
  result.families = bounds;
  return stagecraft::finish(board_, std::move(result));
}

}  // namespace stagecraft
