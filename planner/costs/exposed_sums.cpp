#include "planner/costs/exposed_sums.hpp"

#include <algorithm>

#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

Bytes usual_gradient_bucket(Framework kernels, std::int64_t holders) {
  constexpr std::int64_t each = 4, fewest = 40'000'000, per_holder = 1'000'000;
  constexpr Bytes of_torch = Bytes{25} << 20;
  switch (kernels) {
    case Framework::megatron: return each * std::max(fewest, per_holder * holders);
    case Framework::torch: return of_torch;
  }
  return of_torch;
}

ExposedSums::ExposedSums(const OptimizerChoice& optimizer, const ScheduleChoice& schedule)
    : optimizer_(optimizer),
      splits_backward_(find_schedule(schedule.name).splits_backward),
      pieces_(schedule.sequence_chunks) {}

Duration ExposedSums::exposed(const CostTable& table, const LayerRange& layers,
                              const StageGroups& groups) {
  if (groups.all.members < 2 && groups.experts.members < 2) return Duration{0};
  if (optimizer_.gradient_bucket == 0 || shards_gradients(optimizer_.sharding)) {
    return sum_time(groups, optimizer_.sharding, table.gradients(layers));
  }
  auto& to_end = known(table, groups).to_end;
  const auto end = static_cast<std::size_t>(layers.end);
  if (to_end.size() <= end) to_end.resize(end + 1);
  if (to_end[end].empty()) to_end[end] = overlapped(table, layers.end, groups);
  return to_end[end][static_cast<std::size_t>(layers.first)];
}

ExposedSums::Known& ExposedSums::known(const CostTable& table, const StageGroups& groups) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& one) {
    return one.table == &table && one.groups == groups;
  });
  if (found != known_.end()) return *found;
  return known_.emplace_back(Known{&table, groups, {}});
}

/// Of the last piece of a microbatch.
Duration ExposedSums::backward_of(const CostTable& table, const LayerRange& layer) const {
  return (splits_backward_ ? table.backward_weight(layer) : table.backward(layer)) / pieces_;
}

std::vector<GradientBucket> ExposedSums::buckets(const CostTable& table,
                                                 const LayerRange& layers) const {
  const bool overlaps = optimizer_.gradient_bucket > 0 && !shards_gradients(optimizer_.sharding);
  std::vector<GradientBucket> buckets;
  GradientBucket open{.layers = {layers.end, layers.end}, .backward = {}, .gradients = {}};
  for (int first = layers.end - 1; first >= layers.first; --first) {
    const LayerRange layer{first, first + 1};
    const WithExperts<Bytes> gradients = table.gradients(layer);
    open.layers.first = first;
    open.backward += backward_of(table, layer);
    open.gradients.all += gradients.all;
    open.gradients.experts += gradients.experts;
    const bool closes = overlaps && open.gradients.all >= optimizer_.gradient_bucket;
    if (!closes && first > layers.first) continue;
    buckets.push_back(open);
    open = {.layers = {first, first}, .backward = {}, .gradients = {}};
  }
  return buckets;
}

/// Of the layers up to `end`, by the first of them.
std::vector<Duration> ExposedSums::overlapped(const CostTable& table, int end,
                                              const StageGroups& groups) const {
  std::vector<Duration> left(static_cast<std::size_t>(end));
  Duration backward{0};  // when that of layer `first` ends
  Duration closed{0};    // when all closed buckets are through
  WithExperts<Bytes> open;
  for (int first = end - 1; first >= 0; --first) {
    const LayerRange layer{first, first + 1};
    backward += backward_of(table, layer);
    const WithExperts<Bytes> gradients = table.gradients(layer);
    open.all += gradients.all;
    open.experts += gradients.experts;
    Duration through = closed;
    if (open.all > 0) {
      through = std::max(closed, backward) + sum_time(groups, optimizer_.sharding, open);
    }
    left[static_cast<std::size_t>(first)] = std::max(through - backward, Duration{0});
    if (open.all < optimizer_.gradient_bucket) continue;
    closed = through;
    open = {};
  }
  return left;
}

}  // namespace stagecraft
