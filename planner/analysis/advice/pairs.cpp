#include "planner/analysis/advice/pairs.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "planner/analysis/advice/ranking.hpp"

namespace stagecraft::advising {

namespace {

/// Pairs that are put on the clock; the rest promise less.
constexpr std::size_t most_pairs = 48;

struct Promise {
  double over = 0;  ///< part of the memory that it seems to need beyond what there is
  double step = 0;  ///< seconds
  ChangeSet changes;
};

/// Nothing where the two say different things, or one says all of the other.
std::optional<ChangeSet> pair_of(const AdvisedEdit& one, const AdvisedEdit& other) {
  auto set = merged(one.changes, other.changes);
  const std::size_t longer = std::max(one.changes.size(), other.changes.size());
  if (set && set->size() <= longer) set.reset();
  return set;
}

Promise promise_of(const Prediction& one, const Prediction& other, const Prediction& now,
                   ChangeSet changes) {
  const double full = std::max(part_of_memory(now), 1e-9);
  const double memory = part_of_memory(one) / full * part_of_memory(other);
  return {std::max(0.0, memory - 1.05), seconds(one.step) * seconds(other.step) / seconds(now.step),
          std::move(changes)};
}

}  // namespace

std::vector<ChangeSet> pairs_to_try(const std::vector<AdvisedEdit>& singles,
                                    const Prediction& now) {
  std::vector<Promise> promises;
  std::set<ChangeSet> known;
  for (std::size_t a = 0; a < singles.size(); ++a) {
    for (std::size_t b = a + 1; b < singles.size(); ++b) {
      auto set = pair_of(singles[a], singles[b]);
      if (!set || !known.insert(*set).second) continue;
      promises.push_back(
          promise_of(singles[a].prediction, singles[b].prediction, now, std::move(*set)));
    }
  }
  std::ranges::stable_sort(promises, [](const Promise& a, const Promise& b) {
    return std::pair(a.over, a.step) < std::pair(b.over, b.step);
  });
  std::vector<ChangeSet> sets;
  for (Promise& promise : promises) {
    if (sets.size() < most_pairs) sets.push_back(std::move(promise.changes));
  }
  return sets;
}

}  // namespace stagecraft::advising
