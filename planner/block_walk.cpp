#include "planner/block_walk.hpp"

#include <algorithm>
#include <limits>

namespace stagecraft {

namespace {

/// Rounds of singles and pairs, each of which leaves out some part at least.
constexpr int most_rounds = 8, part = 32;

/// What takes no less than anything.
constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr StageTimes longest{infinite, infinite, infinite, infinite, infinite, infinite, infinite};

}  // namespace

BlockWalk::BlockWalk(StageClock& clock, std::vector<Device> devices, int blocks)
    : clock_(clock),
      devices_(std::move(devices)),
      blocks_(blocks),
      pairs_(devices_.size()),
      least_before_(devices_.size()),
      least_after_(devices_.size()),
      before_(devices_.size()),
      after_(devices_.size()),
      times_(at(clock.stages())) {
  Items all;
  for (int d = 0; d < size(); ++d) {
    std::vector<int>& own = all.emplace_back();
    for (std::size_t i = 0; i < count(d); ++i) own.push_back(static_cast<int>(i));
    for (auto* list : {&least_before_, &least_after_}) (*list)[at(d)].resize(count(d));
    for (auto* list : {&before_, &after_}) (*list)[at(d)].resize(count(d));
  }
  for (int d = 0; d + 1 < size(); ++d) pairs_[at(d)].assign(count(d) * count(d + 1), 1);
  keep(std::move(all));
}

void BlockWalk::keep(Items items) {
  left_ = std::move(items);
  weighed_.clear();
}

void BlockWalk::restore(State state) {
  left_ = std::move(state.left);
  pairs_ = std::move(state.pairs);
  weighed_.clear();
}

bool BlockWalk::is_empty() const {
  return std::ranges::any_of(left_, [](const auto& own) { return own.empty(); });
}

std::size_t BlockWalk::all_left() const {
  std::size_t all = 0;
  for (const auto& own : left_) all += own.size();
  return all;
}

void BlockWalk::put(int device, int i, Times& times) const {
  const std::vector<int>& stages = devices_[at(device)].stages;
  for (std::size_t t = 0; t < stages.size(); ++t) times[at(stages[t])] = item(device, i).stages[t];
}

/// To what an item takes, and what others take with it, of the devices [first, end).
void BlockWalk::lower(int device, int i, const Times& from, int first, int end, Times& to) const {
  const std::vector<int>& own = devices_[at(device)].stages;
  for (std::size_t t = 0; t < own.size(); ++t) to[at(own[t])].lower_to(item(device, i).stages[t]);
  for (int d = first; d < end; ++d) {
    for (const int s : devices_[at(d)].stages) to[at(s)].lower_to(from[at(s)]);
  }
}

void BlockWalk::list_least_before(int device) {
  for (const int i : left_[at(device)]) {
    Times& least = least_before_[at(device)][at(i)];
    least.assign(times_.size(), longest);
    if (device == 0) continue;
    for (const int before : left_[at(device - 1)]) {
      if (!goes_with(device - 1, before, i)) continue;
      lower(device - 1, before, least_before_[at(device - 1)][at(before)], 0, device - 1, least);
      spent_ += 1 + device;
    }
  }
}

void BlockWalk::list_least_after(int device) {
  for (const int i : left_[at(device)]) {
    Times& least = least_after_[at(device)][at(i)];
    least.assign(times_.size(), longest);
    if (device + 1 == size()) continue;
    for (const int next : left_[at(device + 1)]) {
      if (!goes_with(device, i, next)) continue;
      lower(device + 1, next, least_after_[at(device + 1)][at(next)], device + 2, size(), least);
      spent_ += size() - device;
    }
  }
}

/// The steps of so many pipelines; `put` says what the stages of one of them take.
template <class Put>
std::vector<double> BlockWalk::time(std::size_t pipelines, const Put& put) {
  std::vector<double> steps;
  while (steps.size() < pipelines) {
    const std::size_t first = steps.size();
    const std::size_t some = std::min<std::size_t>(StageClock::lanes, pipelines - first);
    for (std::size_t lane = 0; lane < some; ++lane) {
      put(first + lane, times_);
      for (int s = 0; s < clock_.stages(); ++s)
        clock_.put(static_cast<int>(lane), s, times_[at(s)]);
    }
    const auto& found = clock_.run();
    steps.insert(steps.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(some));
    spent_ += clock_.steps_per_run() + clock_.stages() * static_cast<std::int64_t>(some);
  }
  return steps;
}

namespace {

/// Stages of the devices [first, end).
template <class Devices, class Times>
void copy(const Devices& devices, int first, int end, const Times& from, Times& to) {
  for (int d = first; d < end; ++d) {
    for (const int s : devices[static_cast<std::size_t>(d)].stages)
      to[static_cast<std::size_t>(s)] = from[static_cast<std::size_t>(s)];
  }
}

}  // namespace

void BlockWalk::leave_out_singles(double limit) {
  for (int d = size() - 1; d >= 0 && !is_spent(); --d) list_least_after(d);
  for (int d = 0; d < size() && !is_spent(); ++d) {
    list_least_before(d);
    std::vector<int>& own = left_[at(d)];
    const std::vector<double> steps = time(own.size(), [&](std::size_t n, Times& times) {
      const std::size_t i = at(own[n]);
      copy(devices_, 0, d, least_before_[at(d)][i], times);
      put(d, own[n], times);
      copy(devices_, d + 1, size(), least_after_[at(d)][i], times);
    });
    std::size_t n = 0;
    std::erase_if(own, [&](int) { return steps[n++] > limit; });
    if (own.empty()) return;
  }
}

/// Of the device and the next one.
void BlockWalk::leave_out_pairs(int device, double limit) {
  std::vector<std::pair<int, int>> pairs;
  for (const int i : left_[at(device)]) {
    for (const int next : left_[at(device + 1)]) {
      if (goes_with(device, i, next)) pairs.emplace_back(i, next);
    }
  }
  const std::vector<double> steps = time(pairs.size(), [&](std::size_t n, Times& times) {
    const auto [i, next] = pairs[n];
    copy(devices_, 0, device, least_before_[at(device)][at(i)], times);
    put(device, i, times);
    put(device + 1, next, times);
    copy(devices_, device + 2, size(), least_after_[at(device + 1)][at(next)], times);
  });
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    if (steps[n] > limit) pair(device, pairs[n].first, pairs[n].second) = 0;
  }
}

