// The versions of a chunk's weights, by pointer: each is made once, where it stays until nobody
// reads it, and is never copied.
//
//   version     0   1   2   3   4      an update makes a version from the newest: in its place if
//   slot        0   1   2   0   1      all who read that have done so, else in a slot that is free

#pragma once

#include <span>
#include <vector>

#include "executor/values/tensor.hpp"
#include "simulator/values/program.hpp"

namespace stagecraft {

/// Per version of the chunk's weights, 0 first: the updates before the last work that reads it, in
/// the order in which the chunk's device computes.
std::vector<int> updates_before_last_reader(const Program& program, int chunk);

/// Where each version is kept, by what is above.
std::vector<int> slots_of_versions(std::span<const int> updates_before_last_reader);

class WeightVersions {
 public:
  /// All weights of a chunk.
  using Weights = std::vector<Tensor>;

  explicit WeightVersions(std::vector<int> slot_of_version);

  /// Slots to be filled: version 0 is in the first.
  std::vector<Weights>& slots() { return slots_; }
  Weights& at(int version) { return slots_[slot(version)]; }
  int newest() const { return static_cast<int>(slot_of_version_.size()) - 1; }
  /// The program begins again: its newest version is version 0 now.
  void begin_again();

 private:
  std::size_t slot(int version) const {
    return static_cast<std::size_t>(slot_of_version_[static_cast<std::size_t>(version)]);
  }

  std::vector<int> slot_of_version_;
  std::vector<Weights> slots_;
};

}  // namespace stagecraft
