#include "profiles/least_squares.hpp"

#include <cmath>

#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

/// Residuals of y = a + b x over points of y = 3 + 0.5 x.
std::vector<double> line(const std::vector<double>& values) {
  std::vector<double> residuals;
  for (int x = 0; x < 10; ++x) residuals.push_back(values[0] + values[1] * x - (3 + 0.5 * x));
  return residuals;
}

}  // namespace

TEST_CASE("a fit finds the values that made the observations") {
  const Fit fit = fit_least_squares(
      {{.start = 1, .least = 0.01, .most = 100}, {.start = 5, .least = 0.01, .most = 100}}, line);
  CHECK(fit.values[0] == Approx(3).epsilon(1e-6));
  CHECK(fit.values[1] == Approx(0.5).epsilon(1e-6));
  CHECK(fit.cost == Approx(0).margin(1e-10));
}

TEST_CASE("a fit stays within its bounds, and a prior holds what observations do not say") {
  const Fit bounded = fit_least_squares(
      {{.start = 1, .least = 0.01, .most = 2}, {.start = 1, .least = 0.01, .most = 100}}, line);
  CHECK(bounded.values[0] == Approx(2));
  const Fit unsaid = fit_least_squares({{.start = 7, .least = 0.01, .most = 100, .prior = 1}},
                                       [](const std::vector<double>&) {
                                         return std::vector<double>{1, 1};
                                       });
  CHECK(unsaid.values[0] == Approx(7));
}

TEST_CASE("standard errors shrink with the square root of the observations") {
  const auto error_of = [](int count) {
    const Fit fit = fit_least_squares({{.start = 2, .least = 0, .most = 10}},
                                      [count](const std::vector<double>& values) {
                                        std::vector<double> residuals;
                                        for (int i = 0; i < count; ++i)
                                          residuals.push_back(values[0] - (i % 2 == 0 ? 3 : 5));
                                        return residuals;
                                      });
    CHECK(fit.values[0] == Approx(4).epsilon(1e-6));
    return fit.errors[0];
  };
  CHECK(error_of(4) == Approx(1 / std::sqrt(3)).epsilon(1e-3));
  CHECK(error_of(400) == Approx(1 / std::sqrt(399)).epsilon(1e-3));
}
