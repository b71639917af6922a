// Fits named numbers to observations: nonlinear least squares (Levenberg 1944, Marquardt 1963) with
// numerical derivatives and bounds, deterministic.

#pragma once

#include <functional>
#include <vector>

namespace stagecraft {

/// A number to fit, between positive bounds (it is searched on a logarithmic scale) or, with
/// `least` = 0, on a linear one. `prior` pulls towards the start: the weight of one observation
/// whose residual is the distance from the start (in powers of e, or of the range).
struct Unknown {
  double start = 1;
  double least = 0;
  double most = 1;
  double prior = 0;
};

struct Fit {
  std::vector<double> values;
  std::vector<double> errors;  ///< standard error of each, in its own unit; 0 without freedom
  double cost = 0;             ///< sum of the squared residuals, priors included
  int steps = 0;
};

/// `residuals` gives one number per observation for values of the unknowns.
using Residuals = std::function<std::vector<double>(const std::vector<double>&)>;
Fit fit_least_squares(const std::vector<Unknown>& unknowns, const Residuals& residuals,
                      int most_steps = 60);

}  // namespace stagecraft
