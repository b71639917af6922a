// Nested networks, by PipeDream's own dynamic program: level by level, the time of every pair of
// states on a whole unit of the level, which the level above takes for compute.
//
// Rows (where a pipeline starts) are independent of one another, so they are worked on a few at a
// time, side by side in memory.

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include "planner/baselines/pipedream/pipedream_problem.hpp"
#include "profiles/index.hpp"
#include "profiles/infinite.hpp"

namespace stagecraft {

namespace {

/// Stages that are looked at before `find_slowest` looks again.
constexpr int rounds = 32;

/// The program for `width` starts next to each other: after states first - 1, first, …
template <int width>
class Rows {
 public:
  Rows(const PipedreamLevelCosts& costs, int first)
      : costs_(costs),
        states_(costs.states().size()),
        machines_(costs.machines()),
        first_(first),
        cells_(index((states_ - first) * (machines_ + 1) * width), infinite),
        slowest_(index(machines_ + 1)),
        fastest_(index((states_ - first) * (machines_ + 1))) {
    for (int to = first_; to < states_; ++to) fill(to);
  }

  double time(int start, int to) const { return cell(to, machines_)[start - first_]; }

  /// The stages that give `time(first, to)`, from the last one back.
  std::vector<PipedreamStage> stages(int to) const {
    std::vector<PipedreamStage> stages;
    for (int used = machines_; to >= first_;) {
      stages.insert(stages.begin(), last_stage(to, used));
      if (stages.front().from < first_) return stages;
      to = stages.front().from;
      used -= stages.front().machines;
    }
    return stages;
  }

 private:
  const double* cell(int to, int used) const {
    return &cells_[index(((to - first_) * (machines_ + 1) + used) * width)];
  }
  double* cell(int to, int used) {
    return &cells_[index(((to - first_) * (machines_ + 1) + used) * width)];
  }
  double& fastest(int to, int used) {
    return fastest_[index((to - first_) * (machines_ + 1) + used)];
  }
  const PipedreamRules& rules() const { return costs_.rules(); }

  double begin(int start, int to, int used) const {
    if (rules().straight && used > 1) return infinite;
    if (!costs_.first_stage_fits(start - 1, to, used)) return infinite;
    return costs_.first_stage(start - 1, to, used);
  }

  void fill(int to) {
    const int rows = std::min(width, to - first_ + 1);
    for (int used = 1; used <= machines_; ++used) {
      for (int row = 0; row < rows; ++row) cell(to, used)[row] = begin(first_ + row, to, used);
    }
    const std::vector<int>& before = costs_.states().before[index(to)];
    const auto first = std::lower_bound(before.begin(), before.end(), first_);
    // Short last stages first: after them, most of the longer ones are too slow to look at.
    for (auto from = before.end(); from != first;) {
      if ((before.end() - from) % rounds == 0) find_slowest(to);
      extend(*--from, to);
    }
    for (int used = 2; rules().fewer_machines && used <= machines_; ++used) {
      for (int row = 0; row < std::min(width, to - first_); ++row) {
        cell(to, used)[row] = std::min(cell(to, used)[row], cell(to, used - 1)[row]);
      }
    }
    for (int used = 1; used <= machines_; ++used) {
      fastest(to, used) = *std::min_element(cell(to, used), cell(to, used) + width);
    }
  }

  /// For each number of machines the slowest so far among the rows: a stage that takes as long is
  /// of no use.
  void find_slowest(int to) {
    double all = 0;
    for (int used = 2; used <= machines_; ++used) {
      slowest_[index(used)] = *std::max_element(cell(to, used), cell(to, used) + width);
      all = std::max(all, slowest_[index(used)]);
    }
    slowest_.front() = all;
  }

  void extend(int from, int to) {
    const double compute = costs_.compute(from, to);
    if (compute == infinite) return;
    const int most = rules().straight ? 1 : machines_ - 1;
    // More machines take at least their part of the compute.
    const double least = compute * (1 - 1e-9);
    for (int machines = 1; machines <= most; ++machines) {
      if (least >= machines * slowest_.front()) continue;
      std::optional<double> known;
      for (int used = machines + 1; used <= machines_; ++used) {
        if (fastest(from, used - machines) >= slowest_[index(used)]) continue;
        if (!known) known = costs_.later_stage(from, to, machines);
        const double stage = *known;
        if (stage >= slowest_[index(used)]) continue;
        if (!costs_.later_stage_fits(from, to, machines, used)) continue;
        const double* earlier = cell(from, used - machines);
        double* best = cell(to, used);
        for (int row = 0; row < width; ++row) {
          const double time = earlier[row] > stage ? earlier[row] : stage;
          best[row] = time < best[row] ? time : best[row];
        }
      }
    }
  }

