// Proofs that nothing is left within a limit, by cases.

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
  // What is left out, and the weights of that, hold for this limit only.
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

/// Whether nothing is left of the choices there are, but what was visited: by weights, by a walk,
/// or case by case.
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

/// Leaves out what weights can, which begin with these.
void PathBound::play_out(Proof& proof, Seen& seen, const Weights& start) {
  constexpr int most_rounds = 12;
  // One of them may be good enough to lower the limit.
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

/// Once.
void PathBound::visit(Proof& proof, const Layout& layout) {
  std::vector<int> key = layout.cuts;
  for (const Recompute recompute : layout.recompute)
    key.push_back(recompute == Recompute::full ? 1 : 0);
  if (!proof.visited.insert(std::move(key)).second) return;
  limit_ = std::min(limit_, static_cast<double>(proof.visit(layout)));
}

/// Layout by layout, if they are few enough. A walk may turn out to be long: then cases had better
/// be made.
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

/// What the layouts of the latest game do with a stage.
struct PathBound::Usage {
  double end = 0;    ///< the mean
  double full = 0;   ///< the part of them that recomputes
  double again = 0;  ///< nanoseconds that it would take
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

/// How far layouts of the latest game are from this end, on the average, in nanoseconds of a
/// microbatch.
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

/// Where layouts of the latest game differ most, by time; of choices there are, neither part is
/// empty.
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
