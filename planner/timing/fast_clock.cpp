#include "planner/timing/fast_clock.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "profiles/index.hpp"

namespace stagecraft {

std::int64_t share_of_rows(const Setting& setting, int replica, int replicas) {
  const std::int64_t rows = setting.microbatch;
  if (setting.replicas == ReplicaPolicy::round_robin) return rows;
  return rows * (replica + 1) / replicas - rows * replica / replicas;
}

std::int64_t common_rows(std::int64_t rows, int i, int of_i, int j, int of_j) {
  const std::int64_t first = std::max(rows * i / of_i, rows * j / of_j);
  const std::int64_t end = std::min(rows * (i + 1) / of_i, rows * (j + 1) / of_j);
  return std::max<std::int64_t>(end - first, 0);
}

Bytes share_of_boundary(Bytes boundary, std::int64_t rows, std::int64_t all) {
  return boundary / all * rows + boundary % all * rows / all;
}

Message message(const Space& space, const Setting& setting, int from, int to, Bytes bytes) {
  const Link link = space.message_link(setting, from, to);
  return {.latency = link.latency.count(),
          .occupancy = transfer_time(bytes, link.point_to_point).count()};
}

std::int64_t instructions_of(const Setting& setting, const Layout& layout) {
  const bool split = setting.replicas == ReplicaPolicy::split;
  const int chunks = std::accumulate(layout.replicas.begin(), layout.replicas.end(), 0) *
                     setting.schedule.virtual_stages;
  return std::int64_t{2} * setting.microbatches * (split ? chunks : layout.stages());
}

std::vector<Bytes> bytes_over(const Setting& setting, const Candidate& candidate) {
  const std::vector<Stage>& stages = candidate.plan.stages;
  const std::vector<int> leads = lead_devices(candidate.plan);
  const auto depth = static_cast<int>(stages.size()) / std::max(setting.schedule.virtual_stages, 1);
  std::vector<Bytes> over(index(depth));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Bytes& most = over[index(setting.device_of(static_cast<int>(s), depth))];
    for (const std::vector<int>& replica : stages[s].devices) {
      const auto place = std::ranges::lower_bound(leads, replica.front()) - leads.begin();
      most =
          std::max(most, candidate.prediction->peaks[index(static_cast<int>(place))].bytes -
                             candidate.prediction->memory_limits[index(static_cast<int>(place))]);
    }
  }
  return over;
}

std::vector<int> FastClock::Replicas::list() const {
  std::vector<int> chunks(index(count()));
  std::iota(chunks.begin(), chunks.end(), first);
  return chunks;
}

FastClock::FastClock(const Space& space, const Setting& setting)
    : space_(space),
      setting_(setting),
      split_(setting.replicas == ReplicaPolicy::split),
      in_turn_(split_ && setting.drains && setting.placement != StagePlacement::bidirectional),
      sums_(space.problem().optimizer, setting.schedule) {}

std::optional<TimedOrder> FastClock::make_order(const std::vector<int>& replicas) const {
  const auto schedule = space_.schedule(setting_, replicas);
  if (!schedule) return {};
  return time_order(*schedule, split_ ? std::vector<int>(replicas.size(), 1) : replicas);
}

const TimedOrder* FastClock::order_for(const std::vector<int>& replicas) {
  // Under `split` the order depends only on the number of pipeline devices.
  const std::vector<int> key = split_ ? std::vector<int>(replicas.size(), 1) : replicas;
  const auto known = orders_.find(key);
  if (known != orders_.end()) return known->second ? &*known->second : nullptr;
  const auto& order = orders_.emplace(key, make_order(key)).first->second;
  return order ? &*order : nullptr;
}

FastClock::Replicas FastClock::replicas_of(int stage) const {
  return {first_chunk_[index(stage)], first_chunk_[index(stage) + 1]};
}

const CostTable& FastClock::table_of(int chunk, std::int64_t rows) const {
  return space_.table(setting_, chunks_[index(chunk)].device, rows);
}

