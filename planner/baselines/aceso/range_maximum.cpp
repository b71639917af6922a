#include "planner/baselines/aceso/range_maximum.hpp"

#include <algorithm>
#include <bit>

namespace stagecraft {

RangeMaximum::RangeMaximum(std::vector<double> values) {
  rows_.push_back(std::move(values));
  for (std::size_t width = 1; 2 * width <= rows_.front().size(); width *= 2) {
    const std::vector<double>& half = rows_.back();
    std::vector<double> row(rows_.front().size() + 1 - 2 * width);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = std::max(half[i], half[i + width]);
    rows_.push_back(std::move(row));
  }
}

double RangeMaximum::operator()(int first, int end) const {
  if (end <= first) return 0;
  const auto width = static_cast<unsigned>(end - first);
  const auto row = static_cast<std::size_t>(std::bit_width(width)) - 1;
  const std::size_t last = static_cast<std::size_t>(end) - (std::size_t{1} << row);
  return std::max(rows_[row][static_cast<std::size_t>(first)], rows_[row][last]);
}

}  // namespace stagecraft