void BlockWalk::leave_out_pairs(double limit) {
  for (int d = 0; d < size() && !is_spent(); ++d) list_least_before(d);
  for (int d = size() - 1; d >= 0 && !is_spent(); --d) {
    if (d + 1 < size()) leave_out_pairs(d, limit);
    list_least_after(d);
  }
}

/// How many blocks the devices before and after can have.
void BlockWalk::list_counts() {
  const auto extend = [&](const Counts& from, int blocks, Counts& to) {
    for (int n = blocks; n <= blocks_; ++n) to[at(n)] |= from[at(n - blocks)];
    spent_ += blocks_ / 32;
  };
  for (int d = 0; d < size(); ++d) {
    for (const int i : left_[at(d)]) {
      Counts& own = before_[at(d)][at(i)];
      own.assign(at(blocks_) + 1, 0);
      if (d == 0) own.front() = 1;
      if (d == 0) continue;
      for (const int b : left_[at(d - 1)]) {
        if (goes_with(d - 1, b, i)) extend(before_[at(d - 1)][at(b)], item(d - 1, b).blocks, own);
      }
    }
  }
  for (int d = size() - 1; d >= 0; --d) {
    for (const int i : left_[at(d)]) {
      Counts& own = after_[at(d)][at(i)];
      own.assign(at(blocks_) + 1, 0);
      if (d + 1 == size()) own.front() = 1;
      if (d + 1 == size()) continue;
      for (const int b : left_[at(d + 1)]) {
        if (goes_with(d, i, b)) extend(after_[at(d + 1)][at(b)], item(d + 1, b).blocks, own);
      }
    }
  }
}

