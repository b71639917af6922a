#include "planner/baselines/launch_scripts/partition.hpp"

#include <algorithm>
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

// A prefix of the items in some parts is a shorter prefix in one part fewer, and the part behind
// it; of all shorter ones DeepSpeed takes the last of those with the least difference. Most need no
// look. Parts of the shorter prefix weigh `mean` on average, so its heaviest weighs that at least,
// its lightest that at most, and no difference is less than that between the last part and `mean`:
//
//   sums   0 ------------- before --------- prefix
//            mean    mean         last part
//
// From right to left the last part grows and the mean shrinks, so that those whose bound is below
// the least difference found stand together: alike layers have two or three of them. Where a few
// items weigh more than all others in a part, many remain.

namespace {

/// DeepSpeed's state of a prefix in so many parts.
struct Balance {
  double heaviest = 0, lightest = 0, difference = 0;
  int before = 0;  ///< where the last part begins
};

class Balancing {
 public:
  explicit Balancing(const std::vector<double>& weights) {
    for (const double weight : weights) sums_.push_back(sums_.back() + weight);
    rounding_ = 1e-9 * sums_.back();
    for (const double sum : sums_) {
      // The first part is the lightest as well as the heaviest.
      shorter_.push_back({.heaviest = sum, .lightest = sum, .difference = 0, .before = 0});
    }
    longer_ = shorter_;
  }

  /// Prefixes in one part more than so far, where their last parts begin.
  std::vector<int> next(const std::stop_token& stop) {
    ++count_;
    const int items = static_cast<int>(sums_.size()) - 1;
    std::vector<int> before(sums_.size(), 0);
    for (int prefix = count_; prefix <= items && !stop.stop_requested(); ++prefix) {
      at(longer_, prefix) = best(prefix);
      at(before, prefix) = at(longer_, prefix).before;
    }
    std::swap(shorter_, longer_);
    return before;
  }

 private:
  template <class Value>
  static Value& at(std::vector<Value>& values, int prefix) {
    return values[static_cast<std::size_t>(prefix)];
  }

  /// How much heavier the last part is than the mean of those before.
  double excess(int prefix, int before) {
    return at(sums_, prefix) - at(sums_, before) - at(sums_, before) / (count_ - 1);
  }

  /// The first prefix from which on the last part is not heavier than the mean by more than this.
  int first_within(int prefix, double most) {
    int low = count_ - 1, high = prefix - 1;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (excess(prefix, middle) <= most) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  /// Around the prefix whose last part weighs as much as the mean, to the right as far as may be
  /// better, then to the left.
  Balance best(int prefix) {
    const int even = first_within(prefix, 0);
    Balance best = state(prefix, even);
    for (int before = even + 1; before < prefix; ++before) {
      if (-excess(prefix, before) > best.difference + rounding_) break;
      const Balance other = state(prefix, before);
      if (other.difference <= best.difference) best = other;
    }
    for (int before = even - 1; before >= count_ - 1; --before) {
      if (excess(prefix, before) > best.difference + rounding_) break;
      const Balance other = state(prefix, before);
      if (other.difference < best.difference) best = other;
    }
    return best;
  }

  Balance state(int prefix, int before) {
    const Balance& rest = at(shorter_, before);
    const double weight = at(sums_, prefix) - at(sums_, before);
    const double heaviest = std::max(rest.heaviest, weight);
    const double lightest = std::min(rest.lightest, weight);
    return {heaviest, lightest, heaviest - lightest, before};
  }

  std::vector<double> sums_{0};
  double rounding_ = 0;
  int count_ = 1;  ///< parts of the shorter prefixes
  std::vector<Balance> shorter_, longer_;
};

}  // namespace

std::vector<int> partition_balanced(const std::vector<double>& weights, int parts,
                                    const std::stop_token& stop) {
  const int items = static_cast<int>(weights.size());
  if (items <= parts) return partition_uniform(items, parts);
  Balancing balancing(weights);
  std::vector<std::vector<int>> before{{}, std::vector<int>(weights.size() + 1, 0)};
  while (std::ssize(before) <= parts && !stop.stop_requested())
    before.push_back(balancing.next(stop));
  if (stop.stop_requested()) return {};
  std::vector<int> bounds{items};
  for (int count = parts; count > 0; --count) {
    bounds.push_back(
        before[static_cast<std::size_t>(count)][static_cast<std::size_t>(bounds.back())]);
  }
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
  // Middle stages without middle layers are refused, as are empty ends that are said by hand.
  if (by_hand > 0 && even > 0 && rest == 0) return {};
  std::fill(counts.begin(), counts.end(), even > 0 ? rest / even : 0);
  if (split.first) counts.front() = *split.first;
  if (split.last) counts.back() = *split.last;
  if (split.account_for_embedding) --counts.front();
  if (split.account_for_loss) --counts.back();
  if (std::any_of(counts.begin(), counts.end(), [](int count) { return count < 0; })) return {};
  return counts;
}

std::vector<double> deepspeed_parameters(const Model& model) {
  std::vector<double> counts;
  for (const Layer& layer : model.layers) counts.push_back(static_cast<double>(layer.parameters));
  for (const Tie& tie : model.ties) {
    counts[static_cast<std::size_t>(tie.user)] += static_cast<double>(tie.parameters);
  }
  return counts;
}

}  // namespace stagecraft