void FastClock::place(const Layout& layout, const TimedOrder& timed) {
  chunks_.clear();
  first_chunk_.clear();
  const int devices = layout.pipeline_devices();
  std::vector<int> first_device(index(devices));
  std::exclusive_scan(layout.replicas.begin(), layout.replicas.end(), first_device.begin(), 0);
  for (int stage = 0; stage < layout.stages(); ++stage) {
    first_chunk_.push_back(static_cast<int>(chunks_.size()));
    const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
    const int home = setting_.device_of(stage, devices);
    const int replicas = layout.replicas[index(home)];
    const bool recomputes = layout.recompute[index(stage)] == Recompute::full;
    for (int replica = 0; replica < replicas; ++replica) {
      Chunk& chunk = chunks_.emplace_back();
      chunk.device = first_device[index(home)] + replica;
      const CostTable& table = table_of(static_cast<int>(chunks_.size()) - 1,
                                        share_of_rows(setting_, replica, replicas));
      const ChunkCosts costs = table.times(layers, layout.again_of(stage));
      chunk.forward = costs.forward.count();
      chunk.recompute = chunk.forward;
      // Unless the schedule places recomputation, a stage recomputes right before its backward.
      const Time again = recomputes && !timed.places_recompute ? chunk.recompute : 0;
      chunk.backward = again + costs.backward.count();
      chunk.backward_input = again + costs.backward_input.count();
      chunk.backward_weight = costs.backward_weight.count();
      chunk.update = update_share(table.update(layers), space_.problem().optimizer.sharding,
                                  space_.holders(setting_, replicas))
                         .count();
    }
  }
  first_chunk_.push_back(static_cast<int>(chunks_.size()));
}

void FastClock::connect(int from, int to, std::int64_t rows, Bytes boundary) {
  const int sender = chunks_[index(from)].device, receiver = chunks_[index(to)].device;
  const Bytes bytes = share_of_boundary(boundary, rows, setting_.microbatch);
  const Message there = message(space_, setting_, sender, receiver, bytes);
  const Message back = message(space_, setting_, receiver, sender, bytes);
  forward_[index(from)].push_back({to, there.latency, there.occupancy, 0});
  backward_[index(to)].push_back({from, back.latency, back.occupancy, 0});
}

void FastClock::connect(const Layout& layout) {
  forward_.assign(chunks_.size(), {});
  backward_.assign(chunks_.size(), {});
  const int devices = layout.pipeline_devices();
  for (int stage = 0; stage + 1 < layout.stages(); ++stage) {
    const Replicas here = replicas_of(stage), next = replicas_of(stage + 1);
    if (setting_.device_of(stage, devices) == setting_.device_of(stage + 1, devices)) {
      // Each replica sends to its own counterpart.
      for (int i = 0; i < here.count(); ++i) {
        forward_[index(here.first + i)].push_back({next.first + i, 0, 0, 0});
        backward_[index(next.first + i)].push_back({here.first + i, 0, 0, 0});
      }
      continue;
    }
    const Bytes boundary =
        space_.boundary(setting_, chunks_[index(here.first)].device, layout.cuts[index(stage) + 1]);
    for (int i = 0; i < here.count(); ++i) {
      for (int j = 0; j < next.count(); ++j) {
        const std::int64_t rows =
            split_ ? common_rows(setting_.microbatch, i, here.count(), j, next.count())
                   : setting_.microbatch;
        if (rows > 0) connect(here.first + i, next.first + j, rows, boundary);
      }
    }
  }
}

/// Sends the instruction's messages, each to the replica that needs its rows.
void FastClock::hand_on(std::vector<Channel>& channels, const Instruction& instruction, Time when) {
  const bool goes_forward = instruction.op == Op::forward;
  const Replicas receivers =
      channels.empty() ? Replicas{} : replicas_of(instruction.stage + (goes_forward ? 1 : -1));
  std::vector<Time>& ready = goes_forward ? ready_forward_ : ready_backward_;
  for (Channel& channel : channels) {
    const bool concerned =
        split_ || instruction.microbatch % receivers.count() == channel.to - receivers.first;
    if (!concerned) continue;
    channel.free = std::max(when, channel.free) + channel.occupancy;
    Time& arrival =
        ready[index(channel.to) * index(setting_.microbatches) + index(instruction.microbatch)];
    arrival = std::max(arrival, channel.free + channel.latency);
  }
}

void FastClock::perform(const Instruction& instruction, int which) {
  Chunk& chunk = chunks_[index(which)];
  Time& free = free_[index(chunk.device)];
  const std::size_t pass =
      index(which) * index(setting_.microbatches) + index(instruction.microbatch);
  switch (instruction.op) {
    case Op::forward:
      free = std::max(free, ready_forward_[pass]) + chunk.forward;
      hand_on(forward_[index(which)], instruction, free);
      break;
    case Op::backward:
    case Op::backward_input:
      free = std::max(free, ready_backward_[pass]) +
             (instruction.op == Op::backward ? chunk.backward : chunk.backward_input);
      hand_on(backward_[index(which)], instruction, free);
      chunk.last_backward = free;
      break;
    case Op::backward_weight:
      free += chunk.backward_weight;
      chunk.last_backward = free;
      break;
    case Op::recompute: free += chunk.recompute; break;
    case Op::send_activation:
    case Op::receive_activation:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::evict:
    case Op::take_in:
    case Op::give_back:
    case Op::load:
    case Op::send_norm:
    case Op::receive_norm:
    case Op::send_validation:
    case Op::receive_validation:
    case Op::reduce_gradient:
    case Op::reduce_scatter:
    case Op::reduce_tied:
    case Op::reduce_norm:
    case Op::gather_parameters:
    case Op::update: break;  // schedules contain no updates
  }
}