/// With so many blocks here, what the devices before an item can have, and those after.
bool BlockWalk::can_have_all(int device, int i, const Counts& after, int blocks) const {
  const Counts& before = before_[at(device)][at(i)];
  for (int n = 0; n + blocks <= blocks_; ++n) {
    if (before[at(n)] != 0 && after[at(blocks_ - blocks - n)] != 0) return true;
  }
  return false;
}

/// Items and pairs that are in no row with all blocks. Whether there were any.
bool BlockWalk::leave_out_by_counts() {
  bool any = false;
  list_counts();
  for (int d = 0; d < size(); ++d) {
    const std::size_t erased = std::erase_if(left_[at(d)], [&](int i) {
      return !can_have_all(d, i, after_[at(d)][at(i)], item(d, i).blocks);
    });
    any = any || erased > 0;
  }
  for (int d = 0; d + 1 < size(); ++d) {
    for (const int i : left_[at(d)]) {
      for (const int next : left_[at(d + 1)]) {
        if (!goes_with(d, i, next)) continue;
        const int blocks = item(d, i).blocks + item(d + 1, next).blocks;
        spent_ += blocks_ / 16;
        if (can_have_all(d, i, after_[at(d + 1)][at(next)], blocks)) continue;
        pair(d, i, next) = 0;
        any = true;
      }
    }
  }
  return any;
}

bool BlockWalk::can_look_at_pairs(std::int64_t effort) const {
  std::int64_t pairs = 0;
  for (int d = 0; d + 1 < size(); ++d)
    pairs += static_cast<std::int64_t>(left_[at(d)].size() * left_[at(d + 1)].size());
  return pairs / StageClock::lanes * clock_.steps_per_run() <= effort;
}

bool BlockWalk::thin_out(double limit, std::int64_t effort, const std::stop_token& stop) {
  last_ = spent_ + effort;
  stop_ = stop;
  for (int round = 0; round < most_rounds && can_look_at_pairs(last_ - spent_); ++round) {
    const std::size_t before = all_left();
    leave_out_singles(limit);
    if (is_empty()) return false;
    if (is_spent()) break;
    leave_out_pairs(limit);
    while (!is_spent() && !is_empty() && leave_out_by_counts()) {
    }
    if (is_empty()) return false;
    if (before - all_left() < before / part) break;
  }
  return true;
}

// --- Sums ---

/// What the devices from each one on may have.
std::vector<BlockWalk::Range> BlockWalk::ranges_after() const {
  std::vector<Range> own;
  for (int d = 0; d < size(); ++d) {
    Range& range = own.emplace_back(Range{.fewest = blocks_, .most = 0});
    for (const int i : left_[at(d)]) {
      range.fewest = std::min(range.fewest, item(d, i).blocks);
      range.most = std::max(range.most, item(d, i).blocks);
    }
  }
  std::vector<Range> after(devices_.size() + 1);
  for (int d = size() - 1; d >= 0; --d) {
    after[at(d)] = {after[at(d) + 1].fewest + own[at(d)].fewest,
                    after[at(d) + 1].most + own[at(d)].most};
  }
  Range before;
  for (int d = 0; d < size(); ++d) {
    Range& range = after[at(d)];
    range = {std::max(range.fewest, blocks_ - before.most),
             std::min(range.most, blocks_ - before.fewest)};
    before = {before.fewest + own[at(d)].fewest, before.most + own[at(d)].most};
  }
  after.back() = {};
  return after;
}

namespace {

/// Lowers sums, by blocks from one count on, to others, which have so many blocks less.
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
    const Range& range = weighed.ranges[at(d)];
    const Range& next_range = weighed.ranges[at(d) + 1];
    sums[at(d)].resize(count(d));
    for (const int i : left_[at(d)]) {
      std::vector<double>& own = sums[at(d)][at(i)];
      own.assign(range.size(), infinite);
      const int blocks = item(d, i).blocks;
      if (d + 1 == size()) {
        if (range.has(blocks)) own[at(blocks - range.fewest)] = 0;
      } else {
        for (const int next : left_[at(d) + 1]) {
          if (goes_with(d, i, next))
            lower_sums(own, range, sums[at(d) + 1][at(next)], next_range, blocks);
        }
        spent_ += static_cast<std::int64_t>(left_[at(d) + 1].size() * (2 + range.size() / 8));
      }
      for (double& sum : own) sum += weighed.costs[at(d)][at(i)];
    }
  }
}

