// Which elements of a weight two slices have in common, whatever the shards they are slices of.
//
//   whole     0 1 2 3 4 5 6 7 8 9
//   a slice     ├──────┤              runs: consecutive elements, of the whole and of the slice
//   another         ├──┤  ├──┤        (columns 4-5 and 7-8, say)
//   common          ├──┤

#pragma once

#include <cstdint>
#include <vector>

#include "executor/checkpoints/checkpoint.hpp"

namespace stagecraft {

/// Elements that follow each other both in a whole weight and in a slice of it.
struct Run {
  std::int64_t whole = 0;
  std::int64_t slice = 0;
  std::int64_t count = 0;
  bool operator==(const Run&) const = default;
};

/// Ascending in the whole.
std::vector<Run> runs_of(const WeightSlice& slice, const std::vector<std::int64_t>& shape);

/// Elements that go from one slice to another.
struct Copy {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
  bool operator==(const Copy&) const = default;
};

std::vector<Copy> common_elements(const std::vector<Run>& from, const std::vector<Run>& to);

/// A slice cut into slices of at most so many elements, in order.
std::vector<WeightSlice> pieces_of(const WeightSlice& slice, std::int64_t most);

/// Elements of a part as a shard describes it, or of the whole.
std::int64_t elements_of_part(const std::optional<WeightShard>& shard,
                              const std::vector<std::int64_t>& shape);

}  // namespace stagecraft
