// Zero-sum matrix games that grow by rows and columns, solved by the simplex method.

#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft {

/// Optimal mixed strategies of both players: nonnegative weights that add up to 1.
struct GameSolution {
  double value = 0;          ///< value of the game: the largest guaranteed mean
  std::vector<double> rows;  ///< strategy of the maximising player
  std::vector<double> columns;
};

/// Solves the column player's linear program by the simplex method (Dantzig 1951), up to rounding.
/// After a new row or column it continues from the last solution, which is usually few pivots away.
class MatrixGame {
 public:
  /// Adds a row or column with positive entries, one for each column, or row, so far.
  void add_row(std::vector<double> cells);
  void add_column(const std::vector<double>& cells);
  /// Removes the columns that are not marked.
  void keep_columns(const std::vector<char>& keeps);

  /// Removes rows that are not marked and have no weight. Rows with weight stay, and are marked as
  /// kept.
  void keep_rows(std::vector<char>& keeps);

  /// The game must have a row and a column.
  GameSolution solve();
  /// Effort since the last call, in steps of about ten nanoseconds.
  std::int64_t take_steps();

 private:
  // The column player maximises the sum of z >= 0 with rows * z <= 1, whose dual prices are the
  // row player's weights. The tableau has each basic variable, and the sum, as a function of the
  // nonbasic ones; a variable is a column's z, or a row's slack.
  struct Variable {
    bool is_slack = false;
    std::size_t number = 0;  ///< index of its column or row
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
  Cells goal_;                  ///< reduced costs of the nonbasic variables
  Cells right_;                 ///< values of the basic variables
  std::vector<Variable> basic_, nonbasic_;
  bool has_new_columns_ = false, has_new_rows_ = false;
  int pivots_ = 0;          ///< pivots since the tableau was set up
  std::int64_t cells_ = 0;  ///< cells of the tableau that were visited
};

}  // namespace stagecraft