void FastClock::run(const TimedOrder& timed) {
  const std::size_t passes = chunks_.size() * index(setting_.microbatches);
  ready_forward_.assign(passes, 0);
  ready_backward_.assign(passes, 0);
  int devices = 0;
  for (const Chunk& chunk : chunks_) devices = std::max(devices, chunk.device + 1);
  free_.assign(index(devices), 0);
  collectives_free_.assign(index(devices), 0);
  int place = 0;
  for (const Instruction& instruction : timed.order) {
    const Replicas replicas = replicas_of(instruction.stage);
    ++place;
    if (is_backward(instruction.op)) {
      for (int chunk = replicas.first; chunk < replicas.end; ++chunk) {
        chunks_[index(chunk)].place = place;
      }
    }
    if (!split_) {
      perform(instruction, replicas.first + instruction.microbatch % replicas.count());
      continue;
    }
    for (int chunk = replicas.first; chunk < replicas.end; ++chunk) perform(instruction, chunk);
  }
}

std::int64_t FastClock::step(const Layout& layout) {
  const TimedOrder* timed = order_for(layout.replicas);
  if (timed == nullptr) return std::numeric_limits<Time>::max();
  place(layout, *timed);
  connect(layout);
  run(*timed);
  return finish(layout);
}

FastClock::Held FastClock::held_by(const Layout& layout, const TimedOrder& timed,
                                   int pipeline_device, int replica) const {
  const int first =
      std::accumulate(layout.replicas.begin(), layout.replicas.begin() + pipeline_device, 0);
  const DeviceKind& kind = space_.kind(setting_, first + replica);
  Held held;
  if (kind.memory_unlimited) {
    held.usable = std::numeric_limits<Bytes>::max();
    return held;
  }
  held.usable = usable_memory(kind) - (kept_free_.empty() ? 0 : kept_free_[index(pipeline_device)]);
  const int replicas = layout.replicas[index(pipeline_device)];
  const CostTable& table =
      space_.table(setting_, first + replica, share_of_rows(setting_, replica, replicas));
  for (int stage = 0; stage < layout.stages(); ++stage) {
    if (setting_.device_of(stage, layout.pipeline_devices()) != pipeline_device) continue;
    const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
    const OptimizerChoice& optimizer = space_.problem().optimizer;
    held.stages.push_back(memory_share(table.memory(layers, optimizer.kind, layout.again_of(stage)),
                                       optimizer.sharding, space_.holders(setting_, replicas)));
    held.recompute.push_back(timed.places_recompute ? Recompute::full
                                                    : layout.recompute[index(stage)]);
    // A backward that takes no time ends at the instant it begins, so it makes no peak.
    held.computes.push_back(table.times(layers, layout.again_of(stage)).backward_input >
                            Duration{0});
  }
  return held;
}

Bytes FastClock::Held::at(const FullMoment& moment) const {
  return bytes_at(moment, stages, recompute, computes[index(moment.turn)] != 0);
}

bool FastClock::may_fit(const Layout& layout, const TimedOrder& timed, int pipeline_device,
                        int replica) const {
  const Held held = held_by(layout, timed, pipeline_device, replica);
  if (held.stages.empty()) return true;
  return std::ranges::all_of(timed.moments[index(pipeline_device)], [&](const FullMoment& moment) {
    return held.at(moment) <= held.usable;
  });
}

bool FastClock::may_fit(const Layout& layout, int pipeline_device) {
  const TimedOrder* timed = order_for(layout.replicas);
  if (timed == nullptr) return false;
  // Of round-robin replicas, the first one holds the most.
  const int replicas = split_ ? layout.replicas[index(pipeline_device)] : 1;
  for (int replica = 0; replica < replicas; ++replica) {
    if (!may_fit(layout, *timed, pipeline_device, replica)) return false;
  }
  return true;
}

Bytes FastClock::bytes_over(const Layout& layout, int pipeline_device) {
  const TimedOrder* timed = order_for(layout.replicas);
  if (timed == nullptr) return std::numeric_limits<Bytes>::max();
  const int replicas = split_ ? layout.replicas[index(pipeline_device)] : 1;
  Bytes over = std::numeric_limits<Bytes>::min();
  for (int replica = 0; replica < replicas; ++replica) {
    const Held held = held_by(layout, *timed, pipeline_device, replica);
    if (held.stages.empty()) continue;
    for (const FullMoment& moment : timed->moments[index(pipeline_device)]) {
      over = std::max(over, held.at(moment) - held.usable);
    }
  }
  return over;
}

}  // namespace stagecraft
