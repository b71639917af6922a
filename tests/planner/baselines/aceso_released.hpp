// Aceso's released code, for tests to hold ours against.

#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "planner/baselines/aceso/aceso_search.hpp"
#include "profiles/index.hpp"
#include "tests/catch.hpp"

namespace stagecraft::tests {

inline bool contains(const std::string& name, const std::string& part) {
  return name.find(part) != std::string::npos;
}

/// A stage as Aceso's released code judges it, line by line: lists of names, no sums kept.
class Released {
 public:
  Released(const AcesoDatabase& database, const AcesoTable& table, int first, int end)
      : ratio_(database.optimizer_ratio), rates_{database.between_devices, database.between_nodes} {
    for (int i = first; i < end; ++i) {
      names_.push_back(database.names[index(database.chain[index(i)])]);
      ops_.push_back(table.operators[index(database.chain[index(i)])]);
    }
  }

  double memory(const std::vector<bool>& rc, int behind) const {
    double weights = 0, activations = 0, forward = 0, backward = 0;
    for (int i = 0; i < size(); ++i) {
      weights += ops_[index(i)].weights;
      activations += kept(i);
      if (i + 1 == size()) continue;
      forward = std::max(forward, ops_[index(i)].forward_reserved);
      backward = std::max(backward, ops_[index(i)].backward_reserved);
    }
    const double held = ops_[0].input + activations - saved(rc);
    return weights * (2 + ratio_) + held * behind + held + peak(rc) +
           std::max(forward + backward, weights);
  }

  std::vector<bool> check_recompute(int behind, double limit) const {
    std::vector<bool> rc(names_.size(), false);
    std::vector<std::string> order;
    std::map<std::string, std::vector<int>> groups;
    for (int i = 0; i < size(); ++i) {
      if (groups[names_[index(i)]].empty()) order.push_back(names_[index(i)]);
      groups[names_[index(i)]].push_back(i);
    }
    std::map<std::string, bool> done;
    while (memory(rc, behind) > limit) {
      std::string largest;
      double most = 0;
      for (const std::string& name : order) {
        const double size = group_size(groups[name], behind);
        if (done[name] || size <= most || is_excluded(name)) continue;
        most = size;
        largest = name;
      }
      if (largest.empty()) return rc;
      done[largest] = true;
      const std::vector<int>& places = groups[largest];
      if (places.front() + 1 >= size()) return rc;
      done[names_[index(places.front() + 1)]] = true;
      const double excess = memory(rc, behind) - limit;
      double taken = 0;
      for (const int place : places) {
        if (most >= excess && taken > excess) break;
        taken += ops_[index(place)].activations * (behind + 1);
        rc[index(place)] = true;
        if (place + 1 < size()) rc[index(place + 1)] = true;
      }
    }
    return rc;
  }

  /// Microseconds.
  double time(const std::vector<bool>& rc, bool from_node, bool to_node) const {
    double sum = transfer(ops_.front().input, from_node) + transfer(ops_.back().output, to_node);
    for (int i = 0; i < size(); ++i) {
      sum += ops_[index(i)].forward * (rc[index(i)] ? 2 : 1) + ops_[index(i)].backward;
    }
    return sum;
  }

 private:
  int size() const { return static_cast<int>(names_.size()); }
  static bool begins_layer(const std::string& name) {
    return name == "enc-1st-layernorm" || contains(name, "-conv1");
  }
  static bool is_shared(const std::string& name) {
    return name == "enc-attention-softmax" || name == "bn1" || contains(name, "-bn3");
  }
  static bool is_excluded(const std::string& name) {
    return begins_layer(name) || contains(name, "-relu") || name == "encoder-embedding" ||
           name == "gpt-post-process";
  }
  double kept(int i) const {
    const double size = ops_[index(i)].activations;
    if (names_[index(i)] == "enc-attention-dropout") return size * 1.5;
    return is_shared(names_[index(i)]) ? 0 : size;
  }
  double saved(const std::vector<bool>& rc) const {
    double sum = 0;
    for (int i = 0; i + 1 < size(); ++i) {
      if (!rc[index(i)] || !rc[index(i + 1)]) continue;
      const bool is_dropout = names_[index(i)] == "enc-attention-dropout";
      if (is_dropout || !begins_layer(names_[index(i + 1)])) sum += kept(i);
    }
    return sum;
  }
  double peak(const std::vector<bool>& rc) const {
    std::vector<double> runs{0};
    double run = 0;
    for (int i = 0; i + 1 < size(); ++i) {
      if (rc[index(i)] && rc[index(i + 1)]) {
        run += kept(i);
        if (is_shared(names_[index(i)]) || names_[index(i)] == "enc-attention-dropout") continue;
        if (!begins_layer(names_[index(i + 1)]) && i + 2 < size()) continue;
      }
      runs.push_back(run);
      run = 0;
    }
    return *std::max_element(runs.begin(), runs.end());
  }
  double group_size(const std::vector<int>& places, int behind) const {
    double sum = 0;
    for (const int place : places) sum += ops_[index(place)].activations * (behind + 1);
    return sum;
  }
  double transfer(double size, bool between_nodes) const {
    if (size == 0) return 0;
    const std::vector<double>& rates = rates_[between_nodes ? 1 : 0];
    int step = static_cast<int>(std::log(size) / std::log(2.0));
    if (step >= 1) --step;
    if (step < 0) step += static_cast<int>(rates.size());
    return size / (rates[std::min(index(step), rates.size() - 1)] * 0.001);
  }

  double ratio_;
  std::vector<double> rates_[2];
  std::vector<std::string> names_;
  std::vector<AcesoOperator> ops_;
};

inline void check_plan(const AcesoDatabase& database, const AcesoQuestion& question,
                       const AcesoAnswer& answer) {
  int next = 0;
  int devices = 0;
  for (const AcesoStage& stage : answer.plan->stages) {
    REQUIRE(stage.first == next);
    REQUIRE(stage.recomputes.size() == index(stage.end - stage.first));
    next = stage.end;
    devices += stage.devices();
  }
  REQUIRE(next == static_cast<int>(database.chain.size()));
  REQUIRE(devices == question.machine.devices);
  for (const double memory : answer.figures.memory) REQUIRE(memory <= question.machine.memory);
}

}  // namespace stagecraft::tests
