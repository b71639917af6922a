#include "planner/strategies/launch_scripts/partition.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stagecraft {

std::vector<int> partition_uniform(int items, int parts) {
  std::vector<int> bounds{0};
  if (items <= parts) {
    for (int part = 1; part <= parts; ++part) bounds.push_back(std::min(part, items));
    return bounds;
  }
  const int rest = items % parts;
  for (int part = 0; part < parts; ++part) {
    bounds.push_back(bounds.back() + items / parts + (part < rest ? 1 : 0));
  }
  return bounds;
}

std::vector<int> partition_balanced(const std::vector<double>& weights, int parts) {
  const int items = static_cast<int>(weights.size());
  if (items <= parts) return partition_uniform(items, parts);

  constexpr double infinite = std::numeric_limits<double>::infinity();
  struct State {
    double heaviest = infinite, lightest = infinite, difference = infinite;
    int before = 0;  ///< where the last part begins
  };
  const auto width = static_cast<std::size_t>(parts) + 1;
  std::vector<State> states((weights.size() + 1) * width);
  const auto at = [&](int prefix, int count) -> State& {
    return states[static_cast<std::size_t>(prefix) * width + static_cast<std::size_t>(count)];
  };
  std::vector<double> sums{0};
  for (const double weight : weights) sums.push_back(sums.back() + weight);

  at(0, 0).heaviest = at(0, 0).difference = 0;
  for (int prefix = 1; prefix <= items; ++prefix) {
    for (int count = 1; count <= std::min(prefix, parts); ++count) {
      State& state = at(prefix, count);
      for (int before = 0; before < prefix; ++before) {
        const State& rest = at(before, count - 1);
        const double weight =
            sums[static_cast<std::size_t>(prefix)] - sums[static_cast<std::size_t>(before)];
        const double heaviest = std::max(rest.heaviest, weight);
        const double lightest = std::min(rest.lightest, weight);
        if (state.difference < heaviest - lightest) continue;
        state = {heaviest, lightest, heaviest - lightest, before};
      }
    }
  }
  std::vector<int> bounds{items};
  for (int count = parts; count > 0; --count) bounds.push_back(at(bounds.back(), count).before);
  std::reverse(bounds.begin(), bounds.end());
  return bounds;
}

std::vector<int> partition_rest_last(int items, int parts) {
  std::vector<int> bounds;
  for (int part = 0; part < parts; ++part) bounds.push_back(items / parts * part);
  bounds.push_back(items);
  return bounds;
}

std::optional<std::vector<int>> megatron_layers(int layers, int stages,
                                                const MegatronSplit& split) {
  std::vector<int> counts(static_cast<std::size_t>(stages), 0);
  int rest = layers + (split.account_for_embedding ? 1 : 0) + (split.account_for_loss ? 1 : 0);
  const int by_hand = (split.first ? 1 : 0) + (split.last ? 1 : 0);
  rest -= split.first.value_or(0) + split.last.value_or(0);
  const int even = stages - by_hand;
  if (rest < 0 || even < 0 || (even == 0 && rest != 0) || (even > 0 && rest % even != 0)) return {};
  std::fill(counts.begin(), counts.end(), even > 0 ? rest / even : 0);
  if (split.first) counts.front() = *split.first;
  if (split.last) counts.back() = *split.last;
  if (split.account_for_embedding) --counts.front();
  if (split.account_for_loss) --counts.back();
  if (std::any_of(counts.begin(), counts.end(), [](int count) { return count < 0; })) return {};
  return counts;
}

}  // namespace stagecraft
