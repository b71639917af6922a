// How far off predictions of other rows may be, as the fitted rows have it: each row (out of family
// each family) is left out of the fit in turn, by one of Newton's steps away from it, and four of
// five of the errors that are left set the width. Where rows to come are like these, at least as
// many of them lie within (Barber et al. 2021, Predictive inference with the jackknife+).

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "planner/calibration/ledger.hpp"
#include "planner/calibration/sensitivity.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

struct Observation {
  std::vector<double> slope;
  double error = 0;   ///< the logarithm of predicted over measured
  double weight = 1;  ///< in the fit
  std::string group;  ///< left out together
  double alone = 1;   ///< what its shape's factor hides of its error, as one of the shape's rows
};

double factor_of(const Calibration& calibration, const MeasuredRow& row) {
  const auto found = calibration.corrections.find(row.shape);
  return found == calibration.corrections.end() ? 1.0 : found->second;
}

/// A factor is the mean over its shape's rows, with a tenth of a row more that says 1.
double hidden_by_factor(double rows) {
  return (rows + 0.1) / (rows - 0.9);
}

std::vector<Observation> observations_of(const MeasuredSet& set, const std::vector<int>& rows,
                                         const Calibration& calibration, Claim claim) {
  std::map<std::string, int> shapes;
  for (const int i : rows) ++shapes[set.rows[static_cast<std::size_t>(i)].shape];
  std::vector<Observation> result;
  for (const int i : rows) {
    const MeasuredRow& row = set.rows[static_cast<std::size_t>(i)];
    const double factor = factor_of(calibration, row);
    const double error = std::log(row.predict(calibration.constants, factor) / row.seconds);
    result.push_back(
        {.slope = sensitivity(row, calibration.constants, factor, set.unknowns),
         .error = error,
         .weight = std::min(1.0, squares_until / std::max(std::abs(error), squares_until)),
         .group = claim == Claim::out_of_family ? row.family : concat(i),
         .alone = calibration.corrections.empty() ? 1 : hidden_by_factor(shapes[row.shape])});
  }
  return result;
}

/// What priors leave of a constant's logarithm.
std::vector<double> variances_before(const MeasuredSet& set, const KernelConstants& constants) {
  constexpr double most = 1e4;
  std::vector<double> variances;
  for (const std::string_view name : set.unknowns) {
    const KernelConstant& constant = constant_named(name);
    const double scale = constant.least > 0 ? 1 : constants.*constant.member / constant.most;
    variances.push_back(1 / std::max(constant.prior * scale * scale, 1 / most));
  }
  return variances;
}

/// Of the group's members, without the group in the fit.
std::vector<double> errors_without(const std::string& group, const std::vector<Observation>& all,
                                   Covariance covariance) {
  std::vector<double> pull(covariance.size(), 0.0);
  for (const Observation& each : all) {
    if (each.group != group) {
      observe(covariance, each.slope, 1 / each.weight);
      continue;
    }
    for (std::size_t i = 0; i < pull.size(); ++i)
      pull[i] += each.weight * each.error * each.slope[i];
  }
  const std::vector<double> moved = product(covariance, pull);
  std::vector<double> errors;
  for (const Observation& each : all) {
    if (each.group == group) errors.push_back(each.alone * (each.error + dot(each.slope, moved)));
  }
  return errors;
}

/// Four of five, of one more error like these; of three or fewer, as Student's t has it with one
/// degree of freedom less, that of what is common to them.
double four_of_five(const std::vector<double>& errors) {
  constexpr std::array student{3.078, 1.886};
  std::vector<double> sizes;
  double squares = 0;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    squares += error * error;
  }
  std::ranges::sort(sizes);
  const std::size_t count = sizes.size();
  const std::size_t rank = (4 * (count + 1) + 4) / 5;
  if (rank <= count) return sizes[rank - 1];
  return student.at(std::max<std::size_t>(count, 2) - 2) *
         std::sqrt(squares / static_cast<double>(count));
}

}  // namespace

std::optional<double> interval_of_others(const MeasuredSet& set, const std::vector<int>& rows,
                                         const Calibration& calibration, Claim claim) {
  if (rows.empty() || set.unknowns.empty()) return {};
  const std::vector<Observation> all = observations_of(set, rows, calibration, claim);
  const auto is_alone = [&](const Observation& each) { return each.group == all.front().group; };
  if (std::ranges::all_of(all, is_alone)) return {};
  const Covariance before = independent(variances_before(set, calibration.constants));
  std::map<std::string, bool> done;
  std::vector<double> errors;
  for (const Observation& each : all) {
    if (std::exchange(done[each.group], true)) continue;
    for (const double error : errors_without(each.group, all, before)) errors.push_back(error);
  }
  return std::expm1(four_of_five(errors));
}

double part_within(const SetResult& result, double interval) {
  const double most = std::log1p(interval);
  int within = 0, rows = 0;
  for (const LedgerRow& row : result.rows) {
    if (row.fitted) continue;
    ++rows;
    if (std::abs(std::log(row.predicted / row.measured)) <= most) ++within;
  }
  return rows > 0 ? static_cast<double>(within) / rows : 0;
}

}  // namespace stagecraft
