// Its search. For pipelines of `width` devices, of which devices/width copies run side by side: a
// dynamic program over states, devices per copy, and how many devices of each server are in use,
// that minimises the slowest stage or transfer; gradients are left out there. What it finds is
// then ranked by `dapple_latency`.

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "planner/baselines/dapple/dapple.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

using Used = std::vector<int>;  ///< devices in use, per server

/// The best pipeline of those that end at a state with these devices in use.
struct Cell {
  int used = 0;  ///< number of `Used`
  double block = 0;
  int from = -1;    ///< the state before the last stage
  int earlier = 0;  ///< devices per copy before it
  int devices = 0;  ///< of the last stage: number of `DappleDevices`
};

/// What can follow a stage.
struct Choice {
  int devices = 0;
  double rate = 0;  ///< of the transfer to it, seconds per byte
};

/// Numbers things in the order in which they turn up.
template <class Thing>
class Numbers {
 public:
  int of(const Thing& thing) {
    const auto [place, is_new] = numbers_.emplace(thing, static_cast<int>(things_.size()));
    if (is_new) things_.push_back(thing);
    return place->second;
  }
  const Thing& operator[](int number) const { return things_[index(number)]; }

 private:
  std::map<Thing, int> numbers_;
  std::vector<Thing> things_;
};

double stage_seconds(const PipedreamStates& states, int from, int to) {
  return states.states[index(to)].compute - (from < 0 ? 0 : states.states[index(from)].compute);
}

/// The program for one width and number of copies.
class PipelineSearch {
 public:
  PipelineSearch(const PipedreamStates& states, const DappleServers& cluster,
                 const DappleBatch& batch, int width, bool straight)
      : states_(states),
        cluster_(cluster),
        batch_(batch),
        width_(width),
        copies_(cluster.devices() / width),
        straight_(straight),
        cells_(index(states.size()) * index(width + 1)) {}

  std::optional<DapplePlan> plan() {
    for (int state = 0; state < states_.size(); ++state) begin(state);
    // Where copies leave devices idle, theirs never looks at a second stage.
    if (width_ * copies_ == cluster_.devices()) {
      for (int used = 2; used <= width_; ++used) {
        for (int state = 1; state < states_.size(); ++state) extend(state, used);
      }
    }
    return best();
  }

 private:
  std::vector<Cell>& cells(int state, int used) {
    return cells_[index(state) * index(width_ + 1) + index(used)];
  }

  void begin(int state) {
    const int most = straight_ ? 1 : width_;
    for (int used = 1; used <= most; ++used) {
      // Empty servers first, one after the other.
      const DappleDevices devices = in_order(used * copies_);
      const double seconds = batch_.scale * stage_seconds(states_, -1, state) / (used * copies_);
      cells(state, used)
          .push_back({.used = used_.of(devices.after()),
                      .block = seconds,
                      .devices = devices_.of(devices)});
    }
  }

  DappleDevices in_order(int need) const {
    DappleDevices devices{Used(index(cluster_.servers)), Used(index(cluster_.servers))};
    for (int& taken : devices.taken) {
      taken = std::min(need, cluster_.devices_each);
      need -= taken;
    }
    return devices;
  }

  void extend(int state, int used) {
    for (const int from : states_.before[index(state)]) {
      const int most = straight_ ? 1 : used - 1;
      for (int machines = 1; machines <= most; ++machines) {
        const double seconds =
            batch_.scale * stage_seconds(states_, from, state) / (machines * copies_);
        const double bytes = 2 * batch_.scale * states_.states[index(from)].output;
        for (const Cell& cell : cells(from, used - machines)) {
          for (const Choice& choice : choices(cell.devices, machines)) {
            const double block = std::max({cell.block, seconds, bytes * choice.rate});
            keep(cells(state, used), {.used = used_after_[index(choice.devices)],
                                      .block = block,
                                      .from = from,
                                      .earlier = used - machines,
                                      .devices = choice.devices});
          }
        }
      }
    }
  }

  void keep(std::vector<Cell>& cells, const Cell& cell) {
    ++compared_;
    const auto known = std::find_if(cells.begin(), cells.end(),
                                    [&](const Cell& other) { return other.used == cell.used; });
    if (known == cells.end()) {
      cells.push_back(cell);
    } else if (cell.block < known->block) {
      *known = cell;
    }
  }

  /// What can come after the devices of a stage. Every copy takes its own by a policy of its own.
  const std::vector<Choice>& choices(int devices, int machines) {
    const auto place = index(devices) * index(width_) + index(machines);
    if (choices_.size() <= place) choices_.resize(place + 1);
    if (!choices_[place]) choices_[place] = find_choices(devices_[devices], machines);
    return *choices_[place];
  }

