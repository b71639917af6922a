#include "profiles/least_squares.hpp"

#include <algorithm>
#include <cmath>

namespace stagecraft {

namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

double inner(const Unknown& unknown, double value) {
  return unknown.least > 0 ? std::log(value) : value / unknown.most;
}
double outer(const Unknown& unknown, double position) {
  const double value = unknown.least > 0 ? std::exp(position) : position * unknown.most;
  return std::clamp(value, unknown.least, unknown.most);
}

Vector values_at(const std::vector<Unknown>& unknowns, const Vector& position) {
  Vector values;
  for (std::size_t i = 0; i < unknowns.size(); ++i)
    values.push_back(outer(unknowns[i], position[i]));
  return values;
}

double squared(const Vector& residuals) {
  double sum = 0;
  for (const double residual : residuals) sum += residual * residual;
  return sum;
}

/// Solves A x = b for a symmetric positive definite A by Gauss elimination with pivots; empty if
/// it is singular.
Vector solve(Matrix a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (std::abs(a[pivot][column]) < 1e-300) return {};
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (std::size_t i = column; i < n; ++i) a[row][i] -= factor * a[column][i];
      b[row] -= factor * b[column];
    }
  }
  for (std::size_t row = n; row-- > 0;) {
    for (std::size_t i = row + 1; i < n; ++i) b[row] -= a[row][i] * b[i];
    b[row] /= a[row][row];
  }
  return b;
}

/// The problem on the inner scale, with a residual for each prior.
class Problem {
 public:
  Problem(const std::vector<Unknown>& unknowns, const Residuals& residuals)
      : unknowns_(unknowns), residuals_(residuals) {
    for (const Unknown& unknown : unknowns) start_.push_back(inner(unknown, unknown.start));
  }

  const Vector& start() const { return start_; }

  Vector at(const Vector& position) const {
    Vector result = residuals_(values_at(unknowns_, position));
    for (std::size_t i = 0; i < unknowns_.size(); ++i) {
      if (unknowns_[i].prior > 0)
        result.push_back(std::sqrt(unknowns_[i].prior) * (position[i] - start_[i]));
    }
    return result;
  }

  Vector inside(Vector position) const {
    for (std::size_t i = 0; i < unknowns_.size(); ++i)
      position[i] = inner(unknowns_[i], outer(unknowns_[i], position[i]));
    return position;
  }

  /// One column per unknown.
  Matrix derivatives(const Vector& position, const Vector& here) const {
    Matrix columns;
    for (std::size_t i = 0; i < position.size(); ++i) {
      constexpr double step = 1e-5;
      Vector moved = position;
      moved[i] += step;
      // At the upper bound, look to the other side.
      const double sign = inside(moved)[i] < moved[i] ? -1 : 1;
      moved[i] = position[i] + sign * step;
      Vector there = at(moved);
      for (std::size_t row = 0; row < there.size(); ++row)
        there[row] = (there[row] - here[row]) / (sign * step);
      columns.push_back(std::move(there));
    }
    return columns;
  }

 private:
  const std::vector<Unknown>& unknowns_;
  const Residuals& residuals_;
  Vector start_;
};

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Matrix normal_matrix(const Matrix& columns) {
  Matrix result(columns.size(), Vector(columns.size()));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t j = 0; j < columns.size(); ++j) result[i][j] = dot(columns[i], columns[j]);
  }
  return result;
}

/// Standard errors from the inverse of the normal matrix, on the outer scale.
Vector standard_errors(const std::vector<Unknown>& unknowns, const Matrix& columns,
                       const Vector& values, double cost) {
  const std::size_t rows = columns.empty() ? 0 : columns.front().size();
  Vector errors(unknowns.size(), 0.0);
  if (rows <= unknowns.size()) return errors;
  const double variance = cost / static_cast<double>(rows - unknowns.size());
  Matrix normal = normal_matrix(columns);
  for (std::size_t i = 0; i < normal.size(); ++i) normal[i][i] += 1e-12;
  for (std::size_t i = 0; i < unknowns.size(); ++i) {
    Vector unit(unknowns.size(), 0.0);
    unit[i] = 1;
    const Vector column = solve(normal, unit);
    if (column.empty()) continue;
    const double inner_error = std::sqrt(std::max(0.0, column[i] * variance));
    errors[i] = inner_error * (unknowns[i].least > 0 ? values[i] : unknowns[i].most);
  }
  return errors;
}

}  // namespace

Fit fit_least_squares(const std::vector<Unknown>& unknowns, const Residuals& residuals,
                      int most_steps) {
  const Problem problem(unknowns, residuals);
  Vector position = problem.inside(problem.start());
  Vector here = problem.at(position);
  double cost = squared(here), damping = 1e-2;
  Fit fit;
  for (; fit.steps < most_steps && !unknowns.empty(); ++fit.steps) {
    const Matrix columns = problem.derivatives(position, here);
    const Matrix normal = normal_matrix(columns);
    Vector slope;
    for (const Vector& column : columns) slope.push_back(-dot(column, here));
    bool better = false;
    const double before = cost;
    for (int attempt = 0; attempt < 12 && !better; ++attempt) {
      Matrix damped = normal;
      for (std::size_t i = 0; i < damped.size(); ++i)
        damped[i][i] += damping * damped[i][i] + 1e-12;
      const Vector step = solve(damped, slope);
      Vector next = position;
      for (std::size_t i = 0; i < step.size(); ++i) next[i] += std::clamp(step[i], -1.0, 1.0);
      next = problem.inside(next);
      const Vector there = problem.at(next);
      better = squared(there) < cost;
      damping *= better ? 0.3 : 4;
      if (!better) continue;
      position = next;
      here = there;
      cost = squared(there);
    }
    if (!better || before - cost < 1e-9 * before) break;
  }
  fit.values = values_at(unknowns, position);
  fit.cost = cost;
  fit.errors = standard_errors(unknowns, problem.derivatives(position, here), fit.values, cost);
  return fit;
}

}  // namespace stagecraft
