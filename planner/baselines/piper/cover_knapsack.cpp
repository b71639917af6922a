#include "planner/baselines/piper/cover_knapsack.hpp"

#include <algorithm>
#include <numeric>

#include "profiles/infinite.hpp"

namespace stagecraft {

namespace {

/// Items in order of what their weight costs, with sums over the first so many.
class Ordered {
 public:
  explicit Ordered(const std::vector<CoverItem>& items) : number_(items.size()) {
    std::iota(number_.begin(), number_.end(), std::size_t{0});
    std::sort(number_.begin(), number_.end(), [&](std::size_t a, std::size_t b) {
      const double left = items[a].cost * items[b].weight;
      const double right = items[b].cost * items[a].weight;
      if (left != right) return left < right;
      if (items[a].weight != items[b].weight) return items[a].weight > items[b].weight;
      return a < b;
    });
    for (const std::size_t item : number_) {
      items_.push_back(items[item]);
      cost_.push_back(cost_.back() + items[item].cost);
      weight_.push_back(weight_.back() + items[item].weight);
    }
  }

  std::size_t size() const { return items_.size(); }
  const CoverItem& operator[](std::size_t i) const { return items_[i]; }
  std::size_t number(std::size_t i) const { return number_[i]; }
  bool suffices(std::size_t first, double needed) const {
    return weight_.back() - weight_[first] >= needed;
  }

  /// Least cost of `needed` from the items from `first` on, if items could be taken in part.
  double fractional(std::size_t first, double needed) const {
    if (needed <= 0) return 0;
    if (!suffices(first, needed)) return infinite;
    const auto begin = weight_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto reached = std::lower_bound(begin, weight_.end(), weight_[first] + needed);
    const auto end = static_cast<std::size_t>(reached - weight_.begin());
    const std::size_t last = std::clamp(end, first + 1, items_.size());
    const double missing = needed - (weight_[last - 1] - weight_[first]);
    const CoverItem& item = items_[last - 1];
    return cost_[last - 1] - cost_[first] + item.cost * missing / item.weight;
  }

 private:
  std::vector<std::size_t> number_;
  std::vector<CoverItem> items_;
  std::vector<double> cost_{0}, weight_{0};
};

Cover greedy(const Ordered& items, double needed) {
  Cover cover{.cost = infinite, .lower_bound = infinite, .taken = {}};
  cover.taken.assign(items.size(), 0);
  if (!items.suffices(0, needed)) return cover;
  double weight = 0;
  std::size_t end = 0;
  for (; weight < needed; ++end) {
    weight += items[end].weight;
    cover.taken[items.number(end)] = 1;
  }
  cover.cost = 0;
  for (std::size_t i = end; i > 0; --i) {
    const CoverItem& item = items[i - 1];
    if (weight - item.weight >= needed) {
      weight -= item.weight;
      cover.taken[items.number(i - 1)] = 0;
    } else {
      cover.cost += item.cost;
    }
  }
  cover.lower_bound = std::min(cover.cost, items.fractional(0, needed));
  return cover;
}

class BranchAndBound {
 public:
  BranchAndBound(const Ordered& items, const Cover& start, std::int64_t most_steps)
      : items_(items), best_(start), chosen_(items.size(), 0), steps_left_(most_steps) {}

  Cover run(double needed) {
    descend(0, needed, 0);
    if (steps_left_ > 0) best_.lower_bound = best_.cost;
    return best_;
  }

 private:
  void descend(std::size_t first, double needed, double cost) {
    if (steps_left_ <= 0 || --steps_left_ <= 0) return;
    if (needed <= 0) {
      if (cost < best_.cost) keep(cost);
      return;
    }
    if (first == items_.size() || cost + items_.fractional(first, needed) >= best_.cost) return;
    chosen_[first] = 1;
    descend(first + 1, needed - items_[first].weight, cost + items_[first].cost);
    chosen_[first] = 0;
    std::size_t next = first + 1;
    while (next < items_.size() && is_same(items_[next], items_[first])) ++next;
    descend(next, needed, cost);
  }

  static bool is_same(const CoverItem& a, const CoverItem& b) {
    return a.cost == b.cost && a.weight == b.weight;
  }

  void keep(double cost) {
    best_.cost = cost;
    for (std::size_t i = 0; i < chosen_.size(); ++i) best_.taken[items_.number(i)] = chosen_[i];
  }

  const Ordered& items_;
  Cover best_;
  std::vector<char> chosen_;
  std::int64_t steps_left_;
};

}  // namespace

Cover greedy_cover(const std::vector<CoverItem>& items, double needed) {
  return greedy(Ordered(items), needed);
}

Cover least_cover(const std::vector<CoverItem>& items, double needed, std::int64_t most_steps) {
  const Ordered ordered(items);
  Cover start = greedy(ordered, needed);
  if (start.cost <= start.lower_bound) return start;
  return BranchAndBound(ordered, start, most_steps).run(needed);
}

}  // namespace stagecraft
