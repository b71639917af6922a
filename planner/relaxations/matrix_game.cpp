#include "planner/relaxations/matrix_game.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace stagecraft {

namespace {

constexpr double tiny = 1e-11;

/// Cells of the tableau that are visited in about ten nanoseconds.
constexpr std::int64_t cells_per_step = 16;

/// After this many pivots rounding errors may have accumulated, so the tableau is set up again.
constexpr int most_pivots = 2000;

/// Normalises to sum 1 and returns the old sum. Uniform if that was 0.
double normalize(std::vector<double>& weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights)
    weight = all > 0 ? weight / all : 1.0 / static_cast<double>(weights.size());
  return all;
}

}  // namespace

void MatrixGame::add_row(std::vector<double> cells) {
  settle_columns();
  // The new row in terms of the nonbasic variables, by the tableau's rows of the basic columns.
  Cells row(nonbasic_.size());
  double right = 1;
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (!nonbasic_[k].is_slack) row[k] = cells[nonbasic_[k].number];
  }
  for (std::size_t r = 0; r < basic_.size(); ++r) {
    if (basic_[r].is_slack) continue;
    const double much = cells[basic_[r].number];
    right -= much * right_[r];
    for (std::size_t k = 0; k < row.size(); ++k) row[k] -= much * tableau_[r][k];
    cells_ += static_cast<std::int64_t>(row.size());
  }
  basic_.push_back({.is_slack = true, .number = given_.size()});
  tableau_.push_back(std::move(row));
  right_.push_back(right);
  given_.push_back(std::move(cells));
  has_new_rows_ = true;
}

void MatrixGame::add_column(const std::vector<double>& cells) {
  settle_rows();
  nonbasic_.push_back({.is_slack = false, .number = given_.front().size()});
  for (std::size_t i = 0; i < given_.size(); ++i) given_[i].push_back(cells[i]);
  // The slacks' columns of the tableau give its rows as combinations of the given rows.
  double goal = -1;
  for (std::size_t k = 0; k < goal_.size(); ++k) {
    if (nonbasic_[k].is_slack) goal += goal_[k] * cells[nonbasic_[k].number];
  }
  goal_.push_back(goal);
  for (std::size_t r = 0; r < basic_.size(); ++r) {
    double sum = basic_[r].is_slack ? cells[basic_[r].number] : 0;
    for (std::size_t k = 0; k < tableau_[r].size(); ++k) {
      if (nonbasic_[k].is_slack) sum += tableau_[r][k] * cells[nonbasic_[k].number];
    }
    tableau_[r].push_back(sum);
  }
  cells_ += static_cast<std::int64_t>(basic_.size() * nonbasic_.size());
  has_new_columns_ = true;
}

void MatrixGame::keep_columns(const std::vector<char>& keeps) {
  settle();
  std::vector<std::size_t> numbers(keeps.size());
  std::exclusive_scan(keeps.begin(), keeps.end(), numbers.begin(), std::size_t{0});
  const auto goes = [&](const Variable& variable) {
    return !variable.is_slack && keeps[variable.number] == 0;
  };
  const auto erase = [&](Cells& cells, const auto& is_out) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!is_out(i)) cells[kept++] = cells[i];
    }
    cells.resize(kept);
  };
  // The reduced costs of removed variables do not matter.
  for (std::size_t k = 0; k < nonbasic_.size(); ++k) {
    if (goes(nonbasic_[k])) goal_[k] = std::numeric_limits<double>::infinity();
  }
  bool is_sound = true;
  for (std::size_t r = 0; r < basic_.size(); ++r) {
    if (goes(basic_[r])) is_sound = drop(r) && is_sound;
  }
  for (Cells& row : given_) erase(row, [&](std::size_t c) { return keeps[c] == 0; });
  if (!is_sound) return begin_anew();
  const auto is_out = [&](std::size_t k) { return goes(nonbasic_[k]); };
  erase(goal_, is_out);
  for (Cells& row : tableau_) erase(row, is_out);
  std::erase_if(nonbasic_, goes);
  for (auto* variables : {&basic_, &nonbasic_}) {
    for (Variable& variable : *variables) {
      if (!variable.is_slack) variable.number = numbers[variable.number];
    }
  }
  has_new_rows_ = true;
}

void MatrixGame::keep_rows(std::vector<char>& keeps) {
  settle();
  for (const Variable& variable : nonbasic_) {
    if (variable.is_slack) keeps[variable.number] = 1;
  }
  const auto goes = [&](const Variable& variable) {
    return variable.is_slack && keeps[variable.number] == 0;
  };
  // The slack is basic, so its row can be removed without effect on others.
  std::size_t kept = 0;
  for (std::size_t r = 0; r < basic_.size(); ++r) {
    if (goes(basic_[r])) continue;
    if (kept < r) {
      basic_[kept] = basic_[r];
      tableau_[kept] = std::move(tableau_[r]);
      right_[kept] = right_[r];
    }
    ++kept;
  }
  basic_.resize(kept);
  tableau_.resize(kept);
  right_.resize(kept);
  std::vector<std::size_t> numbers(keeps.size());
  std::exclusive_scan(keeps.begin(), keeps.end(), numbers.begin(), std::size_t{0});
  for (auto* variables : {&basic_, &nonbasic_}) {
    for (Variable& variable : *variables) {
      if (variable.is_slack) variable.number = numbers[variable.number];
    }
  }
  std::size_t row = 0;
  std::erase_if(given_, [&](const Cells&) { return keeps[row++] == 0; });
}

