#include "profiles/importers/linear_order.hpp"

#include <algorithm>

namespace stagecraft {

namespace {

using Neighbours = std::vector<std::vector<std::size_t>>;

class LinearOrder {
 public:
  LinearOrder(const Model& model, const std::vector<Bytes>& outputs)
      : outputs_(outputs), inputs_(model.layers.size()), readers_(model.layers.size()) {
    for (const Edge& edge : model.edges) {
      const auto from = static_cast<std::size_t>(edge.from);
      const auto to = static_cast<std::size_t>(edge.to);
      inputs_[to].push_back(from);
      readers_[from].push_back(to);
    }
  }

  std::vector<int> run() {
    for (std::size_t layer = 0; layer < inputs_.size(); ++layer) {
      missing_.push_back(inputs_[layer].size());
      unread_.push_back(readers_[layer].size());
    }
    for (std::size_t layer = inputs_.size(); layer > 0; --layer) {
      if (missing_[layer - 1] == 0) ready_.push_back(layer - 1);
    }
    std::vector<int> order;
    while (!ready_.empty()) order.push_back(static_cast<int>(take()));
    return order;
  }

 private:
  /// What running the layer adds to the bytes that someone has yet to read.
  Bytes opened_by(std::size_t layer) const {
    Bytes opened = readers_[layer].empty() ? 0 : outputs_[layer];
    for (const std::size_t input : inputs_[layer]) {
      if (unread_[input] == 1) opened -= outputs_[input];
    }
    return opened;
  }

  std::size_t take() {
    auto best = ready_.begin();
    Bytes fewest = opened_by(*best);
    for (auto candidate = ready_.begin() + 1; candidate != ready_.end(); ++candidate) {
      const Bytes opened = opened_by(*candidate);
      if (opened > fewest) continue;
      fewest = opened;
      best = candidate;
    }
    const std::size_t layer = *best;
    ready_.erase(best);
    for (const std::size_t input : inputs_[layer]) --unread_[input];
    // The first reader in the file becomes ready last, and so comes first.
    for (auto reader = readers_[layer].rbegin(); reader != readers_[layer].rend(); ++reader) {
      if (--missing_[*reader] == 0) ready_.push_back(*reader);
    }
    return layer;
  }

  const std::vector<Bytes>& outputs_;
  Neighbours inputs_;
  Neighbours readers_;
  std::vector<std::size_t> missing_;
  std::vector<std::size_t> unread_;
  std::vector<std::size_t> ready_;  ///< in the order in which they became ready
};

}  // namespace

std::vector<int> linear_order(const Model& model, const std::vector<Bytes>& outputs) {
  return LinearOrder(model, outputs).run();
}

}  // namespace stagecraft
