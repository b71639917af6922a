// The largest of a range of values, again and again.

#pragma once

#include <vector>

namespace stagecraft {

/// The largest of a range of values, in constant time.
class RangeMaximum {
 public:
  explicit RangeMaximum(std::vector<double> values);
  /// Zero for an empty range.
  double operator()(int first, int end) const;

 private:
  std::vector<std::vector<double>> rows_;  ///< maxima of 1, 2, 4, … values from each place on
};

}  // namespace stagecraft
