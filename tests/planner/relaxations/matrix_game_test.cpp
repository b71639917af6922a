#include "planner/relaxations/matrix_game.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/catch.hpp"

using namespace stagecraft;
using Catch::Matchers::WithinRel;
using Matrix = std::vector<std::vector<double>>;

namespace {

GameSolution solve_game(const Matrix& rows) {
  MatrixGame game;
  for (std::size_t row = 0; row < rows.size(); ++row) game.add_row({});
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    std::vector<double> cells;
    for (const auto& row : rows) cells.push_back(row[column]);
    game.add_column(cells);
  }
  return game.solve();
}

/// The least mean over the columns.
double value_of(const Matrix& rows, const std::vector<double>& weights) {
  double least = 1e300;
  for (std::size_t column = 0; column < rows.front().size(); ++column) {
    double mean = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) mean += weights[row] * rows[row][column];
    least = std::min(least, mean);
  }
  return least;
}

double value_of(const Matrix& rows) {
  return value_of(rows, solve_game(rows).rows);
}

/// The same game as the column player sees it: what is more for one is less for the other.
Matrix turned(const Matrix& rows, double all) {
  Matrix columns(rows.front().size());
  for (std::size_t column = 0; column < columns.size(); ++column) {
    for (const auto& row : rows) columns[column].push_back(all - row[column]);
  }
  return columns;
}

}  // namespace

TEST_CASE("known games have their known values and weights") {
  // Rock, paper, scissors, with 2 added: a third each.
  for (const double weight : solve_game({{2, 1, 3}, {3, 2, 1}, {1, 3, 2}}).rows)
    CHECK_THAT(weight, WithinRel(1.0 / 3, 1e-9));
  CHECK_THAT(value_of({{2, 1, 3}, {3, 2, 1}, {1, 3, 2}}), WithinRel(2.0, 1e-9));
  // A saddle point: 3 is the least of its row and the most of its column.
  CHECK(solve_game({{3, 5}, {1, 9}}).rows == std::vector<double>{1, 0});
  // (4 * 3 - 1 * 2) / (4 + 3 - 1 - 2) without a saddle point.
  CHECK_THAT(value_of({{4, 1}, {2, 3}}), WithinRel(2.5, 1e-9));
  CHECK(solve_game({{7}}).rows == std::vector<double>{1});
}

TEST_CASE("what one player is sure of is what the other cannot avoid") {
  std::mt19937 random(7);
  for (int game = 0; game < 200; ++game) {
    const std::size_t rows = 1 + random() % 12, columns = 1 + random() % 12;
    Matrix matrix(rows, std::vector<double>(columns));
    for (auto& row : matrix) {
      for (double& cell : row) cell = 1 + static_cast<double>(random() % 1000) / 100;
    }
    const GameSolution solution = solve_game(matrix);
    for (const auto& weights : {solution.rows, solution.columns}) {
      CHECK(std::ranges::min(weights) >= 0);
      CHECK_THAT(std::accumulate(weights.begin(), weights.end(), 0.0), WithinRel(1.0, 1e-9));
    }
    constexpr double all = 20;
    CHECK_THAT(solution.value, WithinRel(value_of(matrix, solution.rows), 1e-9));
    CHECK_THAT(solution.value,
               WithinRel(all - value_of(turned(matrix, all), solution.columns), 1e-9));
    CHECK_THAT(solution.value, WithinRel(all - value_of(turned(matrix, all)), 1e-9));
  }
}

TEST_CASE("a game that has grown and shrunk is the game that is left") {
  std::mt19937 random(11);
  const auto cells = [&](std::size_t count) {
    std::vector<double> some(count);
    for (double& cell : some) cell = 1 + static_cast<double>(random() % 30) / 10;
    return some;
  };
  for (int i = 0; i < 100; ++i) {
    MatrixGame game;
    Matrix matrix{{cells(1)}};
    game.add_row({});
    game.add_column({matrix[0][0]});
    for (int change = 0; change < 60; ++change) {
      const std::size_t columns = matrix.front().size();
      switch (random() % 5) {
        case 0:
        case 1:
          matrix.push_back(cells(columns));
          game.add_row(matrix.back());
          break;
        case 2: {
          const std::vector<double> column = cells(matrix.size());
          game.add_column(column);
          for (std::size_t row = 0; row < matrix.size(); ++row) matrix[row].push_back(column[row]);
          break;
        }
        case 3: {
          std::vector<char> keeps(matrix.size());
          for (char& keep : keeps) keep = static_cast<char>(random() % 2);
          const double value = game.solve().value;
          game.keep_rows(keeps);
          std::size_t row = 0;
          std::erase_if(matrix, [&](const auto&) { return keeps[row++] == 0; });
          // What had no weight is not missed.
          REQUIRE_THAT(value_of(matrix), WithinRel(value, 1e-9));
          break;
        }
        default: {
          std::vector<char> keeps(columns);
          for (char& keep : keeps) keep = random() % 4 == 0 ? 0 : 1;
          keeps[random() % columns] = 1;
          game.keep_columns(keeps);
          for (auto& row : matrix) {
            std::vector<double> kept;
            for (std::size_t c = 0; c < columns; ++c) {
              if (keeps[c] != 0) kept.push_back(row[c]);
            }
            row = kept;
          }
        }
      }
      if (random() % 3 == 0) continue;
      const GameSolution solution = game.solve();
      REQUIRE_THAT(solution.value, WithinRel(value_of(matrix), 1e-9));
      REQUIRE_THAT(value_of(matrix, solution.rows), WithinRel(value_of(matrix), 1e-9));
    }
  }
}

TEST_CASE("rows that are alike share what each of them would get") {
  const Matrix once{{4, 1}, {2, 3}}, twice{{4, 1}, {2, 3}, {4, 1}, {2, 3}, {2, 3}};
  CHECK_THAT(value_of(twice), WithinRel(value_of(once), 1e-9));
}
