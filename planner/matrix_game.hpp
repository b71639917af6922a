// Zero-sum matrix games, solved exactly.

#pragma once

#include <vector>

namespace stagecraft {

/// Weights of the rows, not negative and with the sum one, whose least mean over the columns is as
/// large as it gets. `rows` are not empty, equally long, and positive. By the simplex method for
/// the column player (Dantzig 1951), up to rounding.
std::vector<double> best_row_weights(const std::vector<std::vector<double>>& rows);

}  // namespace stagecraft
