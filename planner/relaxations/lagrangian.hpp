// The restricted master problem of a Lagrangian relaxation, solved as a matrix game
// (planner/relaxations/matrix_game.hpp): rows (lengths of paths, bytes at memory peaks) against the
// layouts known so far. Its row weights are the multipliers that maximise the least weighted sum
// over these layouts; they are optimal if no other layout has a smaller sum. Its column weights
// give the convex combination of layouts (the mean layout) whose largest row is smallest.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "planner/relaxations/matrix_game.hpp"
#include "planner/timing/critical_path.hpp"

namespace stagecraft {

/// Keeps at most this many rows, those that had weight most recently, sorted with the latest first.
template <class Row>
void keep_latest(std::vector<std::shared_ptr<Row>>& rows, std::size_t most) {
  std::ranges::stable_sort(rows, std::greater<>(), &Row::used);
  rows.resize(std::min(rows.size(), most));
}

/// The paths of the rows that ever had weight, the latest first.
template <class Row>
std::vector<PassCounts> latest_paths(std::vector<std::shared_ptr<Row>> rows, std::size_t most) {
  std::erase_if(rows, [](const auto& row) { return row->used == 0; });
  keep_latest(rows, most);
  std::vector<PassCounts> paths;
  for (const auto& row : rows) paths.push_back(row->path);
  return paths;
}

/// A row has a member `std::int64_t used`, the time at which it last had weight. Times count solved
/// games, over all games that share the rows.
template <class Row, class Layout>
class LayoutGame {
 public:
  using RowRef = std::shared_ptr<Row>;
  /// The weight of a row; weights add up to 1.
  struct Weight {
    RowRef row;
    double weight = 0;
  };
  using Weights = std::vector<Weight>;

  const std::vector<Layout>& layouts() const { return layouts_; }
  /// Weights of the layouts in the latest solution (the mean layout); they add up to 1.
  const std::vector<double>& mixture() const { return mixture_; }
  bool has_part(const RowRef& row) const { return std::ranges::find(rows_, row) != rows_.end(); }

  /// Adds a row if it is not in the game yet; `value(row, layout)` is the positive entry of the
  /// matrix.
  template <class Value>
  void take_part(const RowRef& row, const Value& value) {
    if (has_part(row)) return;
    rows_.push_back(row);
    std::vector<double> values;
    for (const Layout& layout : layouts_) values.push_back(value(*row, layout));
    game_.add_row(std::move(values));
  }

  /// Adds a layout. The game must have a row.
  template <class Value>
  void add(Layout layout, std::int64_t now, const Value& value) {
    std::vector<double> values;
    for (const RowRef& row : rows_) values.push_back(value(*row, layout));
    game_.add_column(values);
    layouts_.push_back(std::move(layout));
    used_.push_back(now);
  }

  /// Computes all entries again after `value` has changed.
  template <class Value>
  void begin_anew(const Value& value) {
    game_ = {};
    const std::vector<RowRef> rows = std::exchange(rows_, {});
    for (const RowRef& row : rows) take_part(row, value);
  }

  /// Removes the layouts for which `keeps` is false.
  template <class Keeps>
  void keep_if(const Keeps& keeps) {
    keep_places([&](std::size_t i) { return keeps(layouts_[i]); });
  }

  /// If there are too many layouts or rows, removes those that have had no weight for longest.
  void let_go_of_idle(std::int64_t now) {
    constexpr std::size_t most = 64, kept = 40;
    if (layouts_.size() >= most) {
      std::vector<std::int64_t> used = used_;
      std::ranges::sort(used);
      const std::int64_t oldest = used[used.size() - kept];
      keep_places([&](std::size_t i) { return used_[i] >= oldest; });
    }
    constexpr std::int64_t few_games = 20;
    if (layouts_.empty() || rows_.size() < layouts_.size() + kept) return;
    std::vector<char> keeps;
    for (const RowRef& row : rows_) keeps.push_back(row->used + few_games > now ? 1 : 0);
    game_.keep_rows(keeps);
    std::size_t place = 0;
    std::erase_if(rows_, [&](const RowRef&) { return keeps[place++] == 0; });
  }

  /// Solves the game: sets the best row weights for the layouts, and returns the least weighted sum
  /// of these.
  double play(std::int64_t now, Weights& weights) {
    GameSolution game = game_.solve();
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      if (game.columns[i] > 0) used_[i] = now;
    }
    weights.clear();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (game.rows[r] == 0) continue;
      weights.push_back({rows_[r], game.rows[r]});
      rows_[r]->used = now;
    }
    mixture_ = std::move(game.columns);
    return game.value;
  }
  /// See MatrixGame.
  std::int64_t take_steps() { return game_.take_steps(); }

  /// The mean of two sets of weights. With few layouts the optimal weights overshoot, so the next
  /// ones lie half way (Wentges 1997).
  static Weights half_way(const Weights& from, const Weights& to) {
    Weights middle = from;
    for (Weight& own : middle) own.weight /= 2;
    for (const auto& [row, weight] : to) {
      const auto same = std::ranges::find(middle, row, &Weight::row);
      if (same != middle.end()) {
        same->weight += weight / 2;
      } else {
        middle.push_back({row, weight / 2});
      }
    }
    constexpr double tiny = 1e-6;  // weights below this are dropped to save time
    std::erase_if(middle, [](const Weight& own) { return own.weight < tiny; });
    double all = 0;
    for (const Weight& own : middle) all += own.weight;
    for (Weight& own : middle) own.weight /= all;
    return middle;
  }

 private:
  template <class Keeps>
  void keep_places(const Keeps& keeps) {
    std::vector<char> stays;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      stays.push_back(keeps(i) ? 1 : 0);
      if (stays.back() == 0) continue;
      if (kept < i) {
        layouts_[kept] = std::move(layouts_[i]);
        used_[kept] = used_[i];
      }
      ++kept;
    }
    if (kept == stays.size()) return;
    layouts_.resize(kept);
    used_.resize(kept);
    game_.keep_columns(stays);
  }

  std::vector<Layout> layouts_;
  std::vector<std::int64_t> used_;  ///< time at which each layout last had weight
  std::vector<RowRef> rows_;
  MatrixGame game_;
  std::vector<double> mixture_;
};

}  // namespace stagecraft
