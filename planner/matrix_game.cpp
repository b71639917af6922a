#include "planner/matrix_game.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {

namespace {

constexpr double tiny = 1e-11;

/// That a pivot goes over in some ten nanoseconds.
constexpr std::int64_t cells_per_step = 16;

/// Maximises the sum of z >= 0 with rows * z <= 1, whose dual prices are the weights. A tableau in
/// which a basic and a nonbasic variable change places.
class Tableau {
 public:
  explicit Tableau(const std::vector<std::vector<double>>& rows)
      : height_(rows.size()),
        width_(rows.front().size()),
        goal_(width_, -1.0),
        right_(height_, 1.0),
        basic_(height_),
        nonbasic_(width_) {
    for (const auto& row : rows) cells_.insert(cells_.end(), row.begin(), row.end());
    std::iota(basic_.begin(), basic_.end(), 0);  // the rows' slacks
    std::iota(nonbasic_.begin(), nonbasic_.end(), static_cast<int>(height_));
  }

  /// Gives how often variables changed places.
  std::int64_t solve() {
    const auto most = static_cast<std::int64_t>(20 * (height_ + width_));
    for (std::int64_t i = 0; i < most; ++i) {
      const std::size_t column = entering();
      if (column == width_) return i;
      const std::size_t row = leaving(column);
      if (row == height_) return i;
      pivot(row, column);
    }
    return most;
  }

  /// The prices of the rows.
  std::vector<double> prices() const {
    std::vector<double> prices(height_);
    for (std::size_t c = 0; c < width_; ++c) {
      const auto variable = static_cast<std::size_t>(nonbasic_[c]);
      if (variable < height_ && goal_[c] > 0) prices[variable] = goal_[c];
    }
    return prices;
  }

  /// Of the columns.
  std::vector<double> amounts() const {
    std::vector<double> amounts(width_);
    for (std::size_t r = 0; r < height_; ++r) {
      const auto variable = static_cast<std::size_t>(basic_[r]);
      if (variable >= height_) amounts[variable - height_] = std::max(right_[r], 0.0);
    }
    return amounts;
  }

 private:
  double* row_at(std::size_t row) { return cells_.data() + row * width_; }

  std::size_t entering() const {
    std::size_t best = width_;
    double least = -tiny;
    for (std::size_t c = 0; c < width_; ++c) {
      if (goal_[c] >= least) continue;
      least = goal_[c];
      best = c;
    }
    return best;
  }

  std::size_t leaving(std::size_t column) const {
    std::size_t best = height_;
    double best_cell = 0;
    for (std::size_t r = 0; r < height_; ++r) {
      const double cell = cells_[r * width_ + column];
      if (cell <= tiny) continue;
      if (best == height_ || right_[r] * best_cell < right_[best] * cell) {
        best = r;
        best_cell = cell;
      }
    }
    return best;
  }

  void pivot(std::size_t row, std::size_t column) {
    std::swap(basic_[row], nonbasic_[column]);
    double* pivot_row = row_at(row);
    const double inverse = 1 / pivot_row[column];
    pivot_row[column] = 1;
    for (std::size_t c = 0; c < width_; ++c) pivot_row[c] *= inverse;
    right_[row] *= inverse;
    for (std::size_t r = 0; r < height_; ++r) {
      if (r != row) right_[r] -= eliminate(row_at(r), pivot_row, column) * right_[row];
    }
    eliminate(goal_.data(), pivot_row, column);
  }

  /// Takes away as much of the pivot's row as leaves nothing in its column; gives how much.
  double eliminate(double* cells, const double* pivot_row, std::size_t column) const {
    const double much = cells[column];
    if (much == 0) return 0;
    cells[column] = 0;
    for (std::size_t c = 0; c < width_; ++c) cells[c] -= much * pivot_row[c];
    return much;
  }

  std::size_t height_ = 0, width_ = 0;
  std::vector<double> cells_;  ///< [row, column]
  std::vector<double> goal_;   ///< reduced costs
  std::vector<double> right_;  ///< values of the basic variables
  std::vector<int> basic_, nonbasic_;
};

/// Gives what the sum was; equal weights where it was nothing.
double normalize(std::vector<double>& weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights)
    weight = all > 0 ? weight / all : 1.0 / static_cast<double>(weights.size());
  return all;
}

}  // namespace

GameSolution solve_game(const std::vector<std::vector<double>>& rows) {
  Tableau tableau(rows);
  const std::int64_t pivots = tableau.solve();
  GameSolution solution{.value = 0, .rows = tableau.prices(), .columns = tableau.amounts()};
  const std::size_t cells = rows.size() * rows.front().size();
  solution.steps = (pivots + 2) * static_cast<std::int64_t>(cells) / cells_per_step;
  const double all = normalize(solution.rows);
  normalize(solution.columns);
  if (all > 0) solution.value = 1 / all;
  return solution;
}

}  // namespace stagecraft