/// Of a device with this item and those before it, by the blocks of those after it.
BlockWalk::Sums BlockWalk::sums_before(const Weighed& weighed) {
  Sums sums(devices_.size());
  for (int d = 0; d < size(); ++d) {
    const Range& range = weighed.ranges[at(d) + 1];
    const Range& before_range = weighed.ranges[at(d)];
    sums[at(d)].resize(count(d));
    for (const int i : left_[at(d)]) {
      std::vector<double>& own = sums[at(d)][at(i)];
      own.assign(range.size(), infinite);
      const int blocks = item(d, i).blocks;
      if (d == 0) {
        if (range.has(blocks_ - blocks)) own[at(blocks_ - blocks - range.fewest)] = 0;
      } else {
        for (const int before : left_[at(d) - 1]) {
          if (goes_with(d - 1, before, i))
            lower_sums(own, range, sums[at(d) - 1][at(before)], before_range, -blocks);
        }
        spent_ += static_cast<std::int64_t>(left_[at(d) - 1].size() * (2 + range.size() / 8));
      }
      for (double& sum : own) sum += weighed.costs[at(d)][at(i)];
    }
  }
  return sums;
}

/// Of equal ones the first.
BlockWalk::Row BlockWalk::best_row(const Weighed& weighed) const {
  Row row{.sum = infinite, .items = {}};
  int rest = blocks_;
  for (int d = 0; d < size(); ++d) {
    int best = -1;
    double least = infinite;
    for (const int i : left_[at(d)]) {
      if (d > 0 && !goes_with(d - 1, row.items.back(), i)) continue;
      if (!weighed.ranges[at(d)].has(rest)) continue;
      const double sum = weighed.after[at(d)][at(i)][at(rest - weighed.ranges[at(d)].fewest)];
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
  // Of two that go with each other, or of one and all that comes after it.
  const auto least = [&](const std::vector<double>& some, const std::vector<double>& others) {
    double sum = infinite;
    for (std::size_t n = 0; n < some.size(); ++n) sum = std::min(sum, some[n] + others[n]);
    spent_ += 1 + static_cast<std::int64_t>(some.size()) / 8;
    return sum;
  };
  for (int d = 0; d < size(); ++d) {
    const std::vector<int> own = left_[at(d)];
    std::vector<int>& kept = left_[at(d)];
    kept.clear();
    for (const int i : own) {
      double sum = infinite;
      if (d + 1 == size()) sum = before[at(d)][at(i)].empty() ? infinite : before[at(d)][at(i)][0];
      for (const int next : d + 1 == size() ? std::vector<int>{} : left_[at(d) + 1]) {
        if (!goes_with(d, i, next)) continue;
        const double both = least(before[at(d)][at(i)], weighed.after[at(d) + 1][at(next)]);
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

bool BlockWalk::allows(const std::vector<int>& row) const {
  for (int d = 0; d < size(); ++d) {
    if (!std::ranges::binary_search(left_[at(d)], row[at(d)])) return false;
    if (d > 0 && !goes_with(d - 1, row[at(d) - 1], row[at(d)])) return false;
  }
  return true;
}

/// Whether sums rule out an item behind those chosen, where it and the devices after it have this
/// rest.
bool BlockWalk::is_above(const std::vector<int>& chosen, int i, int rest) const {
  const int device = static_cast<int>(chosen.size());
  return std::ranges::any_of(weighed_, [&](const Weighed& weighed) {
    double sum = 0;
    for (int d = 0; d < device; ++d) sum += weighed.costs[at(d)][at(chosen[at(d)])];
    const Range& range = weighed.ranges[at(device)];
    if (!range.has(rest)) return true;
    return sum + weighed.after[at(device)][at(i)][at(rest - range.fewest)] > weighed.most;
  });
}

// --- The walk ---

/// What may follow the items chosen, as far as counts and sums tell.
void BlockWalk::list_next(const std::vector<int>& chosen, int have, std::vector<int>& items) {
  const int device = static_cast<int>(chosen.size());
  for (const int i : left_[at(device)]) {
    const int rest = blocks_ - have - item(device, i).blocks;
    if (device > 0 && !goes_with(device - 1, chosen.back(), i)) continue;
    if (rest < 0 || after_[at(device)][at(i)][at(rest)] == 0) continue;
    spent_ += static_cast<std::int64_t>(weighed_.size()) * (1 + device / 4);
    if (!is_above(chosen, i, rest + item(device, i).blocks)) items.push_back(i);
  }
}

/// What can follow each of the open items is timed at once, so that few lanes stay empty.
std::vector<BlockWalk::Opens> BlockWalk::open_next(std::vector<int>& chosen, int have,
                                                   const Opens& opens) {
  const int device = static_cast<int>(chosen.size());
  std::vector<std::vector<int>> next(opens.size());
  std::vector<std::pair<std::size_t, int>> all;  // which of the open ones, what follows it
  for (std::size_t n = 0; n < opens.size(); ++n) {
    chosen.push_back(opens[n].item);
    list_next(chosen, have + item(device, opens[n].item).blocks, next[n]);
    chosen.pop_back();
    for (const int i : next[n]) all.emplace_back(n, i);
  }
  const std::vector<double> steps = time(all.size(), [&](std::size_t pipeline, Times& times) {
    const auto [n, i] = all[pipeline];
    for (int d = 0; d < device; ++d) put(d, chosen[at(d)], times);
    put(device, opens[n].item, times);
    put(device + 1, i, times);
    copy(devices_, device + 2, size(), least_after_[at(device) + 1][at(i)], times);
  });
  std::vector<Opens> result(opens.size());
  for (std::size_t p = 0; p < all.size(); ++p)
    result[all[p].first].push_back({steps[p], all[p].second});
  return result;
}

/// By one of these on the next device; the quickest first.
bool BlockWalk::extend(std::vector<int>& chosen, int have, Opens opens, double& limit,
                       const Visit& visit) {
  const int device = static_cast<int>(chosen.size());
  std::erase_if(opens, [&](const Open& open) { return open.step > limit; });
  if (opens.empty()) return true;
  std::ranges::sort(opens);
  if (device + 1 == size()) {
    chosen.push_back(opens.front().item);
    visit(chosen, opens.front().step);
    limit = opens.front().step - 1;  // whole nanoseconds
    chosen.pop_back();
    return true;
  }
  if (is_spent()) return false;
  std::vector<Opens> next = open_next(chosen, have, opens);
  for (std::size_t n = 0; n < opens.size() && opens[n].step <= limit; ++n) {
    chosen.push_back(opens[n].item);
    const int all = have + item(device, opens[n].item).blocks;
    const bool is_done = extend(chosen, all, std::move(next[n]), limit, visit);
    chosen.pop_back();
    if (!is_done) return false;
  }
  return true;
}

bool BlockWalk::walk(double limit, std::int64_t effort, const Visit& visit,
                     const std::stop_token& stop) {
  last_ = spent_ + effort;
  stop_ = stop;
  if (is_spent() || !can_look_at_pairs(effort)) return false;
  list_counts();
  for (int d = size() - 1; d >= 0; --d) list_least_after(d);
  std::vector<int> chosen, first;
  list_next(chosen, 0, first);
  const std::vector<double> steps = time(first.size(), [&](std::size_t n, Times& times) {
    put(0, first[n], times);
    copy(devices_, 1, size(), least_after_[0][at(first[n])], times);
  });
  Opens opens;
  for (std::size_t n = 0; n < first.size(); ++n) opens.push_back({steps[n], first[n]});
  return extend(chosen, 0, std::move(opens), limit, visit);
}

}  // namespace stagecraft
