#include "planner/relaxations/block_walk.hpp"

#include <algorithm>

#include "profiles/infinite.hpp"

namespace stagecraft {

namespace {

/// Maximum number of rounds over singles and pairs; a round must remove at least 1/part to be
/// repeated.
constexpr int most_rounds = 8, part = 32;

/// Upper bound of all times, as the neutral element of a minimum.
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
      times_(index(clock.stages())) {
  Items all;
  for (int d = 0; d < size(); ++d) {
    std::vector<int>& own = all.emplace_back();
    for (std::size_t i = 0; i < count(d); ++i) own.push_back(static_cast<int>(i));
    for (auto* list : {&least_before_, &least_after_}) (*list)[index(d)].resize(count(d));
    for (auto* list : {&before_, &after_}) (*list)[index(d)].resize(count(d));
  }
  for (int d = 0; d + 1 < size(); ++d) pairs_[index(d)].assign(count(d) * count(d + 1), 1);
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
  const std::vector<int>& stages = devices_[index(device)].stages;
  for (std::size_t t = 0; t < stages.size(); ++t)
    times[index(stages[t])] = item(device, i).stages[t];
}

/// Lowers the times of the devices [first, end) to the minimum with those given this item.
void BlockWalk::lower(int device, int i, const Times& from, int first, int end, Times& to) const {
  const std::vector<int>& own = devices_[index(device)].stages;
  for (std::size_t t = 0; t < own.size(); ++t)
    to[index(own[t])].lower_to(item(device, i).stages[t]);
  for (int d = first; d < end; ++d) {
    for (const int s : devices_[index(d)].stages) to[index(s)].lower_to(from[index(s)]);
  }
}

void BlockWalk::list_least_before(int device) {
  for (const int i : left_[index(device)]) {
    Times& least = least_before_[index(device)][index(i)];
    least.assign(times_.size(), longest);
    if (device == 0) continue;
    for (const int before : left_[index(device - 1)]) {
      if (!goes_with(device - 1, before, i)) continue;
      lower(device - 1, before, least_before_[index(device - 1)][index(before)], 0, device - 1,
            least);
      spent_ += 1 + device;
    }
  }
}

void BlockWalk::list_least_after(int device) {
  for (const int i : left_[index(device)]) {
    Times& least = least_after_[index(device)][index(i)];
    least.assign(times_.size(), longest);
    if (device + 1 == size()) continue;
    for (const int next : left_[index(device + 1)]) {
      if (!goes_with(device, i, next)) continue;
      lower(device + 1, next, least_after_[index(device + 1)][index(next)], device + 2, size(),
            least);
      spent_ += size() - device;
    }
  }
}

/// Times a number of pipelines; `put` fills in the stage times of each.
template <class Put>
std::vector<double> BlockWalk::time(std::size_t pipelines, const Put& put) {
  std::vector<double> steps;
  while (steps.size() < pipelines) {
    const std::size_t first = steps.size();
    const std::size_t some = std::min<std::size_t>(StageClock::lanes, pipelines - first);
    for (std::size_t lane = 0; lane < some; ++lane) {
      put(first + lane, times_);
      for (int s = 0; s < clock_.stages(); ++s)
        clock_.put(static_cast<int>(lane), s, times_[index(s)]);
    }
    const auto& found = clock_.run();
    steps.insert(steps.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(some));
    spent_ += clock_.steps_per_run() + clock_.stages() * static_cast<std::int64_t>(some) / 3;
  }
  return steps;
}

namespace {

/// Calls the function for the stages of the devices [first, end).
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
    std::vector<int>& own = left_[index(d)];
    const std::vector<double> steps = time(own.size(), [&](std::size_t n, Times& times) {
      const std::size_t i = index(own[n]);
      copy(devices_, 0, d, least_before_[index(d)][i], times);
      put(d, own[n], times);
      copy(devices_, d + 1, size(), least_after_[index(d)][i], times);
    });
    std::size_t n = 0;
    std::erase_if(own, [&](int) { return steps[n++] > limit; });
    if (own.empty()) return;
  }
}

/// Removes pairs of choices of this device and the next one.
void BlockWalk::leave_out_pairs(int device, double limit) {
  std::vector<std::pair<int, int>> pairs;
  for (const int i : left_[index(device)]) {
    for (const int next : left_[index(device + 1)]) {
      if (goes_with(device, i, next)) pairs.emplace_back(i, next);
    }
  }
  const std::vector<double> steps = time(pairs.size(), [&](std::size_t n, Times& times) {
    const auto [i, next] = pairs[n];
    copy(devices_, 0, device, least_before_[index(device)][index(i)], times);
    put(device, i, times);
    put(device + 1, next, times);
    copy(devices_, device + 2, size(), least_after_[index(device + 1)][index(next)], times);
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

/// Lists the numbers of blocks that the devices before and after each item can have.
void BlockWalk::list_counts() {
  const auto extend = [&](const Counts& from, int blocks, Counts& to) {
    for (int n = blocks; n <= blocks_; ++n) to[index(n)] |= from[index(n - blocks)];
    spent_ += blocks_ / 32;
  };
  for (int d = 0; d < size(); ++d) {
    for (const int i : left_[index(d)]) {
      Counts& own = before_[index(d)][index(i)];
      own.assign(index(blocks_) + 1, 0);
      if (d == 0) own.front() = 1;
      if (d == 0) continue;
      for (const int b : left_[index(d - 1)]) {
        if (goes_with(d - 1, b, i))
          extend(before_[index(d - 1)][index(b)], item(d - 1, b).blocks, own);
      }
    }
  }
  for (int d = size() - 1; d >= 0; --d) {
    for (const int i : left_[index(d)]) {
      Counts& own = after_[index(d)][index(i)];
      own.assign(index(blocks_) + 1, 0);
      if (d + 1 == size()) own.front() = 1;
      if (d + 1 == size()) continue;
      for (const int b : left_[index(d + 1)]) {
        if (goes_with(d, i, b)) extend(after_[index(d + 1)][index(b)], item(d + 1, b).blocks, own);
      }
    }
  }
}

/// Whether the devices before the item and those after it can have exactly the remaining blocks.
bool BlockWalk::can_have_all(int device, int i, const Counts& after, int blocks) const {
  const Counts& before = before_[index(device)][index(i)];
  for (int n = 0; n + blocks <= blocks_; ++n) {
    if (before[index(n)] != 0 && after[index(blocks_ - blocks - n)] != 0) return true;
  }
  return false;
}

/// Removes items and pairs that are in no row with all blocks. Returns whether there were any.
bool BlockWalk::leave_out_by_counts() {
  bool any = false;
  list_counts();
  for (int d = 0; d < size(); ++d) {
    const std::size_t erased = std::erase_if(left_[index(d)], [&](int i) {
      return !can_have_all(d, i, after_[index(d)][index(i)], item(d, i).blocks);
    });
    any = any || erased > 0;
  }
  for (int d = 0; d + 1 < size(); ++d) {
    for (const int i : left_[index(d)]) {
      for (const int next : left_[index(d + 1)]) {
        if (!goes_with(d, i, next)) continue;
        const int blocks = item(d, i).blocks + item(d + 1, next).blocks;
        spent_ += blocks_ / 16;
        if (can_have_all(d, i, after_[index(d + 1)][index(next)], blocks)) continue;
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
    pairs += static_cast<std::int64_t>(left_[index(d)].size() * left_[index(d + 1)].size());
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

// --- The walk ---

/// Lists the items that may follow those chosen, by counts and sums.
void BlockWalk::list_next(const std::vector<int>& chosen, int have, std::vector<int>& items) {
  const int device = static_cast<int>(chosen.size());
  for (const int i : left_[index(device)]) {
    const int rest = blocks_ - have - item(device, i).blocks;
    if (device > 0 && !goes_with(device - 1, chosen.back(), i)) continue;
    if (rest < 0 || after_[index(device)][index(i)][index(rest)] == 0) continue;
    spent_ += static_cast<std::int64_t>(weighed_.size()) * (1 + device / 4);
    if (!is_above(chosen, i, rest + item(device, i).blocks)) items.push_back(i);
  }
}

/// Times the successors of all open items at once, so that few vector lanes stay empty.
std::vector<BlockWalk::Opens> BlockWalk::open_next(std::vector<int>& chosen, int have,
                                                   const Opens& opens, double limit) {
  const int device = static_cast<int>(chosen.size());
  std::vector<std::vector<int>> next(opens.size());
  std::vector<std::pair<std::size_t, int>> all;  // (open item, its successor)
  for (std::size_t n = 0; n < opens.size(); ++n) {
    chosen.push_back(opens[n].item);
    list_next(chosen, have + item(device, opens[n].item).blocks, next[n]);
    chosen.pop_back();
    for (const int i : next[n]) all.emplace_back(n, i);
  }
  const auto put_all = [&](std::size_t pipeline, Times& times) {
    const auto [n, i] = all[pipeline];
    for (int d = 0; d < device; ++d) put(d, chosen[index(d)], times);
    put(device, opens[n].item, times);
    put(device + 1, i, times);
    copy(devices_, device + 2, size(), least_after_[index(device) + 1][index(i)], times);
  };
  const std::int64_t before = spent_;
  const std::vector<double> steps = time(all.size(), put_all);
  std::vector<Opens> result(opens.size());
  std::size_t too_long = 0, shortest = all.size();
  for (std::size_t p = 0; p < all.size(); ++p) {
    result[all[p].first].push_back({steps[p], all[p].second});
    if (steps[p] <= limit) continue;
    ++too_long;
    if (shortest == all.size() || steps[p] < steps[shortest]) shortest = p;
  }
  if (too_long > 0) {
    lost_ += (spent_ - before) * static_cast<std::int64_t>(too_long) /
             static_cast<std::int64_t>(all.size());
    if (learn_ && lost_ >= lesson_) {
      put_all(shortest, times_);
      learn(times_);
    }
  }
  return result;
}

/// Extends the partial layout by each open item of the next device, fastest first.
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
  std::vector<Opens> next = open_next(chosen, have, opens, limit);
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
    copy(devices_, 1, size(), least_after_[0][index(first[n])], times);
  });
  Opens opens;
  for (std::size_t n = 0; n < first.size(); ++n) opens.push_back({steps[n], first[n]});
  return extend(chosen, 0, std::move(opens), limit, visit);
}

}  // namespace stagecraft
