// How predictions follow the constants, and what observations leave uncertain of these.

#pragma once

#include <string_view>
#include <vector>

#include "planner/calibration/measured_sets.hpp"

namespace stagecraft {

/// Errors (of logarithms) count with their squares to here, with their size beyond (Huber 1964).
inline constexpr double squares_until = 0.1;

/// Throws Error for a name that no constant has.
const KernelConstant& constant_named(std::string_view name);

/// How the logarithm of a row's prediction follows the logarithm of each constant; `factor` is on
/// its blocks. Throws Error for a name that no constant has.
std::vector<double> sensitivity(const MeasuredRow& row, const KernelConstants& constants,
                                double factor, const std::vector<std::string_view>& names);

/// Of the constants' logarithms.
using Covariance = std::vector<std::vector<double>>;
/// Before anything is observed, independent.
Covariance independent(const std::vector<double>& variances);
/// After one more observation with these sensitivities and this variance (Sherman and Morrison).
void observe(Covariance& covariance, const std::vector<double>& slope, double variance);

double dot(const std::vector<double>& a, const std::vector<double>& b);
std::vector<double> product(const Covariance& covariance, const std::vector<double>& vector);

}  // namespace stagecraft
