// Zero-sum matrix games, solved exactly.

#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft {

/// How both players play best: weights that are not negative and have the sum one.
struct GameSolution {
  double value = 0;          ///< the least mean over the columns, which is as large as it gets
  std::vector<double> rows;  ///< of him who wants it large
  std::vector<double> columns;
  std::int64_t steps = 0;  ///< of about ten nanoseconds that it took
};

/// `rows` are not empty, equally long, and positive. By the simplex method for the column player
/// (Dantzig 1951), up to rounding.
GameSolution solve_game(const std::vector<std::vector<double>>& rows);

}  // namespace stagecraft
