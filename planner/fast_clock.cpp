#include "planner/fast_clock.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// Visits what can be done next, device by device, until nothing is left. An order that gets stuck
/// stays short.
std::vector<Instruction> timed_order(const Schedule& schedule) {
  const auto place = [&](int stage, int microbatch) {
    return index(stage) * index(schedule.microbatches) + index(microbatch);
  };
  std::vector<char> forward(index(schedule.stages) * index(schedule.microbatches));
  std::vector<char> backward(forward.size());
  const auto is_ready = [&](const Instruction& instruction) {
    const auto [op, stage, microbatch] = instruction;
    if (op == Op::forward) return stage == 0 || forward[place(stage - 1, microbatch)] != 0;
    return stage + 1 == schedule.stages || backward[place(stage + 1, microbatch)] != 0;
  };
  std::vector<std::size_t> next(schedule.devices.size());
  std::vector<Instruction> order;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t device = 0; device < next.size(); ++device) {
      const auto& list = schedule.devices[device];
      for (; next[device] < list.size() && is_ready(list[next[device]]); ++next[device]) {
        const Instruction& instruction = list[next[device]];
        auto& done = instruction.op == Op::forward ? forward : backward;
        done[place(instruction.stage, instruction.microbatch)] = 1;
        order.push_back(instruction);
        moved = true;
      }
    }
  }
  return order;
}

bool covers(const FullMoment& a, const FullMoment& b) {
  if (a.turn != b.turn) return false;
  for (std::size_t i = 0; i < a.in_flight.size(); ++i) {
    if (a.in_flight[i] < b.in_flight[i]) return false;
  }
  return true;
}

void keep(std::vector<FullMoment>& moments, const FullMoment& moment) {
  for (const FullMoment& other : moments) {
    if (covers(other, moment)) return;
  }
  std::erase_if(moments, [&](const FullMoment& other) { return covers(moment, other); });
  moments.push_back(moment);
}

/// Every backward of the device's first replica, with what is in flight when it begins.
std::vector<FullMoment> full_moments(const std::vector<Instruction>& order, int devices, int turns,
                                     int stride) {
  std::vector<FullMoment> moments;
  FullMoment now{.in_flight = std::vector<int>(index(turns)), .turn = 0};
  for (const Instruction& instruction : order) {
    if (instruction.microbatch % stride != 0) continue;
    now.turn = instruction.stage / devices;
    int& count = now.in_flight[index(now.turn)];
    if (instruction.op == Op::forward) {
      ++count;
      continue;
    }
    keep(moments, now);
    --count;
  }
  return moments;
}

}  // namespace

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

Message message(const Space& space, int from, int to, Bytes bytes) {
  const Link link = message_link(space.book().profile(), space.cluster(), from, to);
  return {.latency = link.latency.count(),
          .occupancy = transfer_time(bytes, link.point_to_point).count()};
}

Bytes bytes_at(const FullMoment& moment, const std::vector<ChunkMemory>& stages,
               const std::vector<Recompute>& recompute, bool computes) {
  Bytes bytes = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const ChunkMemory& stage = stages[i];
    const Bytes kept = recompute[i] == Recompute::none ? stage.saved : 0;
    bytes += stage.parameters + stage.gradients + stage.optimizer;
    if (computes) bytes += moment.in_flight[i] * (stage.input + kept);
  }
  const ChunkMemory& current = stages[index(moment.turn)];
  const Bytes rebuilt = recompute[index(moment.turn)] == Recompute::full ? current.saved : 0;
  // The gradients that come in and go out live during the backward, too.
  return computes ? bytes + rebuilt + current.workspace + current.output + current.input : bytes;
}

FastClock::FastClock(const Space& space, const Setting& setting)
    : space_(space), setting_(setting) {}

const TimedOrder* FastClock::order_for(const std::vector<int>& replicas) {
  // Under `split` an order depends on the number of pipeline devices only.
  const bool split = setting_.replicas == ReplicaPolicy::split;
  const std::vector<int> key = split ? std::vector<int>(replicas.size(), 1) : replicas;
  const auto known = orders_.find(key);
  if (known != orders_.end()) return known->second ? &*known->second : nullptr;
  std::optional<TimedOrder> timed;
  if (const auto schedule = space_.schedule(setting_, key)) {
    timed.emplace();
    timed->order = timed_order(*schedule);
    const int devices = static_cast<int>(replicas.size());
    for (std::size_t d = 0; d < schedule->devices.size(); ++d) {
      timed->moments.push_back(full_moments(schedule->devices[d], devices,
                                            schedule->stages / devices, split ? 1 : key[d]));
    }
  }
  const auto& kept = orders_.emplace(key, std::move(timed)).first->second;
  return kept ? &*kept : nullptr;
}

