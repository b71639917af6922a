// Zero-sum matrix games that grow, solved exactly.

#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft {

/// How both players play best: weights that are not negative and have the sum one.
struct GameSolution {
  double value = 0;          ///< the least mean over the columns, which is as large as it gets
  std::vector<double> rows;  ///< of him who wants it large
  std::vector<double> columns;
};

/// By the simplex method for the column player (Dantzig 1951), up to rounding. A game that has
/// grown by a row or a column is solved from where it was: its solution is few steps away.
class MatrixGame {
 public:
  /// One more row or column, positive: what it has in each column, or row, there is so far.
  void add_row(std::vector<double> cells);
  void add_column(const std::vector<double>& cells);
  /// Leaves out the others.
  void keep_columns(const std::vector<char>& keeps);

  /// Leaves out the others of those that have no weight; the rest is kept, and marked so.
  void keep_rows(std::vector<char>& keeps);

  /// There has to be a row and a column.
  GameSolution solve();
  /// Takes what it has spent since it was last asked, in steps of about ten nanoseconds.
  std::int64_t take_steps();

 private:
  // The column player maximises the sum of z >= 0 with rows * z <= 1, whose dual prices are the
  // row player's weights. The tableau has each basic variable, and the sum, as a function of the
  // nonbasic ones; a variable is a column's z, or a row's slack.
  struct Variable {
    bool is_slack = false;
    std::size_t number = 0;  ///< of its column or row
  };
  using Cells = std::vector<double>;

  void settle();
  void settle_columns();
  void settle_rows();
  bool raise();
  bool mend();
  bool drop(std::size_t place);
  void pivot(std::size_t row, std::size_t column);
  double eliminate(Cells& cells, const Cells& pivot_row, std::size_t column);
  void begin_anew();

  std::vector<Cells> given_;    ///< [row][column]
  std::vector<Cells> tableau_;  ///< [basic][nonbasic]
  Cells goal_;                  ///< reduced costs of the nonbasic ones
  Cells right_;                 ///< values of the basic ones
  std::vector<Variable> basic_, nonbasic_;
  bool has_new_columns_ = false, has_new_rows_ = false;
  int pivots_ = 0;          ///< since the tableau was begun
  std::int64_t cells_ = 0;  ///< gone over
};

}  // namespace stagecraft
