// Proofs, by branch and bound, that no layout is left within a limit.

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/relaxations/path_bound.hpp"
#include "planner/relaxations/path_walk.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

bool PathBound::prove(Time limit, Effort& effort, const Judging& visit) {
  if (choices_.are_too_many()) return false;
  if (rows_.empty()) begin();
  // Removed choices, and the weights, hold for this limit only, so they are restored afterwards.
  const StageChoices all = choices_;
  const Weights weights = weights_;
  const double value = value_, scale = moment_scale_, bound = bound_, whole = limit_;
  limit_ = static_cast<double>(limit);
  moment_scale_ = limit_ / unit_;
  Proof proof{.effort = effort, .visit = visit};
  Seen seen;
  for (const Weight& own : weights_) take_part(seen, own.row);
  const bool is_proved = is_out(proof, std::move(seen), weights);
  choices_ = all;
  weights_ = weights;
  value_ = value;
  moment_scale_ = scale;
  bound_ = bound;
  limit_ = whole;
  return is_proved;
}

/// Whether no layout of the remaining choices is left except those visited: shown by weights, by
/// enumeration, or by branching.
bool PathBound::is_out(Proof& proof, Seen seen, const Weights& start) {
  play_out(proof, seen, start);
  if (choices_.are_none()) return true;
  if (proof.effort.is_spent()) return false;
  if (is_walked_out(proof)) return true;
  const Split split = best_split(seen);
  const StageChoices all = choices_;
  const Weights weights = weights_;
  constexpr double half = 0.5;
  const bool first = part_of_first(split, seen) > half;
  for (const bool is_first : {first, !first}) {
    if (proof.effort.is_spent()) return false;
    choices_ = all;
    choices_.keep(split.stage, [&](const StageChoices::Choice& choice) {
      return split.is_first(choice) == is_first;
    });
    if (!is_out(proof, seen, weights)) return false;
  }
  return true;
}

/// Removes choices by weights, starting from these.
void PathBound::play_out(Proof& proof, Seen& seen, const Weights& start) {
  constexpr int most_rounds = 12;
  // A layout found on the way may lower the limit.
  const auto consider = [&](const Layout& layout, double step) {
    if (step <= limit_) visit(proof, layout);
  };
  weights_ = start;
  value_ = 0;
  Weights weights = start;
  bool goes_on = true;
  for (int round = 0; goes_on && round < most_rounds && !proof.effort.is_spent(); ++round) {
    const std::int64_t before = spent_;
    goes_on = play_round(seen, weights, consider);
    proof.effort.spend(spent_ - before);
  }
}

/// Visits a layout, but only once.
void PathBound::visit(Proof& proof, const Layout& layout) {
  std::vector<int> key = layout.cuts;
  for (const Recompute recompute : layout.recompute)
    key.push_back(recompute == Recompute::full ? 1 : 0);
  if (!proof.visited.insert(std::move(key)).second) return;
  limit_ = std::min(limit_, static_cast<double>(proof.visit(layout)));
}

/// Enumerates the layouts if they are few enough. If the walk turns out long, returns false, and
/// the proof branches.
bool PathBound::is_walked_out(Proof& proof) {
  constexpr double few = 2000, steps_per_layout = 100;
  constexpr std::int64_t part = 4;
  const double layouts = choices_.layouts();
  if (layouts > std::max(few, static_cast<double>(proof.effort.left) / steps_per_layout))
    return false;
  const std::int64_t kept = layouts > few ? proof.effort.left - proof.effort.left / part : 0;
  proof.effort.left -= kept;
  PathWalk walk(*this);
  const bool is_complete =
      walk.walk(static_cast<Time>(limit_), proof.effort, [&](const Layout& layout) {
        visit(proof, layout);
        return static_cast<Time>(limit_);
      });
  proof.effort.left = std::max<std::int64_t>(proof.effort.left, 0) + kept;
  return is_complete;
}

/// The choices of a stage in the mean layout of the latest game.
struct PathBound::Usage {
  double end = 0;    ///< mean end of the stage
  double full = 0;   ///< share of the layouts in which the stage recomputes
  double again = 0;  ///< nanoseconds of its recomputation
};

PathBound::Usage PathBound::usage(int stage, const Seen& seen) const {
  Usage usage;
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    const auto& [choices, parts] = seen.layouts()[i];
    const StageChoices::Choice& choice = choices[index(stage)];
    const double weight = seen.mixture()[i];
    usage.end += weight * choice.end;
    usage.full += choice.recompute == Recompute::full ? weight : 0;
    usage.again += weight * parts.stages[index(stage)][Part::forward];
  }
  return usage;
}

/// Mean distance of the stage's end in the latest game's layouts from the split's end, in
/// nanoseconds per microbatch.
double PathBound::distance(const Split& split, const Seen& seen) const {
  const auto work = [&](int from, int to) {
    double sum = 0;
    for (int layer = from; layer < to; ++layer) {
      if (costs_.last_end(split.stage, layer) <= layer) continue;
      const StageCosts& own = costs_.stage(split.stage, layer, layer + 1);
      sum += own.forward + own.backward;
    }
    return sum;
  };
  double distance = 0;
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    if (seen.mixture()[i] == 0) continue;
    const int end = seen.layouts()[i].choices[index(split.stage)].end;
    distance +=
        seen.mixture()[i] * work(std::min(end, split.last_end), std::max(end, split.last_end));
  }
  return distance;
}

/// The split about which the latest game's layouts differ most, by time, with remaining choices on
/// both sides.
PathBound::Split PathBound::best_split(const Seen& seen) const {
  Split best;
  double most = -1;
  const auto consider = [&](const Split& split, double difference) {
    if (difference <= most) return;
    most = difference;
    best = split;
  };
  for (int s = 0; s < costs_.stages(); ++s) {
    const auto& choices = choices_.of(s);
    const auto [least, last] = std::ranges::minmax(choices, {}, &StageChoices::Choice::end);
    const Usage usage = this->usage(s, seen);
    const Split by_again{.stage = s, .last_end = 0};
    const auto firsts =
        std::ranges::count_if(choices, [&](const auto& own) { return by_again.is_first(own); });
    if (firsts > 0 && firsts < std::ssize(choices))
      consider(by_again, std::min(usage.full, 1 - usage.full) * usage.again);
    if (least.end == last.end) continue;
    const int middle = std::clamp(static_cast<int>(usage.end), least.end, last.end - 1);
    const Split by_end{.stage = s, .last_end = middle};
    consider(by_end, distance(by_end, seen));
  }
  return best;
}

double PathBound::part_of_first(const Split& split, const Seen& seen) const {
  double part = 0;
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    const StageChoices::Choice& choice = seen.layouts()[i].choices[index(split.stage)];
    part += split.is_first(choice) ? seen.mixture()[i] : 0;
  }
  return part;
}

}  // namespace stagecraft