  PipedreamStage last_stage(int to, int& used) const {
    const double time = cell(to, used)[0];
    while (rules().fewer_machines && used > 1 && to > first_ && cell(to, used - 1)[0] == time) {
      --used;
    }
    if (begin(first_, to, used) == time) return {first_ - 1, to, used};
    for (const int from : costs_.states().before[index(to)]) {
      const int most = from < first_ ? 0 : rules().straight ? 1 : used - 1;
      for (int machines = 1; machines <= std::min(most, used - 1); ++machines) {
        if (!costs_.later_stage_fits(from, to, machines, used)) continue;
        const double stage = costs_.later_stage(from, to, machines);
        if (std::max(cell(from, used - machines)[0], stage) == time) return {from, to, machines};
      }
    }
    assert(false);  // every finite cell came from somewhere
    return {first_ - 1, to, used};
  }

  const PipedreamLevelCosts& costs_;
  int states_;
  int machines_;
  int first_;
  std::vector<double> cells_;    ///< state, machines used, row
  std::vector<double> slowest_;  ///< per machines used; first, the slowest of all
  std::vector<double> fastest_;  ///< state, machines used: among the rows
};

}  // namespace

std::vector<double> times_of_all_pairs(const PipedreamLevelCosts& costs) {
  constexpr int width = 32;
  const int states = costs.states().size();
  std::vector<double> times(index(states) * index(states), infinite);
  for (int first = 0; first < states; first += width) {
    const Rows<width> rows(costs, first);
    for (int start = first; start < std::min(first + width, states); ++start) {
      for (int to = start; to < states; ++to) {
        times[index(start) * index(states) + index(to)] = rows.time(start, to);
      }
    }
  }
  return times;
}

std::vector<PipedreamStage> pipeline_between(const PipedreamLevelCosts& costs, int from, int to) {
  return Rows<1>(costs, from + 1).stages(to);
}

namespace {

/// Turns stages of units into stages of devices.
class Placement {
 public:
  Placement(const std::vector<PipedreamLevelCosts>& levels, const PipedreamStates& states,
            int layers)
      : levels_(levels), states_(states), placed_(index(layers)) {
    int size = 1;
    for (const PipedreamLevelCosts& level : levels) {
      sizes_.push_back(size);
      size *= level.machines();
    }
  }

  /// The stages of one level, on every unit that starts at one of these devices.
  void place(int level, const std::vector<PipedreamStage>& stages, const std::vector<int>& starts) {
    int offset = 0;
    for (const PipedreamStage& stage : stages) {
      std::vector<int> units;
      for (const int start : starts) {
        for (int machine = 0; machine < stage.machines; ++machine) {
          units.push_back(start + (offset + machine) * sizes_[index(level)]);
        }
      }
      offset += stage.machines;
      if (level == 0) {
        add(stage.to, units);
      } else {
        place(level - 1, pipeline_between(levels_[index(level - 1)], stage.from, stage.to), units);
      }
    }
  }

  /// What no state contains hangs together with nothing else: it goes last.
  std::vector<ForeignStage> take() {
    for (std::size_t layer = 0; layer < placed_.size(); ++layer) {
      if (!placed_[layer]) stages_.back().layers.push_back(static_cast<int>(layer));
    }
    return std::move(stages_);
  }

 private:
  /// The layers of the state that are not placed yet; where there are none, the devices idle.
  void add(int state, const std::vector<int>& devices) {
    ForeignStage stage{.layers = new_layers(states_.states[index(state)], placed_),
                       .replicas = static_cast<int>(devices.size()),
                       .recompute = Recompute::none,
                       .devices = devices};
    if (!stage.layers.empty()) stages_.push_back(std::move(stage));
  }

  const std::vector<PipedreamLevelCosts>& levels_;
  const PipedreamStates& states_;
  std::vector<bool> placed_;
  std::vector<int> sizes_;  ///< devices of one machine of the level
  std::vector<ForeignStage> stages_;
};

}  // namespace

std::optional<PipedreamPlan> pipedream_plan(const PipedreamStates& states,
                                            const PipedreamRules& rules,
                                            const std::vector<PipedreamLevel>& levels, int layers) {
  std::vector<std::vector<double>> tables;
  tables.reserve(levels.size());
  std::vector<PipedreamLevelCosts> costs;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    if (level > 0) tables.push_back(times_of_all_pairs(costs.back()));
    costs.emplace_back(states, rules, levels[level], level > 0 ? levels[level - 1].machines : 1,
                       level > 0 ? &tables.back() : nullptr);
  }
  const auto pipeline = fastest_pipeline(costs.back());
  if (!pipeline) return {};
  Placement placement(costs, states, layers);
  placement.place(static_cast<int>(levels.size()) - 1, pipeline->stages, {0});
  return PipedreamPlan{pipeline->time, placement.take(), pipeline->compared};
}

}  // namespace stagecraft
