// Groups of devices with equal work at equal times, such as replicas. Drawings of many devices show
// a group as one row.

#pragma once

#include <string>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// A timeline with a row for each group of devices with equal compute at equal times.
struct AlikeRows {
  Timeline timeline;  ///< row by row: the group's first device, and its messages
  std::vector<std::vector<int>> members;  ///< members of each row, ascending; rows are sorted by
                                          ///< first member
  std::vector<char> critical;  ///< by span: whether the span of some member is critical; empty if
                               ///< not requested
};

/// A row has the memory of the member with the highest peak. `critical` is by span of the timeline,
/// or empty.
AlikeRows alike_rows(const Timeline& timeline, const std::vector<char>& critical = {});

/// "device 5", "devices 0-3"; for more than four runs of numbers, the first four and "...".
std::string device_words(const std::vector<int>& devices);

/// The devices of all members, ascending; `devices` are those that each device of a timeline stands
/// for; empty: itself.
std::vector<int> devices_of(const std::vector<int>& members,
                            const std::vector<std::vector<int>>& devices);

}  // namespace stagecraft
