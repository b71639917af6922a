// Which measurement helps: the constants' covariance from all rows, and how much of one constant's
// variance an observation like each row would take away (Sherman and Morrison's update).

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/ledger/ledger.hpp"
#include "profiles/least_squares.hpp"

namespace stagecraft {

namespace {

using Vector = std::vector<double>;

double KernelConstants::*member_named(std::string_view name) {
  for (const KernelConstant& constant : kernel_constants) {
    if (constant.name == name) return constant.member;
  }
  return nullptr;
}

/// How the logarithm of a row's prediction follows the logarithm of each constant.
template <class Names>
Vector slopes(const MeasuredRow& row, const KernelConstants& constants, const Names& names) {
  constexpr double step = 1e-4;
  const double here = row.predict(constants, 1);
  Vector result;
  for (const auto& name : names) {
    KernelConstants moved = constants;
    moved.*member_named(name) *= 1 + step;
    result.push_back(std::log(row.predict(moved, 1) / here) / step);
  }
  return result;
}

/// Before anything is measured a constant is known to a factor e; a row has 3 % of noise.
constexpr double noise = 0.03 * 0.03;
std::vector<Vector> covariance_before(std::size_t count) {
  std::vector<Vector> covariance(count, Vector(count, 0.0));
  for (std::size_t i = 0; i < count; ++i) covariance[i][i] = 1;
  return covariance;
}

double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The covariance after one more observation with these slopes.
void observe(std::vector<Vector>& covariance, const Vector& slope) {
  Vector carried;
  for (const Vector& row : covariance) carried.push_back(product(row, slope));
  const double scale = noise + product(slope, carried);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    for (std::size_t j = 0; j < carried.size(); ++j)
      covariance[i][j] -= carried[i] * carried[j] / scale;
  }
}

}  // namespace

std::vector<int> informative_rows(const MeasuredSet& set, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Vector> covariance = covariance_before(set.unknowns.size());
  std::vector<Vector> all;
  for (const MeasuredRow& row : set.rows) all.push_back(slopes(row, set.start, set.unknowns));
  std::vector<int> chosen;
  std::vector<bool> taken(all.size(), false);
  while (chosen.size() < std::min(count, all.size())) {
    int best = -1;
    double most = -1;
    for (int row = 0; row < static_cast<int>(all.size()); ++row) {
      const auto at = static_cast<std::size_t>(row);
      // Every other row, as the seed has it, may be asked.
      if (taken[at] || (random() % 2 == 0 && best >= 0)) continue;
      Vector carried;
      for (const Vector& line : covariance) carried.push_back(product(line, all[at]));
      const double unsure = product(carried, all[at]);
      if (unsure <= most) continue;
      most = unsure;
      best = row;
    }
    const auto at = static_cast<std::size_t>(best);
    taken[at] = true;
    observe(covariance, all[at]);
    chosen.push_back(best);
  }
  return chosen;
}

std::optional<NextMeasurement> next_measurement(const MeasuredSet& set,
                                                const Calibration& calibration) {
  const std::size_t count = calibration.fitted.size();
  if (count < 2 || set.rows.empty()) return {};
  std::vector<Vector> covariance = covariance_before(count);
  std::vector<Vector> all;
  for (const MeasuredRow& row : set.rows)
    all.push_back(slopes(row, calibration.constants, set.unknowns));
  for (const Vector& slope : all) observe(covariance, slope);
  std::size_t widest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (covariance[i][i] > covariance[widest][widest]) widest = i;
  }
  NextMeasurement next{.constant = calibration.fitted[widest].name};
  for (std::size_t row = 0; row < all.size(); ++row) {
    std::vector<Vector> after = covariance;
    observe(after, all[row]);
    const double narrows = 1 - std::sqrt(after[widest][widest] / covariance[widest][widest]);
    if (narrows <= next.narrows) continue;
    next.narrows = narrows;
    next.row = set.rows[row].label;
  }
  if (next.row.empty()) return {};
  return next;
}

}  // namespace stagecraft
