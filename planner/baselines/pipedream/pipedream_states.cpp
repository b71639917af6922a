#include <algorithm>
#include <bit>
#include <deque>
#include <map>

#include "planner/baselines/pipedream/pipedream.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

using Layers = std::vector<std::uint64_t>;

bool contains(const Layers& set, int layer) {
  return (set[index(layer) / 64] >> (index(layer) % 64) & 1) != 0;
}

void insert(Layers& set, int layer) {
  set[index(layer) / 64] |= std::uint64_t{1} << (index(layer) % 64);
}

void unite(Layers& set, const Layers& other) {
  for (std::size_t word = 0; word < set.size(); ++word) set[word] |= other[word];
}

bool is_subset(const Layers& small, const Layers& large) {
  for (std::size_t word = 0; word < small.size(); ++word) {
    if ((small[word] & ~large[word]) != 0) return false;
  }
  return true;
}

template <class Visit>
void for_each(const Layers& set, Visit visit) {
  for (std::size_t word = 0; word < set.size(); ++word) {
    for (std::uint64_t rest = set[word]; rest != 0; rest &= rest - 1) {
      visit(static_cast<int>(word * 64) + std::countr_zero(rest));
    }
  }
}

class Growth {
 public:
  Growth(const Model& model, int first_source)
      : words_((model.layers.size() + 63) / 64), first_(first_source) {
    readers_.resize(model.layers.size());
    needs_.assign(model.layers.size(), Layers(words_));
    for (const Edge& edge : model.edges) readers_[index(edge.from)].push_back(edge.to);
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
      for (const int reader : readers_[layer]) {
        unite(needs_[index(reader)], needs_[layer]);
        insert(needs_[index(reader)], static_cast<int>(layer));
      }
    }
  }

  /// All states, each after its subsets, or nothing if there are more than `most`.
  std::optional<std::vector<Layers>> states(int most) {
    Layers first(words_);
    insert(first, first_);
    std::map<Layers, std::vector<Layers>> next;
    std::deque<Layers> waiting{first};
    while (!waiting.empty()) {
      const Layers state = std::move(waiting.front());
      waiting.pop_front();
      if (next.contains(state)) continue;
      if (static_cast<int>(next.size()) == most) return {};
      std::vector<Layers> grown = grow(state);
      for (const Layers& larger : grown) waiting.push_back(larger);
      next.emplace(state, std::move(grown));
    }
    return in_order(first, next);
  }

  /// Their "augmented antichain": the layers that no other of the state reads, and whatever some
  /// other layer reads than those between it and one of them. Its outputs count as crossing the
  /// cut, even where all that read them lie before it.
  Layers crossing(const Layers& state) const {
    Layers crossing(words_);
    for_each(state, [&](int end) {
      const auto& readers = readers_[index(end)];
      const auto inside = [&](int reader) { return contains(state, reader); };
      if (std::any_of(readers.begin(), readers.end(), inside)) return;
      insert(crossing, end);
      const Layers& needs = needs_[index(end)];
      for_each(needs, [&](int layer) {
        for (const int reader : readers_[index(layer)]) {
          if (reader != end && !contains(needs, reader)) insert(crossing, layer);
        }
      });
    });
    return crossing;
  }

 private:
  /// By one layer that reads something of the state, and all that this layer needs.
  std::vector<Layers> grow(const Layers& state) const {
    std::vector<Layers> grown;
    for_each(state, [&](int layer) {
      for (const int reader : readers_[index(layer)]) {
        if (contains(state, reader)) continue;
        Layers larger = state;
        insert(larger, reader);
        unite(larger, needs_[index(reader)]);
        if (std::find(grown.begin(), grown.end(), larger) == grown.end()) {
          grown.push_back(std::move(larger));
        }
      }
    });
    return grown;
  }

  /// Depth first, as theirs: nested networks subtract states that come before others in this order.
  static std::vector<Layers> in_order(const Layers& first,
                                      const std::map<Layers, std::vector<Layers>>& next) {
    struct Visit {
      const Layers* state;
      std::size_t child = 0;
    };
    std::map<Layers, bool> seen{{first, true}};
    std::vector<Layers> order;
    std::vector<Visit> path{{&next.find(first)->first}};
    while (!path.empty()) {
      Visit& visit = path.back();
      const std::vector<Layers>& children = next.at(*visit.state);
      if (visit.child == children.size()) {
        order.push_back(*visit.state);
        path.pop_back();
        continue;
      }
      const Layers& child = children[visit.child++];
      if (seen.emplace(child, true).second) path.push_back({&next.find(child)->first});
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

  std::size_t words_;
  int first_;
  std::vector<std::vector<int>> readers_;
  std::vector<Layers> needs_;  ///< all layers that a layer depends on
};

PipedreamState sums_of(const Layers& layers, const Layers& crossing,
                       const std::vector<LayerCost>& costs) {
  Duration compute{0};
  Bytes activations = 0;
  Bytes parameters = 0;
  Bytes output = 0;
  for_each(layers, [&](int layer) {
    const LayerCost& cost = costs[index(layer)];
    compute += cost.forward + cost.backward();
    activations += cost.output + cost.saved;
    parameters += cost.parameters;
  });
  for_each(crossing, [&](int layer) { output += costs[index(layer)].output; });
  return {layers, seconds(compute), static_cast<double>(activations),
          static_cast<double>(parameters), static_cast<double>(output)};
}

}  // namespace

std::optional<PipedreamStates> pipedream_states(const Model& model,
                                                const std::vector<LayerCost>& costs,
                                                int first_source, int most) {
  Growth growth(model, first_source);
  const auto sets = growth.states(most);
  if (!sets) return {};
  PipedreamStates result;
  for (const Layers& set : *sets) {
    result.states.push_back(sums_of(set, growth.crossing(set), costs));
    std::vector<int> before;
    for (int k = 0; k + 1 < result.size(); ++k) {
      if (is_subset((*sets)[index(k)], set)) before.push_back(k);
    }
    result.before.push_back(std::move(before));
  }
  return result;
}

}  // namespace stagecraft
