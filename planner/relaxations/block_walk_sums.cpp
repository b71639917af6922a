// Sums over rows of compatible items, and the items that they rule out.

#include <algorithm>

#include "planner/relaxations/block_walk.hpp"
#include "profiles/infinite.hpp"

namespace stagecraft {

/// The range of blocks that each device and those after it may have together.
std::vector<BlockWalk::Range> BlockWalk::ranges_after() const {
  std::vector<Range> own;
  for (int d = 0; d < size(); ++d) {
    Range& range = own.emplace_back(Range{.fewest = blocks_, .most = 0});
    for (const int i : left_[index(d)]) {
      range.fewest = std::min(range.fewest, item(d, i).blocks);
      range.most = std::max(range.most, item(d, i).blocks);
    }
  }
  std::vector<Range> after(devices_.size() + 1);
  for (int d = size() - 1; d >= 0; --d) {
    after[index(d)] = {after[index(d) + 1].fewest + own[index(d)].fewest,
                       after[index(d) + 1].most + own[index(d)].most};
  }
  Range before;
  for (int d = 0; d < size(); ++d) {
    Range& range = after[index(d)];
    range = {std::max(range.fewest, blocks_ - before.most),
             std::min(range.most, blocks_ - before.fewest)};
    before = {before.fewest + own[index(d)].fewest, before.most + own[index(d)].most};
  }
  after.back() = {};
  return after;
}

namespace {

/// Lowers `sums` to `others`, shifted by a number of blocks.
template <class Range>
void lower_sums(std::vector<double>& to, const Range& range, const std::vector<double>& from,
                const Range& from_range, int blocks) {
  const int first = std::max(range.fewest, from_range.fewest + blocks);
  const int end = std::min(range.most, from_range.most + blocks) + 1;
  if (first >= end) return;
  double* own = to.data() + (first - range.fewest);
  const double* other = from.data() + (first - blocks - from_range.fewest);
  for (int n = 0; n < end - first; ++n) own[n] = own[n] < other[n] ? own[n] : other[n];
}

}  // namespace

void BlockWalk::sum_after(Weighed& weighed) {
  Sums& sums = weighed.after;
  sums.resize(devices_.size());
  for (int d = size() - 1; d >= 0; --d) {
    const Range& range = weighed.ranges[index(d)];
    const Range& next_range = weighed.ranges[index(d) + 1];
    sums[index(d)].resize(count(d));
    for (const int i : left_[index(d)]) {
      std::vector<double>& own = sums[index(d)][index(i)];
      own.assign(range.size(), infinite);
      const int blocks = item(d, i).blocks;
      if (d + 1 == size()) {
        if (range.has(blocks)) own[index(blocks - range.fewest)] = 0;
      } else {
        for (const int next : left_[index(d) + 1]) {
          if (goes_with(d, i, next))
            lower_sums(own, range, sums[index(d) + 1][index(next)], next_range, blocks);
        }
        spent_ += static_cast<std::int64_t>(left_[index(d) + 1].size() * (2 + range.size() / 8));
      }
      for (double& sum : own) sum += weighed.costs[index(d)][index(i)];
    }
  }
}

/// Least sums of a device with an item and the devices before it, by the blocks of the devices
/// after it.
BlockWalk::Sums BlockWalk::sums_before(const Weighed& weighed) {
  Sums sums(devices_.size());
  for (int d = 0; d < size(); ++d) {
    const Range& range = weighed.ranges[index(d) + 1];
    const Range& before_range = weighed.ranges[index(d)];
    sums[index(d)].resize(count(d));
    for (const int i : left_[index(d)]) {
      std::vector<double>& own = sums[index(d)][index(i)];
      own.assign(range.size(), infinite);
      const int blocks = item(d, i).blocks;
      if (d == 0) {
        if (range.has(blocks_ - blocks)) own[index(blocks_ - blocks - range.fewest)] = 0;
      } else {
        for (const int before : left_[index(d) - 1]) {
          if (goes_with(d - 1, before, i))
            lower_sums(own, range, sums[index(d) - 1][index(before)], before_range, -blocks);
        }
        spent_ += static_cast<std::int64_t>(left_[index(d) - 1].size() * (2 + range.size() / 8));
      }
      for (double& sum : own) sum += weighed.costs[index(d)][index(i)];
    }
  }
  return sums;
}

/// The row of least sum; of equal rows, the first.
BlockWalk::Row BlockWalk::best_row(const Weighed& weighed) const {
  Row row{.sum = infinite, .items = {}};
  int rest = blocks_;
  for (int d = 0; d < size(); ++d) {
    int best = -1;
    double least = infinite;
    for (const int i : left_[index(d)]) {
      if (d > 0 && !goes_with(d - 1, row.items.back(), i)) continue;
      if (!weighed.ranges[index(d)].has(rest)) continue;
      const double sum =
          weighed.after[index(d)][index(i)][index(rest - weighed.ranges[index(d)].fewest)];
      if (sum >= least) continue;
      least = sum;
      best = i;
    }
    if (best < 0) return {.sum = infinite, .items = {}};
    if (d == 0) row.sum = least;
    row.items.push_back(best);
    rest -= item(d, best).blocks;
  }
  return row;
}

void BlockWalk::leave_out_above(const Weighed& weighed, const Sums& before) {
  // Least total of a sum before and a sum after, over the number of blocks.
  const auto least = [&](const std::vector<double>& some, const std::vector<double>& others) {
    double sum = infinite;
    for (std::size_t n = 0; n < some.size(); ++n) sum = std::min(sum, some[n] + others[n]);
    spent_ += 1 + static_cast<std::int64_t>(some.size()) / 8;
    return sum;
  };
  for (int d = 0; d < size(); ++d) {
    const std::vector<int> own = left_[index(d)];
    std::vector<int>& kept = left_[index(d)];
    kept.clear();
    for (const int i : own) {
      double sum = infinite;
      if (d + 1 == size())
        sum = before[index(d)][index(i)].empty() ? infinite : before[index(d)][index(i)][0];
      for (const int next : d + 1 == size() ? std::vector<int>{} : left_[index(d) + 1]) {
        if (!goes_with(d, i, next)) continue;
        const double both =
            least(before[index(d)][index(i)], weighed.after[index(d) + 1][index(next)]);
        if (both > weighed.most) pair(d, i, next) = 0;
        sum = std::min(sum, both);
      }
      if (sum <= weighed.most) kept.push_back(i);
    }
  }
}

std::optional<BlockWalk::Row> BlockWalk::weigh(const Costs& costs, double most) {
  constexpr std::size_t most_weighed = 8;
  Weighed weighed{.costs = costs, .after = {}, .ranges = ranges_after(), .most = most};
  sum_after(weighed);
  Row row = best_row(weighed);
  if (row.sum > most) return {};
  leave_out_above(weighed, sums_before(weighed));
  weighed_.push_front(std::move(weighed));
  if (weighed_.size() > most_weighed) weighed_.pop_back();
  return row;
}

/// Adds a sum that rules out a pipeline with these stage times.
void BlockWalk::learn(const Times& times) {
  constexpr std::size_t most_weighed = 40;
  const std::int64_t before = spent_;
  Lesson lesson = learn_(times);
  spent_ += lesson.spent;
  Weighed weighed{
      .costs = std::move(lesson.costs), .after = {}, .ranges = ranges_after(), .most = lesson.most};
  sum_after(weighed);
  weighed_.push_front(std::move(weighed));
  if (weighed_.size() > most_weighed) weighed_.pop_back();
  lesson_ = spent_ - before;
  lost_ = 0;
}

bool BlockWalk::allows(const std::vector<int>& row) const {
  for (int d = 0; d < size(); ++d) {
    if (!std::ranges::binary_search(left_[index(d)], row[index(d)])) return false;
    if (d > 0 && !goes_with(d - 1, row[index(d) - 1], row[index(d)])) return false;
  }
  return true;
}

/// Whether some sum rules out this item after those chosen, if this device and those after it have
/// `rest` blocks.
bool BlockWalk::is_above(const std::vector<int>& chosen, int i, int rest) const {
  const int device = static_cast<int>(chosen.size());
  return std::ranges::any_of(weighed_, [&](const Weighed& weighed) {
    double sum = 0;
    for (int d = 0; d < device; ++d) sum += weighed.costs[index(d)][index(chosen[index(d)])];
    const Range& range = weighed.ranges[index(device)];
    if (!range.has(rest)) return true;
    return sum + weighed.after[index(device)][index(i)][index(rest - range.fewest)] > weighed.most;
  });
}

}  // namespace stagecraft
