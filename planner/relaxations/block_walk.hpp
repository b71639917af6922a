// A walk over the devices of a pipeline of alike blocks, choice by choice, which proves that
// nothing is within a limit, or finds the best there is.
//
// Where some choices are made, every other stage takes as little as any choice left for its device;
// the step of that (planner/timing/stage_clock.hpp) is a lower bound. It knows what weighted sums
// of paths do not: that a pipeline waits for the slower of two neighbours again and again, where
// they do not work in step.
//
//   1. Single choices, then pairs of choices of neighbours, are left out where this bound is above
//      the limit; and those that are in no pair any more, or in no row of pairs that has all
//      blocks. Again, as long as that goes on: the fewer there are, the more the others take at the
//      least.
//   2. Weighted sums of paths (planner/relaxations/block_bound.hpp) leave out choices and pairs,
//      too: of rows in which all go with the next, the least sum is a dynamic program over (device,
//      item, blocks).
//   3. Depth first, device by device: all choices that go with the one before, unless the clock or
//      the sums rule them out. Where the clock finds too long what no sum does, the critical path
//      is one more sum, now and then: it rules out others in no time, and knows how many blocks
//      there are.

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

/// What a device can have.
struct WalkItem {
  int blocks = 0;
  std::vector<StageTimes> stages;  ///< in the order of its stages
};

class BlockWalk {
 public:
  /// Per device, by their places in the list of items.
  using Items = std::vector<std::vector<int>>;
  /// What each device has, with the step.
  using Visit = std::function<void(const std::vector<int>& chosen, double step)>;
  struct Device {
    std::vector<int> stages;
    std::vector<WalkItem> items;
  };

  /// Costs of items, as `weigh` takes them, such that a pipeline of these stages costs more than
  /// `most`: those of its critical path. The effort that took goes with them.
  struct Lesson {
    std::vector<std::vector<double>> costs;  ///< [device][item]
    double most = 0;
    std::int64_t spent = 0;
  };
  using Learn = std::function<Lesson(const std::vector<StageTimes>& stages)>;

  /// Devices have so many blocks together. The clock outlives it.
  BlockWalk(StageClock& clock, std::vector<Device> devices, int blocks);

  /// What is left of each device.
  const Items& left() const { return left_; }
  /// Leaves out all but these.
  void keep(Items items);
  /// The same, of some of what is left; sums that are known stay so.
  void narrow(Items items) { left_ = std::move(items); }

  /// What is left, and which go with which.
  struct State {
    Items left;
    std::vector<std::vector<char>> pairs;
  };
  State state() const { return {left_, pairs_}; }
  void restore(State state);

  /// Whether so much effort allows to look at all pairs of neighbours.
  bool can_look_at_pairs(std::int64_t effort) const;

  /// Leaves out by neighbours what takes longer than the limit. False if nothing is left. Ends
  /// early, which is right as well, when the effort is spent.
  bool thin_out(double limit, std::int64_t effort, const std::stop_token& stop = {});

  /// Costs of items: [device][item].
  using Costs = std::vector<std::vector<double>>;
  /// A row of items, one of each device.
  struct Row {
    double sum = 0;
    std::vector<int> items;
  };
  /// The row of the least sum, and leaves out what is in no row of at most this sum; nothing if
  /// there is none. The walk will know these costs, too.
  std::optional<Row> weigh(const Costs& costs, double most);
  /// Whether its items are left, and go with each other.
  bool allows(const std::vector<int>& row) const;

  /// Visits pipelines within the limit, each faster than those before, the fastest one last. False
  /// if it was not done by the end of the effort, or when a stop was requested.
  bool walk(double limit, std::int64_t effort, const Visit& visit,
            const std::stop_token& stop = {});

  /// The walk will learn from what it finds to be too long.
  void learn_by(Learn learn) { learn_ = std::move(learn); }

  /// What it has spent so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }

 private:
  /// Of all stages.
  using Times = std::vector<StageTimes>;
  /// Counts of blocks that can be had: [count].
  using Counts = std::vector<char>;
  /// Least sums by blocks: [device][item][blocks beyond the fewest].
  using Sums = std::vector<std::vector<std::vector<double>>>;
  /// Blocks of some devices together.
  struct Range {
    int fewest = 0, most = 0;
    std::size_t size() const { return index(std::max(most - fewest + 1, 0)); }
    bool has(int blocks) const { return fewest <= blocks && blocks <= most; }
  };
  /// What the walk knows of costs.
  struct Weighed {
    Costs costs;
    Sums after;  ///< of a device with this item and those after it
    std::vector<Range> ranges;
    double most = 0;
  };
  /// An item that may be next, and the step that it gives at the least.
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
  /// [device][item]: what stages of the devices before, or after it, take at the least.
  std::vector<std::vector<Times>> least_before_, least_after_;
  std::vector<std::vector<Counts>> before_, after_;  ///< [device][item]: without its own blocks
  Times times_;                                      ///< of one pipeline
  std::deque<Weighed> weighed_;                      ///< the latest
  Learn learn_;
  std::int64_t lost_ = 0;    ///< to timing what was too long, since it last learned
  std::int64_t lesson_ = 0;  ///< what that took
  std::int64_t spent_ = 0, last_ = 0;
  std::stop_token stop_;
};

}  // namespace stagecraft
