#include "planner/relaxations/block_bound.hpp"

#include <limits>

namespace stagecraft {

std::vector<PassCounts> BlockBound::useful_paths() const {
  constexpr std::size_t most = 128;
  return latest_paths(weights_.paths().all(), most);
}

void BlockBound::raise(int rounds, const std::stop_token& stop) {
  weights_.raise(rounds, std::numeric_limits<std::int64_t>::max(), stop);
}

std::optional<std::vector<BlockBound::Case>> BlockBound::begin_proof(std::int64_t effort,
                                                                     const std::stop_token& stop) {
  const auto left = proof_.begin(effort, stop);
  if (!left) return {};
  std::vector<Case> cases;
  for (const BlockDomains& domains : *left) cases.push_back({domains, proof_.trials_in_case});
  return cases;
}

bool BlockBound::prove_case(const Case& part, std::int64_t effort, const std::stop_token& stop) {
  proof_.trials_in_case = part.trials;
  return proof_.prove_case(part.domains, effort, stop);
}

}  // namespace stagecraft
