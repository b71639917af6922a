// Proofs that no plan of columns is faster than a cutoff, side by side.

#include <algorithm>
#include <array>
#include <utility>

#include "planner/search/column_search.hpp"

namespace stagecraft {

/// Repeatedly takes the branches of the lowest bounds and proves a slightly higher cutoff for them,
/// until a proof fails. The cutoff is the next one of the lowest branch, since its bound is the
/// overall bound. Proofs need very different effort, so the shares together may exceed what is
/// left.
void ColumnSearch::prove_lowest() {
  constexpr std::size_t size = 3;
  // The last 1/parts of the effort is not enough for another proof.
  constexpr std::int64_t parts = 16;
  const std::int64_t kept = judge_.effort().left / parts;
  // If the question allows a gap, proofs that do not raise the bound may use as much effort as the
  // search before them, in two halves.
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
    // Within one per cent of the incumbent, each attempt may use half of the effort that is left.
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

/// Works on the open nodes (cases) of the branches' proofs, side by side.
void ColumnSearch::prove_cases(const Branches& batch) {
  constexpr std::size_t size = 4;
  while (!stops()) {
    Branches wholes;
    std::vector<ColumnBranch> parts = take_cases(batch, size, wholes);
    if (parts.empty()) break;
    Branches pointers;
    for (ColumnBranch& part : parts) pointers.push_back(&part);
    const std::int64_t share = judge_.effort().left / 3 * 2;  // few nodes need much effort
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

/// Copies of branches, each with one open case of the branch's proof. `wholes` gets the branch of
/// each copy.
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
