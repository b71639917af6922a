// Devices that do the same work at the same times, as replicas do. Drawings of many devices show
// them as one row.

#pragma once

#include <string>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// A timeline with a row for each group of devices that compute the same at the same times.
struct AlikeRows {
  Timeline timeline;  ///< row by row: the group's first device, and its messages
  std::vector<std::vector<int>> members;  ///< of each row, ascending; rows by their first member
  std::vector<char> critical;  ///< by span: that of any member is; empty where nobody asked
};

/// Of the memory of a group, a row has that of the member with the highest peak. `critical` is by
/// span of the timeline, or empty.
AlikeRows alike_rows(const Timeline& timeline, const std::vector<char>& critical = {});

/// "device 5", "devices 0-3"; of more than four runs of numbers the first four and "...".
std::string device_words(const std::vector<int>& devices);

/// Those of all members, ascending; `devices` says what each device of a timeline stands for, and
/// is empty where that is itself.
std::vector<int> devices_of(const std::vector<int>& members,
                            const std::vector<std::vector<int>>& devices);

}  // namespace stagecraft
