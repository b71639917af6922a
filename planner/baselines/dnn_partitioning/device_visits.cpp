#include "planner/baselines/dnn_partitioning/device_visits.hpp"

#include <algorithm>
#include <numeric>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Of more devices one order is tried.
constexpr std::size_t most_ordered = 6;

class Visits {
 public:
  Visits(const Dag& dag, const std::vector<std::vector<int>>& parts, StagePlacement placement,
         int visits)
      : stages_(static_cast<int>(parts.size()) * visits),
        devices_(static_cast<int>(parts.size())),
        placement_(placement),
        order_(order_by_number(dag)),
        part_of_(index(dag.nodes), -1),
        before_(index(dag.nodes)),
        behind_(index(dag.nodes)) {
    for (int part = 0; part < devices_; ++part) {
      for (const int layer : parts[index(part)]) part_of_[index(layer)] = part;
    }
    for (const Edge& edge : dag.edges) {
      before_[index(edge.to)].push_back(edge.from);
      behind_[index(edge.from)].push_back(edge.to);
    }
  }

  /// Where the parts stand on devices in the order `parts`.
  std::vector<ForeignStage> on(const std::vector<int>& parts) {
    parts_ = parts;
    if (!come_early() || !find_latest() || !fill_stages()) return {};
    std::vector<ForeignStage> stages(index(stages_));
    for (int stage = 0; stage < stages_; ++stage) {
      stages[index(stage)].devices = {device_of_stage(placement_, stage, devices_)};
    }
    for (std::size_t layer = 0; layer < stage_of_.size(); ++layer) {
      stages[index(stage_of_[layer])].layers.push_back(static_cast<int>(layer));
    }
    return stages;
  }

  /// Parts by where their layers are in the middle of an order.
  std::vector<int> by_place() const {
    std::vector<double> sum(index(devices_), 0), count(index(devices_), 0);
    for (std::size_t place = 0; place < order_.size(); ++place) {
      const int part = part_of_[index(order_[place])];
      sum[index(part)] += static_cast<double>(place);
      ++count[index(part)];
    }
    std::vector<int> parts(index(devices_));
    std::iota(parts.begin(), parts.end(), 0);
    std::stable_sort(parts.begin(), parts.end(), [&](int one, int other) {
      return sum[index(one)] * count[index(other)] < sum[index(other)] * count[index(one)];
    });
    return parts;
  }

 private:
  bool is_at(int stage, int layer) const {
    return parts_[index(device_of_stage(placement_, stage, devices_))] == part_of_[index(layer)];
  }

  /// Each layer in the first stage of its device that has all it reads from.
  bool come_early() {
    stage_of_.assign(order_.size(), 0);
    for (const int layer : order_) {
      int& stage = stage_of_[index(layer)];
      for (const int other : before_[index(layer)])
        stage = std::max(stage, stage_of_[index(other)]);
      while (stage < stages_ && !is_at(stage, layer)) ++stage;
      if (stage == stages_) return false;
    }
    return true;
  }

  /// The last stage that a layer could be in.
  bool find_latest() {
    latest_.assign(order_.size(), stages_ - 1);
    for (auto layer = order_.rbegin(); layer != order_.rend(); ++layer) {
      int& stage = latest_[index(*layer)];
      for (const int other : behind_[index(*layer)]) stage = std::min(stage, latest_[index(other)]);
      while (stage >= 0 && !is_at(stage, *layer)) --stage;
      if (stage < 0) return false;
    }
    return true;
  }

  /// From the last stage to the first, takes a layer from an earlier one where there is none.
  bool fill_stages() {
    for (int stage = stages_ - 1; stage >= 0; --stage) {
      if (std::find(stage_of_.begin(), stage_of_.end(), stage) != stage_of_.end()) continue;
      const int layer = layer_for(stage);
      if (layer < 0) return false;
      stage_of_[index(layer)] = stage;
    }
    return true;
  }

  /// The layer that comes closest before the stage, and that nothing before the stage reads from.
  int layer_for(int stage) const {
    int best = -1;
    for (const int layer : order_) {
      if (!is_at(stage, layer) || stage_of_[index(layer)] > stage || latest_[index(layer)] < stage)
        continue;
      const auto& readers = behind_[index(layer)];
      const bool may_wait = std::all_of(readers.begin(), readers.end(), [&](int reader) {
        return stage_of_[index(reader)] >= stage;
      });
      if (may_wait && (best < 0 || stage_of_[index(layer)] >= stage_of_[index(best)])) best = layer;
    }
    return best;
  }

  int stages_, devices_;
  StagePlacement placement_;
  std::vector<int> order_;
  std::vector<int> part_of_;  ///< of each layer, as the next three
  std::vector<std::vector<int>> before_, behind_;
  std::vector<int> stage_of_, latest_;
  std::vector<int> parts_;  ///< on each device
};

}  // namespace

std::vector<ForeignStage> visits_of(const Dag& dag, const std::vector<std::vector<int>>& parts,
                                    StagePlacement placement, int visits) {
  Visits all(dag, parts, placement, visits);
  if (parts.size() > most_ordered) return all.on(all.by_place());
  std::vector<int> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<ForeignStage> stages = all.on(order);
    if (!stages.empty()) return stages;
  } while (std::next_permutation(order.begin(), order.end()));
  return {};
}

}  // namespace stagecraft
