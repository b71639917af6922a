#include "executor/weights/weight_versions.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {

std::vector<int> updates_before_last_reader(const Program& program, int chunk) {
  std::vector<int> before{0};
  int updates = 0;
  const int device = program.chunks[static_cast<std::size_t>(chunk)].device;
  for (const int i : program.order[static_cast<std::size_t>(device)]) {
    const Work& work = program.work[static_cast<std::size_t>(i)];
    if (work.chunk != chunk || work.lane != Lane::compute) continue;
    if (work.instruction.op == Op::update) {
      before.push_back(++updates);
      continue;
    }
    const auto version = static_cast<std::size_t>(work.weight_version);
    before[version] = std::max(before[version], updates);
  }
  return before;
}

std::vector<int> slots_of_versions(std::span<const int> updates_before_last_reader) {
  std::vector<int> slots{0};
  int count = 1;
  // Made by update number `made`, which comes after all that read versions no longer needed.
  for (std::size_t made = 1; made < updates_before_last_reader.size(); ++made) {
    const auto is_needed = [&](std::size_t version) {
      return updates_before_last_reader[version] >= static_cast<int>(made);
    };
    std::vector<char> taken(static_cast<std::size_t>(count), 0);
    for (std::size_t version = 0; version < made; ++version) {
      if (is_needed(version)) taken[static_cast<std::size_t>(slots[version])] = 1;
    }
    int slot = slots.back();
    if (taken[static_cast<std::size_t>(slot)] != 0) {
      slot = static_cast<int>(std::ranges::find(taken, char{0}) - taken.begin());
    }
    count = std::max(count, slot + 1);
    slots.push_back(slot);
  }
  return slots;
}

WeightVersions::WeightVersions(std::vector<int> slot_of_version)
    : slot_of_version_(std::move(slot_of_version)),
      slots_(static_cast<std::size_t>(std::ranges::max(slot_of_version_)) + 1) {}

void WeightVersions::begin_again() {
  std::swap(slots_.front(), slots_[slot(newest())]);
}

}  // namespace stagecraft
