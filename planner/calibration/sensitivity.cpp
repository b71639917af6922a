#include "planner/calibration/sensitivity.hpp"

#include <cmath>
#include <numeric>

#include "profiles/error.hpp"

namespace stagecraft {

const KernelConstant& constant_named(std::string_view name) {
  for (const KernelConstant& constant : kernel_constants) {
    if (constant.name == name) return constant;
  }
  fail("no constant is named ", name);
}

std::vector<double> sensitivity(const MeasuredRow& row, const KernelConstants& constants,
                                double factor, const std::vector<std::string_view>& names) {
  constexpr double step = 1e-4;
  const double here = row.predict(constants, factor);
  std::vector<double> result;
  for (const std::string_view name : names) {
    KernelConstants moved = constants;
    moved.*constant_named(name).member *= 1 + step;
    result.push_back(std::log(row.predict(moved, factor) / here) / step);
  }
  return result;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> product(const Covariance& covariance, const std::vector<double>& vector) {
  std::vector<double> result;
  for (const std::vector<double>& row : covariance) result.push_back(dot(row, vector));
  return result;
}

Covariance independent(const std::vector<double>& variances) {
  Covariance covariance(variances.size(), std::vector<double>(variances.size(), 0.0));
  for (std::size_t i = 0; i < variances.size(); ++i) covariance[i][i] = variances[i];
  return covariance;
}

void observe(Covariance& covariance, const std::vector<double>& slope, double variance) {
  const std::vector<double> carried = product(covariance, slope);
  const double scale = variance + dot(slope, carried);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    for (std::size_t j = 0; j < carried.size(); ++j)
      covariance[i][j] -= carried[i] * carried[j] / scale;
  }
}

}  // namespace stagecraft
