// A walk over the devices of a pipeline of equal blocks, choice by choice, which proves that no
// layout is within a limit, or finds the best layout.
//
// If some choices are made, and every other stage takes the least time of any choice left for its
// device, the step (planner/timing/stage_clock.hpp) is a lower bound. Unlike weighted sums of
// paths, it sees that a pipeline repeatedly waits for the slower of two neighbours if these do not
// work in step.
//
//   1. Removal by the clock: single choices, then pairs of choices of neighbours, are removed if
//      this bound is above the limit; so are choices without any pair left, and those in no
//      sequence of pairs that holds all blocks. This repeats, since fewer choices raise the least
//      times of the others.
//   2. Removal by weighted sums of paths (planner/relaxations/block_bound.hpp), of choices and of
//      pairs: the least sum over sequences of compatible neighbours is a dynamic program over
//      (device, item, blocks).
//   3. Depth-first enumeration, device by device, of the choices that are compatible with the one
//      before, pruned by the clock and by the sums. If the clock prunes where no sum does, the
//      critical path becomes one more sum from time to time: a sum prunes faster than the clock,
//      and it respects the total number of blocks.

#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "planner/timing/stage_clock.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// A choice of a device, as the walk sees it.
struct WalkItem {
  int blocks = 0;
  std::vector<StageTimes> stages;  ///< times of the device's stages, in their order
};

class BlockWalk {
 public:
  /// Per device, places in its list of items.
  using Items = std::vector<std::vector<int>>;
  /// Called with the item of each device and the step in nanoseconds.
  using Visit = std::function<void(const std::vector<int>& chosen, double step)>;
  struct Device {
    std::vector<int> stages;
    std::vector<WalkItem> items;
  };

  /// Costs of items along the critical path of a pipeline, as for `weigh`, under which this
  /// pipeline costs more than `most`; and the effort of finding them.
  struct Lesson {
    std::vector<std::vector<double>> costs;  ///< [device][item]
    double most = 0;
    std::int64_t spent = 0;
  };
  using Learn = std::function<Lesson(const std::vector<StageTimes>& stages)>;

  /// The devices have `blocks` blocks together. The clock must outlive it.
  BlockWalk(StageClock& clock, std::vector<Device> devices, int blocks);

  /// The remaining items of each device.
  const Items& left() const { return left_; }
  /// Keeps only these items.
  void keep(Items items);
  /// Keeps only these items, a part of those left; sums that are known stay valid.
  void narrow(Items items) { left_ = std::move(items); }

  /// The remaining items, and the compatible pairs of neighbours.
  struct State {
    Items left;
    std::vector<std::vector<char>> pairs;
  };
  State state() const { return {left_, pairs_}; }
  void restore(State state);

  /// Whether this effort suffices to test all pairs of neighbours.
  bool can_look_at_pairs(std::int64_t effort) const;

  /// Removes items and pairs of neighbours whose bound is above the limit. Returns false if nothing
  /// is left. When the effort is spent it ends early, and has then removed less.
  bool thin_out(double limit, std::int64_t effort, const std::stop_token& stop = {});

  /// Costs of items: [device][item].
  using Costs = std::vector<std::vector<double>>;
  /// A row: one item of each device.
  struct Row {
    double sum = 0;
    std::vector<int> items;
  };
  /// The row of least cost; nothing if that is above `most`. Removes items and pairs that are in no
  /// row of at most `most`. The walk uses these costs for pruning from then on.
  std::optional<Row> weigh(const Costs& costs, double most);
  /// Whether the row's items are left, and neighbours are compatible.
  bool allows(const std::vector<int>& row) const;

  /// Enumerates pipelines within the limit and visits those faster than all before, the fastest
  /// last. Returns false if the effort ran out or a stop was requested.
  bool walk(double limit, std::int64_t effort, const Visit& visit,
            const std::stop_token& stop = {});

  /// Sets the function that turns a pipeline above the limit into costs for pruning.
  void learn_by(Learn learn) { learn_ = std::move(learn); }

