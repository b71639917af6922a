// The work after the last backwards: sums of gradients, updates, and collection of sharded
// parameters.

#include <algorithm>
#include <numeric>

#include "planner/timing/fast_clock.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

std::vector<int> FastClock::devices_of(const std::vector<int>& members) const {
  std::vector<int> devices;
  for (const int member : members) devices.push_back(chunks_[index(member)].device);
  return devices;
}

const StageGroups& FastClock::groups_of(const std::vector<int>& members) const {
  return space_.groups(setting_, devices_of(members));
}

/// Runs a collective of these chunks, which starts when all of them are ready.
void FastClock::meet(const std::vector<int>& members, Duration time, std::vector<Time>& come) {
  Time start = 0;
  for (const int member : members) start = std::max(start, come[index(member)]);
  for (const int member : members) come[index(member)] = start + time.count();
}

/// If their order is known, the devices' collectives run one after the other.
void FastClock::wait_in_turn(const std::vector<int>& members, std::vector<Time>& come) const {
  if (!in_turn_) return;
  for (const int member : members) {
    const Time free = collectives_free_[index(chunks_[index(member)].device)];
    come[index(member)] = std::max(come[index(member)], free);
  }
}

void FastClock::meet_in_turn(const std::vector<int>& members, Duration time,
                             std::vector<Time>& come) {
  wait_in_turn(members, come);
  meet(members, time, come);
  for (const int member : members) {
    collectives_free_[index(chunks_[index(member)].device)] = come[index(member)];
  }
}

/// Stages in the order of their last backwards, as lowering orders a device's collectives and
/// updates (simulator/lowering/reductions.cpp, updates.cpp).
std::vector<int> FastClock::by_completion() const {
  std::vector<int> stages(first_chunk_.size() - 1);
  std::iota(stages.begin(), stages.end(), 0);
  std::stable_sort(stages.begin(), stages.end(), [&](int a, int b) {
    return chunks_[index(first_chunk_[index(a)])].place <
           chunks_[index(first_chunk_[index(b)])].place;
  });
  return stages;
}

/// Whether the stage's replicas sum its gradients.
bool FastClock::is_summed(const Layout& layout, int stage) const {
  const bool is_empty = layout.cuts[index(stage)] == layout.cuts[index(stage) + 1];
  return space_.holders(setting_, replicas_of(stage).count()).all >= 2 && !is_empty;
}

/// Whether the place of tied weights among the sums is known. With whole backwards, the first
/// stage's last backward is the last of all, so its tied weights are summed after all other sums.
/// Else the nominal run gives the order.
bool FastClock::knows_turns_of_ties(const Layout& layout) const {
  return in_turn_ && setting_.splits_backward && layout.again.empty();
}

/// The end of each stage's last backward in the nominal run by which lowering orders communication
/// (`nominal_time`), if stages recompute right before their backwards.
std::vector<std::int64_t> FastClock::nominal_ends(const Layout& layout) const {
  const TimedOrder& timed = *orders_.at(std::vector<int>(layout.replicas.size(), 1));
  const int devices = layout.pipeline_devices(), stages = layout.stages();
  const std::size_t microbatches = index(setting_.microbatches);
  std::vector<std::int64_t> free(index(devices)), ends(index(stages));
  std::vector<std::int64_t> forward(index(stages) * microbatches), backward(forward.size());
  for (const auto& [op, stage, microbatch] : timed.order) {
    const int device = setting_.device_of(stage, devices);
    const bool goes_back = op == Op::backward || op == Op::backward_input;
    const int from = goes_back ? stage + 1 : stage - 1;
    std::int64_t& end = free[index(device)];
    if ((op == Op::forward || goes_back) && from >= 0 && from < stages) {
      const auto& ready = goes_back ? backward : forward;
      const bool is_here = setting_.device_of(from, devices) == device;
      const std::int64_t message = is_here ? 0 : nominal_time(Op::send_activation);
      end = std::max(end, ready[index(from) * microbatches + index(microbatch)] + message);
    }
    const bool again = goes_back && !timed.places_recompute &&
                       layout.cuts[index(stage)] < layout.cuts[index(stage) + 1] &&
                       layout.recompute[index(stage)] == Recompute::full;
    end += nominal_time(op) + (again ? nominal_time(Op::recompute) : 0);
    const std::size_t pass = index(stage) * microbatches + index(microbatch);
    if (op == Op::forward) forward[pass] = end;
    if (goes_back) backward[pass] = end;
    if (is_backward(op)) ends[index(stage)] = end;
  }
  return ends;
}