void FastClock::place(const Layout& layout) {
  chunks_.clear();
  first_chunk_.clear();
  const int devices = layout.pipeline_devices();
  std::vector<int> first_device(index(devices));
  std::exclusive_scan(layout.replicas.begin(), layout.replicas.end(), first_device.begin(), 0);
  for (int stage = 0; stage < layout.stages(); ++stage) {
    first_chunk_.push_back(static_cast<int>(chunks_.size()));
    const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
    const int replicas = layout.replicas[index(stage % devices)];
    const bool recomputes = layout.recompute[index(stage)] == Recompute::full;
    for (int replica = 0; replica < replicas; ++replica) {
      const int device = first_device[index(stage % devices)] + replica;
      const CostTable& table =
          space_.book().table(space_.cluster().devices[index(device)], setting_.microbatch,
                              share_of_rows(setting_, replica, replicas));
      const std::int64_t forward = table.forward(layers).count();
      const std::int64_t backward = table.backward(layers).count();
      chunks_.push_back({.device = device,
                         .forward = forward,
                         .backward = backward + (recomputes ? forward : 0),
                         .update = table.update(layers).count(),
                         .last_backward = 0});
    }
  }
  first_chunk_.push_back(static_cast<int>(chunks_.size()));
}

void FastClock::connect(const Layout& layout) {
  forward_.assign(chunks_.size(), {});
  backward_.assign(chunks_.size(), {});
  const bool split = setting_.replicas == ReplicaPolicy::split;
  const std::int64_t rows = setting_.microbatch;
  for (int stage = 0; stage + 1 < layout.stages(); ++stage) {
    const int a0 = first_chunk_[index(stage)], b0 = first_chunk_[index(stage) + 1];
    const int b1 = first_chunk_[index(stage) + 2];
    const int kind = space_.cluster().devices[index(chunks_[index(a0)].device)];
    const Bytes boundary =
        space_.book().table(kind, rows, rows).crossing(layout.cuts[index(stage) + 1]);
    for (int a = a0; a < b0; ++a) {
      for (int b = b0; b < b1; ++b) {
        const std::int64_t shared =
            split ? common_rows(rows, a - a0, b0 - a0, b - b0, b1 - b0) : rows;
        const int from = chunks_[index(a)].device, to = chunks_[index(b)].device;
        if (from == to) {
          forward_[index(a)].push_back({.to = b});
          backward_[index(b)].push_back({.to = a});
          continue;
        }
        // One pipeline device with several stages hands on to its own counterpart only.
        if (shared == 0 || layout.pipeline_devices() == 1) continue;
        const Bytes bytes = share_of_boundary(boundary, shared, rows);
        const Message there = message(space_, from, to, bytes);
        const Message back = message(space_, to, from, bytes);
        forward_[index(a)].push_back({b, there.latency, there.occupancy, 0});
        backward_[index(b)].push_back({a, back.latency, back.occupancy, 0});
      }
    }
  }
}

void FastClock::run(const Layout& layout, const TimedOrder& timed) {
  const bool split = setting_.replicas == ReplicaPolicy::split;
  const auto m = index(setting_.microbatches);
  ready_forward_.assign(chunks_.size() * m, 0);
  ready_backward_.assign(chunks_.size() * m, 0);
  free_.assign(index(std::accumulate(layout.replicas.begin(), layout.replicas.end(), 0)), 0);
  for (const auto& [op, stage, microbatch] : timed.order) {
    const bool goes_forward = op == Op::forward;
    auto& ready = goes_forward ? ready_forward_ : ready_backward_;
    const int first = first_chunk_[index(stage)], end = first_chunk_[index(stage) + 1];
    const int step = split ? 1 : end - first;
    for (int c = split ? first : first + microbatch % step; c < end; c += step) {
      Chunk& chunk = chunks_[index(c)];
      std::int64_t& free = free_[index(chunk.device)];
      free = std::max(free, ready[index(c) * m + index(microbatch)]) +
             (goes_forward ? chunk.forward : chunk.backward);
      if (!goes_forward) chunk.last_backward = free;
      for (Channel& channel : goes_forward ? forward_[index(c)] : backward_[index(c)]) {
        const int next_first = first_chunk_[index(stage + (goes_forward ? 1 : -1))];
        const int next_end = first_chunk_[index(stage + (goes_forward ? 1 : -1)) + 1];
        if (!split && microbatch % (next_end - next_first) != channel.to - next_first) continue;
        channel.free = std::max(free, channel.free) + channel.occupancy;
        std::int64_t& arrival = ready[index(channel.to) * m + index(microbatch)];
        arrival = std::max(arrival, channel.free + channel.latency);
      }
    }
  }
}

