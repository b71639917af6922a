#include "planner/relaxations/block_paths.hpp"

#include <algorithm>
#include <memory>

#include "profiles/index.hpp"

namespace stagecraft {

void BlockPaths::add(PassCounts path, std::int64_t game) {
  auto row = std::make_shared<BlockPath>();
  row->constant = path.ties * costs_.tie();
  // Between equal blocks the messages are equal, too.
  for (int s = 0; s + 1 < costs_.stages(); ++s)
    row->constant += time_of(path.stages[index(s)], costs_.cut(s, 1));
  row->constant /= limit_;
  const std::vector<BlockCell>& cells = table_.cells();
  for (const BlockCell& cell : cells) {
    const Passes& passes = path.stages[index(cell.stage)];
    row->lengths.push_back(time_of(passes, *cell.costs, cell.again) / limit_);
  }
  row->path = std::move(path);
  row->used = game;
  const std::size_t place = rows_.size();
  rows_.push_back(std::move(row));
  if (place < most_rows_) {
    for (std::size_t c = 0; c < cells.size(); ++c)
      lengths_[c * most_rows_ + place] = static_cast<float>(rows_.back()->lengths[c]);
  } else {
    list_lengths(std::max<std::size_t>(2 * place, 64));
  }
  steps_ += static_cast<std::int64_t>(cells.size());
}

/// Stores the lengths by cell, with room for `most_rows` rows, since `longest_in_mixture` reads few
/// cells of all rows.
void BlockPaths::list_lengths(std::size_t most_rows) {
  most_rows_ = most_rows;
  const std::size_t cells = table_.cells().size();
  lengths_.assign(cells * most_rows_, 0);
  for (std::size_t c = 0; c < cells; ++c) {
    for (std::size_t r = 0; r < rows_.size(); ++r)
      lengths_[c * most_rows_ + r] = static_cast<float>(rows_[r]->lengths[c]);
  }
}

void BlockPaths::drop_idle() {
  constexpr std::size_t most = 256, kept = 128;
  if (rows_.size() <= most) return;
  keep_latest(rows_, kept);
  list_lengths(most_rows_);
}

double BlockPaths::length(const BlockPath& path, const BlockLayout& layout) const {
  double sum = path.constant;
  for (const int choice : layout) sum += table_.sum_over_cells(choice, path.lengths);
  return sum;
}

BlockGame::RowRef BlockPaths::longest_in_mixture(const BlockGame& seen, double value,
                                                 std::int64_t game) {
  constexpr double tiny = 1e-7;
  std::vector<double> parts(table_.cells().size());
  std::vector<int> in_use;
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    if (seen.mixture()[i] == 0) continue;
    for (const int c : seen.layouts()[i]) {
      for (const int cell : table_.cells_of(c)) {
        if (parts[index(cell)] == 0) in_use.push_back(cell);
        parts[index(cell)] += seen.mixture()[i];
      }
    }
  }
  // Single precision suffices to find the candidate for the longest path.
  std::vector<float> means;
  for (const BlockGame::RowRef& row : rows_) means.push_back(static_cast<float>(row->constant));
  for (const int cell : in_use) {
    const auto part = static_cast<float>(parts[index(cell)]);
    const float* lengths = lengths_.data() + index(cell) * most_rows_;
    for (std::size_t r = 0; r < means.size(); ++r) means[r] += part * lengths[r];
  }
  BlockGame::RowRef best;
  float most = 0;
  for (std::size_t r = 0; r < means.size(); ++r) {
    // Paths in the game are skipped: rounding must not make one of them look longer than the game's
    // value.
    if (means[r] <= most || seen.has_part(rows_[r])) continue;
    most = means[r];
    best = rows_[r];
  }
  if (best) {
    double mean = best->constant;
    for (const int cell : in_use) mean += parts[index(cell)] * best->lengths[index(cell)];
    if (mean <= value + tiny) best = nullptr;
  }
  steps_ += static_cast<std::int64_t>(rows_.size() * in_use.size()) / 16;
  if (best) best->used = game;
  return best;
}

}  // namespace stagecraft
