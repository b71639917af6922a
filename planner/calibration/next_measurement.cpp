// Which measurement helps: the constants' covariance from all rows, and how much of one constant's
// variance an observation like each row would take away (Sherman and Morrison's update).

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/calibration/ledger.hpp"
#include "planner/calibration/sensitivity.hpp"

namespace stagecraft {

namespace {

/// Before anything is measured a constant is known to a factor e; a row has 3 % of noise.
constexpr double noise = 0.03 * 0.03;
Covariance covariance_before(std::size_t count) {
  return independent(std::vector<double>(count, 1.0));
}

}  // namespace

std::vector<int> informative_rows(const MeasuredSet& set, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Covariance covariance = covariance_before(set.unknowns.size());
  std::vector<std::vector<double>> all;
  for (const MeasuredRow& row : set.rows)
    all.push_back(sensitivity(row, set.start, 1, set.unknowns));
  std::vector<int> chosen;
  std::vector<bool> taken(all.size(), false);
  while (chosen.size() < std::min(count, all.size())) {
    int best = -1;
    double most = -1;
    for (int row = 0; row < static_cast<int>(all.size()); ++row) {
      const auto at = static_cast<std::size_t>(row);
      // Every other row, as the seed has it, may be asked.
      if (taken[at] || (random() % 2 == 0 && best >= 0)) continue;
      const double unsure = dot(product(covariance, all[at]), all[at]);
      if (unsure <= most) continue;
      most = unsure;
      best = row;
    }
    const auto at = static_cast<std::size_t>(best);
    taken[at] = true;
    observe(covariance, all[at], noise);
    chosen.push_back(best);
  }
  return chosen;
}

std::optional<NextMeasurement> next_measurement(const MeasuredSet& set,
                                                const Calibration& calibration) {
  const std::size_t count = calibration.fitted.size();
  if (count < 2 || set.rows.empty()) return {};
  Covariance covariance = covariance_before(count);
  std::vector<std::vector<double>> all;
  for (const MeasuredRow& row : set.rows)
    all.push_back(sensitivity(row, calibration.constants, 1, set.unknowns));
  for (const std::vector<double>& slope : all) observe(covariance, slope, noise);
  std::size_t widest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (covariance[i][i] > covariance[widest][widest]) widest = i;
  }
  NextMeasurement next{.constant = calibration.fitted[widest].name};
  for (std::size_t row = 0; row < all.size(); ++row) {
    Covariance after = covariance;
    observe(after, all[row], noise);
    const double narrows = 1 - std::sqrt(after[widest][widest] / covariance[widest][widest]);
    if (narrows <= next.narrows) continue;
    next.narrows = narrows;
    next.row = set.rows[row].label;
  }
  if (next.row.empty()) return {};
  return next;
}

}  // namespace stagecraft