/// When each chunk's gradient is complete.
std::vector<std::int64_t> FastClock::reduced(const Layout& layout) const {
  std::vector<std::int64_t> complete;
  for (const Chunk& chunk : chunks_) complete.push_back(chunk.last_backward);
  const auto meet = [&](const std::vector<int>& members, Bytes bytes) {
    std::vector<int> devices;
    std::int64_t start = 0;
    for (const int member : members) {
      devices.push_back(chunks_[index(member)].device);
      start = std::max(start, complete[index(member)]);
    }
    const Link link = group_link(space_.cluster(), devices);
    const auto end = start + all_reduce_time(link, static_cast<int>(devices.size()), bytes).count();
    for (const int member : members) complete[index(member)] = end;
  };
  const auto members_of = [&](int stage) {
    std::vector<int> members(index(first_chunk_[index(stage) + 1] - first_chunk_[index(stage)]));
    std::iota(members.begin(), members.end(), first_chunk_[index(stage)]);
    return members;
  };
  const auto table_of = [&](int stage, std::int64_t rows) -> const CostTable& {
    const int device = chunks_[index(first_chunk_[index(stage)])].device;
    return space_.book().table(space_.cluster().devices[index(device)], setting_.microbatch, rows);
  };
  for (int stage = 0; stage < layout.stages(); ++stage) {
    const std::vector<int> members = members_of(stage);
    if (members.size() < 2) continue;
    const std::int64_t rows = share_of_rows(setting_, 0, static_cast<int>(members.size()));
    meet(members, table_of(stage, rows)
                      .gradients({layout.cuts[index(stage)], layout.cuts[index(stage) + 1]}));
  }
  const auto stage_of = [&](int layer) {
    const auto& cuts = layout.cuts;
    return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), layer) - cuts.begin()) - 1;
  };
  for (const Tie& tie : space_.problem().profile.model.ties) {
    const int owner = stage_of(tie.owner), user = stage_of(tie.user);
    if (owner % layout.pipeline_devices() == user % layout.pipeline_devices()) continue;
    std::vector<int> members = members_of(owner);
    const std::vector<int> users = members_of(user);
    members.insert(members.end(), users.begin(), users.end());
    const CostTable& table = table_of(owner, setting_.microbatch);
    meet(members, tie_bytes(tie, table, space_.problem().precision));
  }
  return complete;
}

/// Updates stand at the end of their device's compute; later stages of a device finish first.
std::int64_t FastClock::finish(const Layout& layout) {
  const std::vector<std::int64_t> complete = reduced(layout);
  std::int64_t last = 0;
  for (int c = static_cast<int>(chunks_.size()) - 1; c >= 0; --c) {
    const Chunk& chunk = chunks_[index(c)];
    std::int64_t& free = free_[index(chunk.device)];
    free = std::max(free, complete[index(c)]) + chunk.update;
    last = std::max(last, free);
  }
  return last;
}

std::int64_t FastClock::step(const Layout& layout) {
  const TimedOrder* timed = order_for(layout.replicas);
  if (timed == nullptr) return std::numeric_limits<std::int64_t>::max();
  place(layout);
  connect(layout);
  run(layout, *timed);
  return finish(layout);
}

bool FastClock::may_fit(const Layout& layout, int pipeline_device) {
  const TimedOrder* timed = order_for(layout.replicas);
  if (timed == nullptr) return false;
  const int devices = layout.pipeline_devices();
  const int replicas = layout.replicas[index(pipeline_device)];
  const int first =
      std::accumulate(layout.replicas.begin(), layout.replicas.begin() + pipeline_device, 0);
  for (int replica = 0; replica < replicas; ++replica) {
    // Replicas that take turns: the first one has the most to hold.
    if (replica > 0 && setting_.replicas == ReplicaPolicy::round_robin) break;
    const int kind_index = space_.cluster().devices[index(first + replica)];
    const DeviceKind& kind = space_.cluster().kinds[index(kind_index)];
    if (kind.memory_unlimited) continue;
    const CostTable& table = space_.book().table(kind_index, setting_.microbatch,
                                                 share_of_rows(setting_, replica, replicas));
    std::vector<ChunkMemory> stages;
    std::vector<Recompute> recompute;
    std::vector<char> computes;
    for (int stage = pipeline_device; stage < layout.stages(); stage += devices) {
      const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
      stages.push_back(table.memory(layers, space_.problem().optimizer.kind));
      recompute.push_back(layout.recompute[index(stage)]);
      // What takes no time never shows: it ends at the instant it begins.
      computes.push_back(table.backward(layers) > Duration{0});
    }
    for (const FullMoment& moment : timed->moments[index(pipeline_device)]) {
      const bool shows = computes[index(moment.turn)] != 0;
      if (bytes_at(moment, stages, recompute, shows) > kind.memory) return false;
    }
  }
  return true;
}

}  // namespace stagecraft
