#include "executor/weights/weight_shard.hpp"

#include <cstring>

namespace stagecraft {

namespace {

/// Calls copy(element of the part, element of the whole, elements) for each run.
template <class Copy>
void for_each_run(const ParameterSpec& spec, const Copy& copy) {
  std::int64_t done = 0;
  for (const ElementRun& run : runs_of(spec)) {
    copy(done, run.first, run.count);
    done += run.count;
  }
}

}  // namespace

std::vector<ElementRun> runs_of(const ParameterSpec& spec) {
  if (!spec.shard) return {{.first = 0, .count = elements_of(spec.shape)}};
  const WeightShard& shard = *spec.shard;
  const std::int64_t columns = shard.whole.back();
  std::vector<ElementRun> runs;
  if (!shard.columns) {
    for (const auto& [first, end] : shard.ranges) {
      runs.push_back({.first = first * columns, .count = (end - first) * columns});
    }
    return runs;
  }
  for (std::int64_t row = 0; row < elements_of(shard.whole); row += columns) {
    for (const auto& [first, end] : shard.ranges) {
      runs.push_back({.first = row + first, .count = end - first});
    }
  }
  return runs;
}

std::vector<std::int64_t> whole_shape(const ParameterSpec& spec) {
  return spec.shard ? spec.shard->whole : spec.shape;
}

void copy_part(const ParameterSpec& spec, const Tensor& whole, Tensor& part) {
  const std::int64_t size = element_bytes(part.precision);
  for_each_run(spec, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    std::memcpy(part.data<std::byte>() + to * size, whole.data<std::byte>() + from * size,
                static_cast<std::size_t>(count * size));
  });
}

void copy_into_whole(const ParameterSpec& spec, const Tensor& part, Tensor& whole) {
  const std::int64_t size = element_bytes(part.precision);
  for_each_run(spec, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    std::memcpy(whole.data<std::byte>() + to * size, part.data<std::byte>() + from * size,
                static_cast<std::size_t>(count * size));
  });
}

}  // namespace stagecraft
