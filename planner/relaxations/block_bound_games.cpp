// Games of paths against layouts: who has part in them, and the best weights.

#include <algorithm>
#include <utility>

#include "planner/relaxations/block_bound.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

void BlockBound::take_part(Seen& seen, const RowRef& row) const {
  seen.take_part(row, [&](const Row& own, const Chosen& layout) { return length(own, layout); });
}

/// One more layout; those with a choice that is left out do not count any more.
void BlockBound::add(Seen& seen, const Chosen& layout) const {
  seen.keep_if([&](const Chosen& own) { return in_step_ ? is_in_walk(own) : is_left(own); });
  seen.let_go_of_idle(games_);
  seen.add(layout, games_, [&](const Row& row, const Chosen& own) { return length(row, own); });
}

/// The best weights for the layouts seen, and what they get from them.
double BlockBound::play(Seen& seen, Weights& weights) {
  const double value = seen.play(++games_, weights);
  spent_ += seen.take_steps();
  return value;
}

/// Of the rows that have no part the longest, in the mean of the latest game's layouts; null if
/// none is longer than the game's value.
BlockBound::RowRef BlockBound::longest_in_mixture(const Seen& seen, double value) {
  constexpr double tiny = 1e-7;
  std::vector<double> parts(cells_.size());
  std::vector<int> in_use;
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    if (seen.mixture()[i] == 0) continue;
    for (const int c : seen.layouts()[i]) {
      for (const int cell : cells_of(c)) {
        if (parts[index(cell)] == 0) in_use.push_back(cell);
        parts[index(cell)] += seen.mixture()[i];
      }
    }
  }
  // Half as many digits tell which may be the longest.
  std::vector<float> means;
  for (const RowRef& row : rows_) means.push_back(static_cast<float>(row->constant));
  for (const int cell : in_use) {
    const auto part = static_cast<float>(parts[index(cell)]);
    const float* lengths = lengths_.data() + index(cell) * most_rows_;
    for (std::size_t r = 0; r < means.size(); ++r) means[r] += part * lengths[r];
  }
  RowRef best;
  float most = 0;
  for (std::size_t r = 0; r < means.size(); ++r) {
    // Rounding must not let one that has part look longer than the game says.
    if (means[r] <= most || seen.has_part(rows_[r])) continue;
    most = means[r];
    best = rows_[r];
  }
  if (best) {
    double mean = best->constant;
    for (const int cell : in_use) mean += parts[index(cell)] * best->lengths[index(cell)];
    if (mean <= value + tiny) best = nullptr;
  }
  spent_ += static_cast<std::int64_t>(rows_.size() * in_use.size()) / 16;
  if (best) best->used = games_;
  return best;
}

/// The critical path of the mean of the latest game's layouts: no path is longer there. What it
/// takes there goes to `step`.
BlockBound::RowRef BlockBound::path_of_mean(const Seen& seen, double& step) {
  std::vector<StageTimes> mean(index(costs_.stages()));
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    if (seen.mixture()[i] == 0) continue;
    for (const int c : seen.layouts()[i]) {
      for (const int cell : cells_of(c)) {
        const Cell& own = cells_[index(cell)];
        mean[index(own.stage)].add(StageTimes::of(*own.costs, own.again), seen.mixture()[i]);
      }
    }
  }
  add_row(passes_.of(mean, step));
  step /= limit_;
  spent_ += static_cast<std::int64_t>(order_.order.size()) / 2;
  return rows_.back();
}

/// Plays with all known rows that are of use.
double BlockBound::play_with_longest(Seen& seen, Weights& weights) {
  for (;;) {
    const double value = play(seen, weights);
    const RowRef row = longest_in_mixture(seen, value);
    if (row == nullptr) return value;
    take_part(seen, row);
  }
}

/// And with critical paths, until the value is as close to the best weights of all paths as it is
/// to the bound, or closer.
double BlockBound::play_with_paths(Seen& seen, Weights& weights) {
  constexpr double tiny = 1e-5, part = 4;
  double value = play_with_longest(seen, weights);
  for (int paths = 0; paths < most_paths; ++paths) {
    double step = 0;
    const RowRef row = path_of_mean(seen, step);
    if (step < value + std::max((value - bound_) / part, tiny)) break;
    take_part(seen, row);
    value = play_with_longest(seen, weights);
  }
  return value;
}

}  // namespace stagecraft
