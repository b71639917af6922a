#include "executor/checkpoints/slices.hpp"

#include <algorithm>

#include "executor/weights/weight_shard.hpp"

namespace stagecraft {

namespace {

std::vector<ElementRun> runs_of_part(const std::optional<WeightShard>& shard,
                                     const std::vector<std::int64_t>& shape) {
  return runs_of(ParameterSpec{.name = {}, .shape = shape, .initialization = {}, .shard = shard});
}

}  // namespace

std::vector<Run> runs_of(const WeightSlice& slice, const std::vector<std::int64_t>& shape) {
  std::vector<Run> runs;
  std::int64_t before = 0;  // elements of the part
  for (const ElementRun& run : runs_of_part(slice.shard, shape)) {
    const std::int64_t first = std::max(before, slice.first);
    const std::int64_t end = std::min(before + run.count, slice.end);
    if (first < end) runs.push_back({run.first + first - before, first - slice.first, end - first});
    before += run.count;
  }
  std::ranges::sort(runs, {}, &Run::whole);
  return runs;
}

std::vector<Copy> common_elements(const std::vector<Run>& from, const std::vector<Run>& to) {
  std::vector<Copy> copies;
  for (auto a = from.begin(), b = to.begin(); a != from.end() && b != to.end();) {
    const std::int64_t first = std::max(a->whole, b->whole);
    const std::int64_t a_end = a->whole + a->count;
    const std::int64_t b_end = b->whole + b->count;
    const std::int64_t end = std::min(a_end, b_end);
    if (first < end) {
      copies.push_back({a->slice + first - a->whole, b->slice + first - b->whole, end - first});
    }
    a_end < b_end ? ++a : ++b;
  }
  return copies;
}

std::vector<WeightSlice> pieces_of(const WeightSlice& slice, std::int64_t most) {
  std::vector<WeightSlice> pieces;
  for (std::int64_t first = slice.first; first < slice.end; first += most) {
    pieces.push_back({slice.shard, first, std::min(first + most, slice.end)});
  }
  return pieces;
}

std::int64_t elements_of_part(const std::optional<WeightShard>& shard,
                              const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 0;
  for (const ElementRun& run : runs_of_part(shard, shape)) elements += run.count;
  return elements;
}

}  // namespace stagecraft
