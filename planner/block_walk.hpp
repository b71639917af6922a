// A walk over the devices of a pipeline of alike blocks, choice by choice, which proves that nothing
// is within a limit, or finds the best there is.
//
// Where some choices are made, every other stage takes as little as any choice left for its device;
// the step of that (planner/stage_clock.hpp) is a lower bound. It knows what weighted sums of paths
// do not: that a pipeline waits for the slower of two neighbours again and again, where they do not
// work in step.
//
//   1. Single choices, then pairs of choices of neighbours, are left out where this bound is above
//      the limit; and those that are in no pair any more, or in no row of pairs that has all blocks.
//      Again, as long as that goes on: the fewer there are, the more the others take at the least.
//   2. Depth first, device by device: all choices that go with the one before.

#pragma once

#include <functional>
#include <limits>
#include <stop_token>
#include <vector>

#include "planner/stage_clock.hpp"

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

  /// Devices have so many blocks together. The clock outlives it.
  BlockWalk(StageClock& clock, std::vector<Device> devices, int blocks);

  /// What is left of each device.
  const Items& left() const { return left_; }
  /// Starts again from these.
  void keep(Items items);

  /// Leaves out by neighbours what takes longer than the limit. False if nothing is left. Ends
  /// early, which is right as well, when the effort is spent.
  bool thin_out(double limit, std::int64_t effort, const std::stop_token& stop = {});

  /// Visits pipelines within the limit, each faster than those before, the fastest one last. False
  /// if it was not done by the end of the effort, or when a stop was requested.
  bool walk(double limit, std::int64_t effort, const Visit& visit, const std::stop_token& stop = {});

  /// What it has spent so far, in steps of about ten nanoseconds.
  std::int64_t spent() const { return spent_; }

 private:
  /// Of all stages.
  using Times = std::vector<StageTimes>;
  /// Counts of blocks that can be had: [count].
  using Counts = std::vector<char>;
  /// Some of the items of a device, with the steps they give.
  struct Steps {
    std::vector<int> items;
    std::vector<double> steps;
  };

  std::size_t count(int device) const { return devices_[at(device)].items.size(); }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  const WalkItem& item(int device, int i) const { return devices_[at(device)].items[at(i)]; }
  int size() const { return static_cast<int>(devices_.size()); }
  char& goes_with(int device, int i, int next) {
    return pairs_[at(device)][at(i) * count(device + 1) + at(next)];
  }
  bool is_empty() const;
  std::size_t all_left() const;
  bool is_worth_a_round() const;
  bool is_spent() const { return spent_ > last_ || stop_.stop_requested(); }

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
  bool extend(std::vector<int>& chosen, int have, double& limit, const Visit& visit);

  StageClock& clock_;
  std::vector<Device> devices_;
  int blocks_ = 0;
  Items left_;
  std::vector<std::vector<char>> pairs_;  ///< [device][item, item of the next device]
  /// [device][item]: what stages of the devices before, or after it, take at the least.
  std::vector<std::vector<Times>> least_before_, least_after_;
  std::vector<std::vector<Counts>> before_, after_;  ///< [device][item]: without its own blocks
  Times times_;                                      ///< of one pipeline
  std::int64_t spent_ = 0, last_ = 0;
  std::stop_token stop_;
};

}  // namespace stagecraft
