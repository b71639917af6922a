// Branching of a block proof: on which devices have stages with at least so many blocks.

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "planner/relaxations/block_proof.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Devices with choices on both sides of the split.
std::vector<int> BlockProof::undecided(const Split& split) const {
  std::vector<int> devices;
  for (int device = 0; device < depth(); ++device) {
    const BlockNumbers& domain = domains()[index(device)];
    const auto has = [&](int c) { return table_.blocks_of(c, split.turn) >= split.blocks; };
    if (std::ranges::any_of(domain, has) && !std::ranges::all_of(domain, has))
      devices.push_back(device);
  }
  return devices;
}

/// All splits, by how much the devices disagree in the latest mean layout, most disagreement first.
std::vector<BlockProof::DoubtfulSplit> BlockProof::splits() const {
  std::vector<DoubtfulSplit> splits;
  const auto turns = static_cast<int>(table_.turns());
  for (int turn = all_turns; turn < turns; ++turn) {
    std::set<int> counts;
    for (const BlockNumbers& domain : domains()) {
      for (const int c : domain) counts.insert(table_.blocks_of(c, turn));
    }
    for (const int blocks : counts) {
      const std::vector<int> devices = undecided({turn, blocks});
      if (devices.empty()) continue;
      double have = 0;
      for (std::size_t i = 0; i < seen_.layouts().size(); ++i) {
        for (const int device : devices) {
          if (table_.blocks_of(seen_.layouts()[i][index(device)], turn) >= blocks)
            have += seen_.mixture()[i];
        }
      }
      splits.push_back(
          {{turn, blocks}, std::min(have, static_cast<double>(devices.size()) - have)});
    }
  }
  std::ranges::stable_sort(splits, std::greater<>(), &DoubtfulSplit::doubt);
  return splits;
}

/// The domains of a child node: `devices[first]` is the first undecided device with at least so
/// many blocks, or, if `first` is past the end, no undecided device has them.
BlockDomains BlockProof::domains_of_case(const Split& split, const std::vector<int>& devices,
                                         std::size_t first) const {
  BlockDomains of_case = domains();
  for (std::size_t i = 0; i < devices.size() && i <= first; ++i) {
    std::erase_if(of_case[index(devices[i])], [&](int c) {
      return (table_.blocks_of(c, split.turn) >= split.blocks) != (i == first);
    });
  }
  return of_case;
}

/// Score of a split by probing its middle child with this effort: the logarithm of the layouts
/// left, or a negative value, lower the sooner it was closed.
double BlockProof::left_of_middle(const Split& split, Weights weights, std::int64_t effort) {
  const std::vector<int> devices = undecided(split);
  BlockDomains before =
      std::exchange(domains(), domains_of_case(split, devices, devices.size() / 2));
  BlockGame seen = std::move(seen_);
  const std::int64_t begin = weights_.spent();
  const std::int64_t last = std::exchange(last_, std::min(last_, weights_.spent() + effort));
  ++cases_;
  const bool is_out = thin_out_by_turns(weights);
  --cases_;
  last_ = last;
  double left = is_out ? -1 / static_cast<double>(weights_.spent() - begin + 1) : 0;
  for (const BlockNumbers& domain : domains()) {
    if (!is_out) left += std::log(static_cast<double>(domain.size()));
  }
  domains() = std::move(before);
  seen_ = std::move(seen);
  return left;
}

/// A split about which devices disagree most; nothing if no device is undecided. At the root, the
/// best of several is found by strong branching on their middle children, with a part of the effort
/// used so far.
std::optional<BlockProof::Split> BlockProof::best_split(const Weights& weights, std::int64_t past) {
  constexpr double much = 0.8;
  constexpr std::int64_t part = 8;
  std::vector<DoubtfulSplit> splits = this->splits();
  if (splits.empty()) return {};
  const double most = splits.front().doubt;
  std::erase_if(splits, [&](const DoubtfulSplit& split) { return split.doubt < much * most; });
  if (cases_ > 1 || splits.size() == 1) return splits.front().split;
  std::optional<Split> best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [split, doubt] : splits) {
    const double left = left_of_middle(split, weights, past / part);
    if (left >= least) continue;
    least = left;
    best = split;
  }
  return best;
}

/// The child nodes of a split: each undecided device as the first with so many blocks, and none of
/// them.
std::vector<BlockDomains> BlockProof::cases_of(const Split& split) const {
  const std::vector<int> devices = undecided(split);
  std::vector<BlockDomains> cases;
  for (std::size_t first = 0; first <= devices.size(); ++first)
    cases.push_back(domains_of_case(split, devices, first));
  return cases;
}

/// The child nodes that fix one of the device's choices each.
std::vector<BlockDomains> BlockProof::cases_of_choices(std::size_t device) const {
  std::vector<BlockDomains> cases;
  for (const int choice : domains()[device]) {
    cases.push_back(domains());
    cases.back()[device] = {choice};
  }
  return cases;
}

}  // namespace stagecraft
