// The common elements of two slices of a weight, which may be slices of different shards.
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

/// A run: elements that are consecutive both in the whole weight and in the slice.
struct Run {
  std::int64_t whole = 0;
  std::int64_t slice = 0;
  std::int64_t count = 0;
  bool operator==(const Run&) const = default;
};

/// The runs of a slice, ascending in the whole weight.
std::vector<Run> runs_of(const WeightSlice& slice, const std::vector<std::int64_t>& shape);

/// Consecutive elements to copy from one slice to another.
struct Copy {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
  bool operator==(const Copy&) const = default;
};

std::vector<Copy> common_elements(const std::vector<Run>& from, const std::vector<Run>& to);

/// Cuts a slice into slices of at most `most` elements, in order.
std::vector<WeightSlice> pieces_of(const WeightSlice& slice, std::int64_t most);

/// Number of elements of a shard's part, or of the whole weight.
std::int64_t elements_of_part(const std::optional<WeightShard>& shard,
                              const std::vector<std::int64_t>& shape);

}  // namespace stagecraft
