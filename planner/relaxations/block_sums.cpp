#include "planner/relaxations/block_sums.hpp"

#include "profiles/index.hpp"

namespace stagecraft {

double BlockSums::list(const BlockGame::Weights& weights, const BlockDomains& domains) {
  of_cells_.assign(table_.cells().size(), 0);
  double constant = 0;
  for (const auto& [row, weight] : weights) {
    constant += weight * row->constant;
    for (std::size_t c = 0; c < of_cells_.size(); ++c) of_cells_[c] += weight * row->lengths[c];
  }
  steps_ += static_cast<std::int64_t>(of_cells_.size() * weights.size()) / 16;
  for (const BlockNumbers& domain : domains) {
    for (const int c : domain) of_choices_[index(c)] = table_.sum_over_cells(c, of_cells_);
    steps_ += 10 + static_cast<std::int64_t>(domain.size() * table_.turns()) / 8;
  }
  return constant;
}

bool BlockSums::cover(const BlockDomains& domains, int blocks, double constant, BlockSum& least) {
  for (std::size_t d = 0; d < domains.size(); ++d) {
    items_[d].clear();
    for (const int c : domains[d])
      items_[d].push_back({table_.blocks_of(c), of_choices_[index(c)]});
    steps_ += 30 + static_cast<std::int64_t>(domains[d].size() * 3) / 8;
  }
  if (!cover_.solve(items_, blocks)) return false;
  least.value = constant + cover_.value();
  least.layout.clear();
  for (std::size_t d = 0; d < domains.size(); ++d)
    least.layout.push_back(domains[d][index(cover_.chosen()[d])]);
  return true;
}

}  // namespace stagecraft
