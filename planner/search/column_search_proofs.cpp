// Proofs of what columns cannot be faster than, which go on side by side.

#include <algorithm>
#include <array>
#include <utility>

#include "planner/search/column_search.hpp"

namespace stagecraft {

/// Again and again those of the lowest bounds, a bit higher each time, as long as that works: as
/// high as the lowest of all is to go next, since that is the bound of the whole. Some take most of
/// their share, others little: together they are given more than there is.
void ColumnSearch::prove_lowest() {
  constexpr std::size_t size = 3;
  // What is left in the end is not enough for one more.
  constexpr std::int64_t parts = 16;
  const std::int64_t kept = judge_.effort().left / parts;
  // Where a gap is good enough, proofs that do not raise the bound are worth what the search took
  // before, in two parts.
  const std::int64_t before_proofs = given_ - judge_.effort().left;
  std::int64_t last_raised = judge_.effort().left;
  while (!is_enough() && judge_.effort().left > kept) {
    Branches batch = open_by_least();
    if (batch.empty()) return;
    batch.resize(std::min(batch.size(), size));
    const ColumnBranch& lowest = *batch.front();
    const auto limit = lowest.next_limit(judge_.limit());
    if (!limit) return;
    std::erase_if(batch, [&](const ColumnBranch* branch) { return branch->least > *limit; });
    const auto known = [&] { return std::array{lowest.least, lowest.too_far, judge_.limit()}; };
    const auto before = known();
    // The last hundredth is worth half of what is left, each time.
    constexpr double near = 0.0101;
    Effort& effort = judge_.effort();
    std::int64_t reserve = gap() <= near ? effort.left / 2 : 0;
    if (control_.gap > 0) reserve = std::max(reserve, effort.left - before_proofs / 2);
    effort.left -= reserve;
    const std::int64_t share = effort.left;
    work_on(batch, [&](ColumnWork& work) { work.begin_proof(*limit, share); });
    report_();
    prove_cases(batch);
    effort.left += reserve;
    if (known() == before) return;
    if (lowest.least > std::get<0>(before)) last_raised = effort.left;
    if (control_.gap > 0 && last_raised - effort.left >= before_proofs) return;
  }
}

/// Goes through the cases of their proofs, side by side.
void ColumnSearch::prove_cases(const Branches& batch) {
  constexpr std::size_t size = 4;
  while (!stops()) {
    Branches wholes;
    std::vector<ColumnBranch> parts = take_cases(batch, size, wholes);
    if (parts.empty()) break;
    Branches pointers;
    for (ColumnBranch& part : parts) pointers.push_back(&part);
    const std::int64_t share = judge_.effort().left / 3 * 2;  // few take much
    work_on(pointers, [&](ColumnWork& work) { work.prove_case(share); });
    for (std::size_t i = 0; i < parts.size(); ++i) wholes[i]->take_part(std::move(parts[i]));
    report_();
  }
  for (ColumnBranch* branch : batch) {
    if (!branch->proof) continue;
    const ColumnProof proof = *std::exchange(branch->proof, std::nullopt);
    if (proof.is_too_long || !proof.cases.empty()) branch->too_far = proof.limit;
    if (proof.cases.empty()) branch->raise_to(proof.least, relaxation::paths_of_blocks);
  }
}

/// Copies of branches, each with one of their next cases; whose they are goes to `wholes`.
std::vector<ColumnBranch> ColumnSearch::take_cases(const Branches& batch, std::size_t most,
                                                   Branches& wholes) {
  std::vector<ColumnBranch> parts;
  for (ColumnBranch* branch : batch) {
    if (!branch->proof) continue;
    ColumnProof proof = *std::exchange(branch->proof, std::nullopt);
    const auto count =
        static_cast<std::ptrdiff_t>(std::min(proof.cases.size(), most - parts.size()));
    for (auto own = proof.cases.begin(); own != proof.cases.begin() + count; ++own) {
      parts.push_back(*branch);
      parts.back().proof = {.limit = proof.limit, .cases = {std::move(*own)}};
      wholes.push_back(branch);
    }
    proof.cases.erase(proof.cases.begin(), proof.cases.begin() + count);
    branch->proof = std::move(proof);
  }
  return parts;
}

}  // namespace stagecraft
