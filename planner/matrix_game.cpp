#include "planner/matrix_game.hpp"

#include <numeric>

namespace stagecraft {

namespace {

constexpr double tiny = 1e-11;

/// Maximises the sum of z >= 0 with rows * z <= 1, whose dual prices are the weights. A tableau in
/// which a basic and a nonbasic variable change places.
class Tableau {
 public:
  explicit Tableau(const std::vector<std::vector<double>>& rows)
      : cells_(rows), goal_(rows.front().size(), -1.0), right_(rows.size(), 1.0) {
    basic_.resize(rows.size());
    nonbasic_.resize(goal_.size());
    std::iota(basic_.begin(), basic_.end(), 0);  // the rows' slacks
    std::iota(nonbasic_.begin(), nonbasic_.end(), static_cast<int>(rows.size()));
  }

  void solve() {
    const std::size_t most = 20 * (cells_.size() + goal_.size());
    for (std::size_t i = 0; i < most; ++i) {
      const auto column = entering();
      if (column == goal_.size()) return;
      const auto row = leaving(column);
      if (row == cells_.size()) return;
      pivot(row, column);
    }
  }

  /// The prices of the rows.
  std::vector<double> prices() const {
    std::vector<double> prices(cells_.size());
    for (std::size_t c = 0; c < nonbasic_.size(); ++c) {
      const auto variable = static_cast<std::size_t>(nonbasic_[c]);
      if (variable < prices.size() && goal_[c] > 0) prices[variable] = goal_[c];
    }
    return prices;
  }

 private:
  std::size_t entering() const {
    std::size_t best = goal_.size();
    double least = -tiny;
    for (std::size_t c = 0; c < goal_.size(); ++c) {
      if (goal_[c] >= least) continue;
      least = goal_[c];
      best = c;
    }
    return best;
  }

  std::size_t leaving(std::size_t column) const {
    std::size_t best = cells_.size();
    for (std::size_t r = 0; r < cells_.size(); ++r) {
      if (cells_[r][column] <= tiny) continue;
      if (best == cells_.size() ||
          right_[r] * cells_[best][column] < right_[best] * cells_[r][column]) {
        best = r;
      }
    }
    return best;
  }

  void pivot(std::size_t row, std::size_t column) {
    std::swap(basic_[row], nonbasic_[column]);
    std::vector<double>& pivot_row = cells_[row];
    const double inverse = 1 / pivot_row[column];
    pivot_row[column] = 1;
    for (double& cell : pivot_row) cell *= inverse;
    right_[row] *= inverse;
    for (std::size_t r = 0; r < cells_.size(); ++r) {
      if (r == row) continue;
      eliminate(cells_[r], pivot_row, column);
      right_[r] -= left_ * right_[row];
    }
    eliminate(goal_, pivot_row, column);
  }

  /// Takes away as much of the pivot's row as leaves nothing in its column.
  void eliminate(std::vector<double>& cells, const std::vector<double>& pivot_row,
                 std::size_t column) {
    left_ = cells[column];
    if (left_ == 0) return;
    cells[column] = 0;
    for (std::size_t c = 0; c < cells.size(); ++c) cells[c] -= left_ * pivot_row[c];
  }

  std::vector<std::vector<double>> cells_;
  std::vector<double> goal_;   ///< reduced costs
  std::vector<double> right_;  ///< values of the basic variables
  std::vector<int> basic_, nonbasic_;
  double left_ = 0;  ///< what was in the column that was eliminated last
};

}  // namespace

std::vector<double> best_row_weights(const std::vector<std::vector<double>>& rows) {
  Tableau tableau(rows);
  tableau.solve();
  std::vector<double> weights = tableau.prices();
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (all <= 0) return std::vector<double>(rows.size(), 1.0 / static_cast<double>(rows.size()));
  for (double& weight : weights) weight /= all;
  return weights;
}

}  // namespace stagecraft