/// Removes a column from the basis; the entering variable is chosen as in `mend`. False if rounding
/// leaves no candidate.
bool MatrixGame::drop(std::size_t place) {
  std::size_t best = nonbasic_.size();
  for (std::size_t k = 0; k < nonbasic_.size(); ++k) {
    const double cell = tableau_[place][k];
    if (cell <= tiny || goal_[k] == std::numeric_limits<double>::infinity()) continue;
    if (best == nonbasic_.size() || goal_[k] * tableau_[place][best] < goal_[best] * cell) best = k;
  }
  if (best == nonbasic_.size()) return false;
  pivot(place, best);
  goal_[best] = std::numeric_limits<double>::infinity();
  return true;
}

void MatrixGame::settle() {
  settle_columns();
  settle_rows();
}

void MatrixGame::settle_columns() {
  if (!std::exchange(has_new_columns_, false)) return;
  if (pivots_ > most_pivots || !raise()) begin_anew();
}

void MatrixGame::settle_rows() {
  if (!std::exchange(has_new_rows_, false)) return;
  if (pivots_ > most_pivots || !mend()) begin_anew();
}

/// Sets the tableau up again from the given rows and columns.
void MatrixGame::begin_anew() {
  pivots_ = 0;
  has_new_rows_ = has_new_columns_ = false;
  tableau_ = given_;
  goal_.assign(given_.front().size(), -1.0);
  right_.assign(given_.size(), 1.0);
  basic_.clear();
  nonbasic_.clear();
  for (std::size_t r = 0; r < right_.size(); ++r) basic_.push_back({.is_slack = true, .number = r});
  for (std::size_t c = 0; c < goal_.size(); ++c)
    nonbasic_.push_back({.is_slack = false, .number = c});
  cells_ += static_cast<std::int64_t>(right_.size() * goal_.size());
  raise();
}

/// The primal simplex method: variables of favourable reduced cost enter. False if it does not
/// terminate.
bool MatrixGame::raise() {
  const std::size_t most = 20 * (basic_.size() + nonbasic_.size());
  for (std::size_t i = 0; i < most; ++i) {
    const auto least = std::min_element(goal_.begin(), goal_.end());
    if (least == goal_.end() || *least >= -tiny) return true;
    const auto column = static_cast<std::size_t>(least - goal_.begin());
    std::size_t best = basic_.size();
    for (std::size_t r = 0; r < basic_.size(); ++r) {
      const double cell = tableau_[r][column];
      if (cell <= tiny) continue;
      if (best == basic_.size() || right_[r] * tableau_[best][column] < right_[best] * cell)
        best = r;
    }
    if (best == basic_.size())
      return true;  // only through rounding: a game with positive entries
                    // is bounded
    pivot(best, column);
  }
  return false;
}

/// The dual simplex method: variables of negative value leave. False if it does not terminate.
bool MatrixGame::mend() {
  const std::size_t most = 20 * (basic_.size() + nonbasic_.size());
  for (std::size_t i = 0; i < most; ++i) {
    const auto least = std::min_element(right_.begin(), right_.end());
    if (least == right_.end() || *least >= -tiny) return true;
    const auto row = static_cast<std::size_t>(least - right_.begin());
    std::size_t best = nonbasic_.size();
    for (std::size_t k = 0; k < nonbasic_.size(); ++k) {
      const double cell = -tableau_[row][k];
      if (cell <= tiny) continue;
      if (best == nonbasic_.size() || goal_[k] * -tableau_[row][best] < goal_[best] * cell)
        best = k;
    }
    if (best == nonbasic_.size()) return false;
    pivot(row, best);
  }
  return false;
}

/// Exchanges a basic and a nonbasic variable.
void MatrixGame::pivot(std::size_t row, std::size_t column) {
  ++pivots_;
  std::swap(basic_[row], nonbasic_[column]);
  Cells& pivot_row = tableau_[row];
  const double inverse = 1 / pivot_row[column];
  pivot_row[column] = 1;
  for (double& cell : pivot_row) cell *= inverse;
  right_[row] *= inverse;
  for (std::size_t r = 0; r < basic_.size(); ++r) {
    if (r != row) right_[r] -= eliminate(tableau_[r], pivot_row, column) * right_[row];
  }
  eliminate(goal_, pivot_row, column);
}

/// Subtracts the multiple of the pivot row that clears the pivot column, and returns the factor.
double MatrixGame::eliminate(Cells& cells, const Cells& pivot_row, std::size_t column) {
  const double much = std::exchange(cells[column], 0.0);
  if (much == 0) return 0;
  for (std::size_t k = 0; k < cells.size(); ++k) cells[k] -= much * pivot_row[k];
  cells_ += static_cast<std::int64_t>(cells.size());
  return much;
}

GameSolution MatrixGame::solve() {
  settle();
  GameSolution solution{
      .value = 0, .rows = Cells(given_.size()), .columns = Cells(given_.front().size())};
  for (std::size_t k = 0; k < nonbasic_.size(); ++k) {
    if (nonbasic_[k].is_slack) solution.rows[nonbasic_[k].number] = std::max(goal_[k], 0.0);
  }
  for (std::size_t r = 0; r < basic_.size(); ++r) {
    if (!basic_[r].is_slack) solution.columns[basic_[r].number] = std::max(right_[r], 0.0);
  }
  const double all = normalize(solution.rows);
  normalize(solution.columns);
  if (all > 0) solution.value = 1 / all;
  return solution;
}

std::int64_t MatrixGame::take_steps() {
  return std::exchange(cells_, cells_ % cells_per_step) / cells_per_step;
}

}  // namespace stagecraft