  /// By value: more are added to the table that it comes from.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  std::vector<Choice> find_choices(DappleDevices last, int machines) {
    const Used taken = last.after();
    std::set<Used> reached{taken};
    for (int copy = 0; copy < copies_; ++copy) {
      std::set<Used> next;
      for (const Used& before : reached) {
        for (const DappleDevices& devices : dapple_choices(cluster_, before, machines)) {
          next.insert(devices.after());
        }
      }
      reached = std::move(next);
    }
    std::vector<Choice> choices;
    for (const Used& after : reached) {
      DappleDevices devices{taken, after};
      for (std::size_t s = 0; s < taken.size(); ++s) devices.taken[s] -= taken[s];
      choices.push_back({devices_.of(devices), dapple_transfer(last, devices)});
      used_after_.resize(std::max(used_after_.size(), index(choices.back().devices) + 1));
      used_after_[index(choices.back().devices)] = used_.of(after);
    }
    return choices;
  }

  std::optional<DapplePlan> best() {
    int state = states_.size() - 1;
    int width = width_;
    const std::vector<Cell>& ends = cells(state, width);
    const auto end = std::min_element(
        ends.begin(), ends.end(), [](const Cell& a, const Cell& b) { return a.block < b.block; });
    if (end == ends.end()) return {};
    DapplePlan plan;
    for (const Cell* cell = &*end;;) {
      plan.stages.insert(plan.stages.begin(), {cell->from + 1, state + 1, devices_[cell->devices]});
      if (cell->from < 0) break;
      state = cell->from;
      width = cell->earlier;
      const int used = used_.of(devices_[cell->devices].before);
      const std::vector<Cell>& before = cells(state, width);
      cell = &*std::find_if(before.begin(), before.end(),
                            [&](const Cell& other) { return other.used == used; });
    }
    plan.latency = dapple_latency(states_, batch_, copies_, end->block, plan.stages);
    plan.compared = compared_;
    return plan;
  }

  const PipedreamStates& states_;
  const DappleServers& cluster_;
  const DappleBatch& batch_;
  int width_;
  int copies_;
  bool straight_;
  std::vector<std::vector<Cell>> cells_;  ///< by state and devices per copy
  Numbers<Used> used_;
  Numbers<DappleDevices> devices_;
  std::vector<int> used_after_;                              ///< by devices
  std::vector<std::optional<std::vector<Choice>>> choices_;  ///< by devices and machines
  std::int64_t compared_ = 0;
};

/// Keeps the better plan in `best`, and counts.
void consider(DapplePlan& best, const std::optional<DapplePlan>& plan) {
  if (!plan) return;
  const std::int64_t compared = best.compared + plan->compared;
  if (best.stages.empty() || plan->latency < best.latency) best = *plan;
  best.compared = compared;
}

/// Two stages on all devices, wherever cut. Here transfers count once, not twice.
void consider_two_stages(DapplePlan& best, const PipedreamStates& states,
                         const DappleServers& cluster, const DappleBatch& batch) {
  const int last = states.size() - 1;
  for (int devices = 1; devices < cluster.devices(); ++devices) {
    for (const DappleDevices& first :
         dapple_choices(cluster, Used(index(cluster.servers)), devices)) {
      for (const DappleDevices& second :
           dapple_choices(cluster, first.after(), cluster.devices() - devices)) {
        for (int state = 0; state < last; ++state) {
          const double bytes = batch.scale * states.states[index(state)].output;
          const double block =
              std::max({batch.scale * stage_seconds(states, -1, state) / first.count(),
                        batch.scale * stage_seconds(states, state, last) / second.count(),
                        bytes * dapple_transfer(first, second)});
          DapplePlan plan{.stages = {{0, state + 1, first}, {state + 1, last + 1, second}},
                          .compared = 1};
          plan.latency = dapple_latency(states, batch, 1, block, plan.stages);
          consider(best, plan);
        }
      }
    }
  }
}

}  // namespace

std::optional<DapplePlan> dapple_plan(const PipedreamStates& states, const DappleServers& cluster,
                                      const DappleBatch& batch, bool straight) {
  DapplePlan best;
  const int devices = cluster.devices();
  for (int width = 2; width <= devices && !straight; ++width) {
    consider(best, PipelineSearch(states, cluster, batch, width, false).plan());
  }
  if (devices > 2 && devices % 2 == 0 && !straight) {
    consider(best, PipelineSearch(states, cluster, batch, 2, true).plan());
  }
  consider(best, PipelineSearch(states, cluster, batch, devices, true).plan());
  if (!straight) consider_two_stages(best, states, cluster, batch);
  if (best.stages.empty() || best.latency == std::numeric_limits<double>::infinity()) return {};
  best.speedup = batch.scale * states.states.back().compute / best.latency;
  return best;
}

}  // namespace stagecraft