  /// Effort used so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }

 private:
  /// Times of all stages.
  using Times = std::vector<StageTimes>;
  /// Whether a number of blocks is possible: [blocks].
  using Counts = std::vector<char>;
  /// Least sums: [device][item][blocks beyond the fewest].
  using Sums = std::vector<std::vector<std::vector<double>>>;
  /// The range of blocks of several devices together.
  struct Range {
    int fewest = 0, most = 0;
    std::size_t size() const { return index(std::max(most - fewest + 1, 0)); }
    bool has(int blocks) const { return fewest <= blocks && blocks <= most; }
  };
  /// Costs that the walk uses for pruning.
  struct Weighed {
    Costs costs;
    Sums after;  ///< least sums of a device with this item and the devices after it
    std::vector<Range> ranges;
    double most = 0;
  };
  /// A candidate for the next device, with the bound on the step.
  struct Open {
    double step = 0;
    int item = 0;
    auto operator<=>(const Open&) const = default;
  };
  using Opens = std::vector<Open>;

  int size() const { return static_cast<int>(devices_.size()); }
  std::size_t count(int device) const { return devices_[index(device)].items.size(); }
  const WalkItem& item(int device, int i) const { return devices_[index(device)].items[index(i)]; }
  char& pair(int device, int i, int next) {
    return pairs_[index(device)][index(i) * count(device + 1) + index(next)];
  }
  bool goes_with(int device, int i, int next) const {
    return pairs_[index(device)][index(i) * count(device + 1) + index(next)] != 0;
  }
  bool is_empty() const;
  std::size_t all_left() const;
  bool is_spent() const { return spent_ > last_ || stop_.stop_requested(); }

  // --- By the clock ---
  void put(int device, int i, Times& times) const;
  void lower(int device, int i, const Times& from, int first, int end, Times& to) const;
  void list_least_before(int device);
  void list_least_after(int device);
  template <class Put>
  std::vector<double> time(std::size_t pipelines, const Put& put);
  void leave_out_singles(double limit);
  void leave_out_pairs(int device, double limit);
  void leave_out_pairs(double limit);
  void list_counts();
  bool can_have_all(int device, int i, const Counts& after, int blocks) const;
  bool leave_out_by_counts();

  // --- By sums ---
  std::vector<Range> ranges_after() const;
  void sum_after(Weighed& weighed);
  Sums sums_before(const Weighed& weighed);
  Row best_row(const Weighed& weighed) const;
  void leave_out_above(const Weighed& weighed, const Sums& before);
  bool is_above(const std::vector<int>& chosen, int i, int rest) const;
  void learn(const Times& times);

  // --- The walk ---
  void list_next(const std::vector<int>& chosen, int have, std::vector<int>& items);
  std::vector<Opens> open_next(std::vector<int>& chosen, int have, const Opens& opens,
                               double limit);
  bool extend(std::vector<int>& chosen, int have, Opens opens, double& limit, const Visit& visit);

  StageClock& clock_;
  std::vector<Device> devices_;
  int blocks_ = 0;
  Items left_;
  std::vector<std::vector<char>> pairs_;  ///< [device][item, item of the next device]
  /// [device][item]: least times of the stages on the devices before it, or after it.
  std::vector<std::vector<Times>> least_before_, least_after_;
  std::vector<std::vector<Counts>> before_, after_;  ///< [device][item]: possible blocks, without
                                                     ///< those of the item
  Times times_;                                      ///< stage times of one pipeline
  std::deque<Weighed> weighed_;                      ///< the latest costs first
  Learn learn_;
  std::int64_t lost_ = 0;    ///< effort lost on timing pipelines above the limit, since the last
                             ///< lesson
  std::int64_t lesson_ = 0;  ///< effort of the last lesson
  std::int64_t spent_ = 0, last_ = 0;
  std::stop_token stop_;
};

}  // namespace stagecraft