/// The sums in the order in which devices run them, as far as it is known.
std::vector<FastClock::Sum> FastClock::sums_in_turn(const Layout& layout) const {
  std::vector<Sum> sums;
  for (const int stage : by_completion()) {
    if (is_summed(layout, stage)) sums.push_back({.stage = stage});
  }
  const auto stage_of = [&](int layer) {
    const auto& cuts = layout.cuts;
    return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), layer) - cuts.begin()) - 1;
  };
  const auto first_tie = std::ssize(sums);
  for (const Tie& tie : space_.problem().profile.model.ties)
    sums.push_back({.tie = &tie, .stage = stage_of(tie.owner), .user = stage_of(tie.user)});
  if (first_tie == std::ssize(sums) || !knows_turns_of_ties(layout)) return sums;
  std::vector<std::int64_t> ends = nominal_ends(layout);
  for (Sum& sum : sums) {
    if (sum.tie == nullptr) {
      sum.start = ends[index(sum.stage)]++;
    } else {
      sum.start = std::max(ends[index(sum.stage)], ends[index(sum.user)]);
      ends[index(sum.stage)] = ends[index(sum.user)] = sum.start + 1;
    }
  }
  // At equal starts, sums of single stages come first, in the order of stages.
  std::sort(sums.begin(), sums.begin() + first_tie,
            [](const Sum& a, const Sum& b) { return a.stage < b.stage; });
  std::ranges::stable_sort(sums, {}, &Sum::start);
  return sums;
}

/// The time at which each chunk's gradient is complete.
std::vector<std::int64_t> FastClock::reduced(const Layout& layout) {
  std::vector<Time> complete;
  for (const Chunk& chunk : chunks_) complete.push_back(chunk.last_backward);
  for (const Sum& sum : sums_in_turn(layout)) {
    if (sum.tie == nullptr) {
      sum_stage(layout, sum.stage, complete);
    } else {
      sum_tied(layout, sum, complete);
    }
  }
  return complete;
}

void FastClock::sum_stage(const Layout& layout, int stage, std::vector<Time>& complete) {
  const Replicas replicas = replicas_of(stage);
  const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
  const std::int64_t rows = share_of_rows(setting_, 0, replicas.count());
  const CostTable& table = table_of(replicas.first, rows);
  const std::vector<int> members = replicas.list();
  meet_in_turn(members, sums_.exposed(table, layers, groups_of(members)), complete);
}

/// Runs the sum of two stages that hold the same weights.
void FastClock::sum_tied(const Layout& layout, const Sum& sum, std::vector<Time>& complete) {
  const int devices = layout.pipeline_devices(), owner = sum.stage, user = sum.user;
  if (setting_.device_of(owner, devices) == setting_.device_of(user, devices))
    return join(owner, user, complete);
  std::vector<int> members = replicas_of(owner).list();
  const std::vector<int> users = replicas_of(user).list();
  members.insert(members.end(), users.begin(), users.end());
  const CostTable& table = table_of(members.front(), setting_.microbatch);
  const Bytes bytes = tie_bytes(*sum.tie, table, space_.problem().precision);
  const DeviceGroup group = space_.group(setting_, devices_of(members));
  const Duration time = collective_time(Collective::all_reduce, group, bytes);
  if (knows_turns_of_ties(layout)) return meet_in_turn(members, time, complete);
  if (owner == 0 && !setting_.splits_backward) wait_in_turn(members, complete);
  meet(members, time, complete);
}

/// Tied stages on one device: both are complete when both gradients are.
void FastClock::join(int owner, int user, std::vector<Time>& complete) const {
  const Replicas owners = replicas_of(owner), users = replicas_of(user);
  for (int i = 0; i < owners.count(); ++i) {
    Time &one = complete[index(owners.first + i)], &other = complete[index(users.first + i)];
    one = other = std::max(one, other);
  }
}

/// Updates run at the end of their device's compute. If their order is unknown, the order of
/// completion is best; with a collection after each, another order may be better, so no update is
/// counted as waiting for another one.
std::int64_t FastClock::finish(const Layout& layout) {
  if (!setting_.trains) return *std::max_element(free_.begin(), free_.end());
  const std::vector<Time> complete = reduced(layout);
  std::vector<int> order(chunks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (in_turn_) return chunks_[index(a)].place < chunks_[index(b)].place;
    return complete[index(a)] < complete[index(b)];
  });
  Time last = 0;
  std::vector<Time> updated(chunks_.size());
  const std::vector<Time> idle = free_;
  for (const int which : order) {
    const int device = chunks_[index(which)].device;
    const Time begin = complete[index(which)], update = chunks_[index(which)].update;
    Time& free = free_[index(device)];
    free = std::max(free, begin) + update;
    last = std::max(last, free);
    updated[index(which)] = in_turn_ ? free : std::max(idle[index(device)], begin) + update;
  }
  collect(layout, updated);
  return std::max(last, *std::max_element(updated.begin(), updated.end()));
}

/// Runs the collection of parameters that the replicas of a stage have updated in shards.
void FastClock::collect(const Layout& layout, std::vector<Time>& updated) {
  const Sharding sharding = space_.problem().optimizer.sharding;
  for (const int stage : by_completion()) {
    const Replicas replicas = replicas_of(stage);
    const Holders holders = space_.holders(setting_, replicas.count());
    const LayerRange layers{layout.cuts[index(stage)], layout.cuts[index(stage) + 1]};
    if (sharding == Sharding::none || holders.all < 2 || layers.size() == 0) continue;
    const std::int64_t rows = share_of_rows(setting_, 0, replicas.count());
    const auto bytes = table_of(replicas.first, rows).parameters(layers);
    const std::vector<int> members = replicas.list();
    meet_in_turn(members, collect_time(groups_of(members), sharding, bytes), updated);
  }
}

}  // namespace stagecraft
