#include "planner/relaxations/stage_bounds.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "profiles/index.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

int ceil_divide(int a, int b) {
  return (a + b - 1) / b;
}

/// The end of the exchange of tied weights between the first and the last stage, without the time
/// between them.
Time after_tie(const Head& head, const Beyond& beyond) {
  return beyond.tie == 0 ? 0 : head.fill_and_return + beyond.tie;
}

}  // namespace

void OtherPasses::lower_to(const OtherPasses& other) {
  forward = std::min(forward, other.forward);
  backward = std::min(backward, other.backward);
}

OtherPasses most_of(const OtherPasses& a, const OtherPasses& b) {
  return {std::max(a.forward, b.forward), std::max(a.backward, b.backward)};
}

Time round_trip_gaps(Time forward, Time backward, Time round_trip, int window, int microbatches) {
  const auto gap = [&](Time meanwhile) { return std::max<Time>(round_trip - meanwhile, 0); };
  if (microbatches <= window) return gap((microbatches - 1) * std::min(forward, backward));
  const Time ahead = window - 1;
  const Time trips = (microbatches - 1) / window + 1;
  return gap(ahead * forward) + gap(ahead * backward) +
         (trips - 2) * gap(ahead * (forward + backward));
}

bool has_chain_bounds(const Setting& setting) {
  const auto generate = find_schedule(setting.schedule.name).generate;
  const bool is_known = generate == gpipe || generate == one_f_one_b || generate == interleaved ||
                        generate == zb_h1 || generate == zb_h2;
  return is_known && setting.schedule.virtual_stages == 1;
}

StageBounds::StageBounds(const Space& space, const Setting& setting, int finest)
    : space_(space),
      setting_(setting),
      finest_(finest),
      layers_(space.layers()),
      devices_(setting.depth.value_or(space.devices(setting))),
      most_stages_(space.most_pipeline_devices(setting)),
      most_replicas_(space.most_replicas(setting)),
      all_forwards_first_(find_schedule(setting.schedule.name).generate == gpipe),
      splits_(setting.splits_backward),
      lead_(find_schedule(setting.schedule.name).generate == zb_h2 ? 2 : 1),
      window_counts_devices_(setting.replicas == ReplicaPolicy::round_robin &&
                             setting.schedule.warm_up.empty() &&
                             find_schedule(setting.schedule.name).generate == one_f_one_b),
      warm_up_(setting.schedule.warm_up),
      sums_(space.problem().optimizer, setting.schedule),
      shares_(index(devices_ + 1) * index(most_replicas_ + 1)) {
  time_ties();
  list_last_forwards();
}

void StageBounds::list_last_forwards() {
  const int last = setting_.microbatches - 1;
  last_forward_.assign(index(devices_ + 1), last);
  for (int replicas = 1; replicas <= devices_; ++replicas) {
    last_forward_[index(replicas)] =
        std::min(last - last % replicas, last_forward_[index(replicas - 1)]);
  }
}

/// Lower bound on the exchange of tied weights between these devices and one other; the other stage
/// may have more devices.
Time StageBounds::tie_with(int other, int device, int replicas, Bytes bytes) const {
  std::vector<int> members(index(replicas) + 1, other);
  std::iota(members.begin(), members.end() - 1, device);
  return least_all_reduce_time(space_.cluster(), space_.members(setting_, members), bytes).count();
}

/// For every stage, the tie with the nearest later device; for a stage that ends the model, the tie
/// with the first stage, of which only device 0 is certain.
void StageBounds::time_ties() {
  end_ties_.assign(shares_.size(), 0);
  for (const Tie& tie : space_.problem().profile.model.ties) {
    auto& times = tie_times_.emplace_back(shares_.size(), 0);
    Bytes bytes = std::numeric_limits<Bytes>::max();
    for (int device = 0; device < devices_; ++device) {
      const CostTable& table = space_.whole_microbatch(setting_, device);
      bytes = std::min(bytes, tie_bytes(tie, table, space_.problem().precision));
    }
    const bool joins_ends = tie.owner == 0 && tie.user == layers_ - 1;
    for (int device = 0; device < devices_; ++device) {
      for (int replicas = 1; replicas <= std::min(most_replicas_, devices_ - device); ++replicas) {
        const std::size_t place = index(device) * index(most_replicas_ + 1) + index(replicas);
        Time least = never;
        for (int other = device + replicas; other < devices_; ++other) {
          least = std::min(least, tie_with(other, device, replicas, bytes));
        }
        times[place] = least == never ? 0 : least;
        if (!joins_ends || device == 0) continue;
        end_ties_[place] = std::max(end_ties_[place], tie_with(0, device, replicas, bytes));
      }
    }
  }
}

std::size_t StageBounds::at(int layer, int device, int replicas) const {
  return (index(layer) * index(devices_ + 1) + index(device)) * index(most_replicas_ + 1) +
         index(replicas);
}

/// The groups of a stage's replicas that differ in time or memory.
const std::vector<StageBounds::Share>& StageBounds::shares(int device, int replicas) const {
  auto& shares = shares_[index(device) * index(most_replicas_ + 1) + index(replicas)];
  if (!shares.empty()) return shares;
  for (int replica = 0; replica < replicas; ++replica) {
    const DeviceKind& what = space_.kind(setting_, device + replica);
    const CostTable* table =
        &space_.table(setting_, device + replica, share_of_rows(setting_, replica, replicas));
    const Bytes limit =
        what.memory_unlimited ? std::numeric_limits<Bytes>::max() : usable_memory(what);
    const bool known = std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
      return share.table == table && share.limit == limit;
    });
    if (!known) shares.push_back({table, limit, replica});
  }
  return shares;
}

/// In both directions: the minimum over receivers of the slowest message that each needs for one
/// microbatch. If the senders take different times, the slowest message may come from a sender that
/// was ready earlier; then only the shortest message is certain.
HandOver StageBounds::slowest_needed(int device, int replicas, int next_replicas,
                                     Bytes boundary) const {
  const bool split = setting_.replicas == ReplicaPolicy::split;
  const std::int64_t rows = setting_.microbatch;
  std::vector<HandOver> needed(index(std::max(replicas, next_replicas)));
  HandOver shortest{never, never};
  for (int i = 0; i < replicas; ++i) {
    for (int j = 0; j < next_replicas; ++j) {
      const std::int64_t shared = split ? common_rows(rows, i, replicas, j, next_replicas) : rows;
      if (shared == 0) continue;
      const int to = device + replicas + j;
      const Bytes bytes = share_of_boundary(boundary, shared, rows);
      const Message there = message(space_, setting_, device + i, to, bytes);
      const Message back = message(space_, setting_, to, device + i, bytes);
      const Time there_time = there.latency + there.occupancy;
      const Time back_time = back.latency + back.occupancy;
      shortest = {std::min(shortest.there, there_time), std::min(shortest.back, back_time)};
      needed[index(j)].there = std::max(needed[index(j)].there, there_time);
      needed[index(i)].back = std::max(needed[index(i)].back, back_time);
    }
  }
  if (!split) return shortest;  // a microbatch has one sender and one receiver
  HandOver least{never, never};
  for (int j = 0; j < next_replicas; ++j)
    least.there = std::min(least.there, needed[index(j)].there);
  for (int i = 0; i < replicas; ++i) least.back = std::min(least.back, needed[index(i)].back);
  if (shares(device, replicas).size() > 1) least.there = shortest.there;
  if (shares(device + replicas, next_replicas).size() > 1) least.back = shortest.back;
  return least;
}

HandOver StageBounds::transfer(int device, int replicas, int next_replicas, int cut) const {
  if (transfers_.empty())
    transfers_.assign(index(layers_ + 1) * shares_.size() * index(most_replicas_ + 1), {-1, -1});
  HandOver& known =
      transfers_[at(cut, device, replicas) * index(most_replicas_ + 1) + index(next_replicas)];
  if (known.there >= 0) return known;
  return known = slowest_needed(device, replicas, next_replicas,
                                space_.boundary(setting_, device, cut));
}

/// Maximum number of forwards before the first backward, on one replica.
int StageBounds::window(int stages_left, int device, int replicas) const {
  const int m = setting_.microbatches;
  const bool split = setting_.replicas == ReplicaPolicy::split;
  int window = std::min(lead_ * stages_left - (lead_ - 1), m);
  if (all_forwards_first_) {
    window = m;
  } else if (!warm_up_.empty()) {
    const int stage = static_cast<int>(warm_up_.size()) - stages_left;
    window = stage < 0 ? m : std::min(warm_up_[index(stage)], m);
  } else if (window_counts_devices_) {
    window = std::min((devices_ - device) * finest_, m);
  }
  return split ? window : ceil_divide(window, replicas);
}

/// Least number of microbatches that the replica must hold. Of round-robin replicas, a later one
/// may hold one less than the first.
int StageBounds::in_flight(int stages_left, int replicas, int replica) const {
  const bool is_later = setting_.replicas == ReplicaPolicy::round_robin && replica > 0;
  const int m = setting_.microbatches;
  const int first = window_counts_devices_
                        ? ceil_divide(std::min(replicas + stages_left - 1, m), replicas)
                        : window(stages_left, 0, replicas);
  return is_later ? first - 1 : first;
}

int StageBounds::own_microbatches(int replicas, int replica) const {
  return setting_.replicas == ReplicaPolicy::split
             ? setting_.microbatches
             : ceil_divide(setting_.microbatches - replica, replicas);
}

StageBounds::Pass StageBounds::pass(const CostTable& table, const LayerRange& layers,
                                    Recompute recompute) const {
  const Time forward = table.forward(layers).count();
  const Time again = recompute == Recompute::full ? forward : 0;
  if (!splits_) return {forward, again + table.backward(layers).count(), 0};
  return {forward, again + table.backward_input(layers).count(),
          table.backward_weight(layers).count()};
}

/// Least number of weight gradients left on a replica when its last input gradient has ended: its
/// own, and its lag, `lead_` for each stage in front.
int StageBounds::least_left(int device, int replicas) const {
  const int lag = lead_ * ceil_divide(device, most_replicas_), m = setting_.microbatches;
  if (setting_.replicas == ReplicaPolicy::split) return std::min(lag + 1, m);
  // The replica in front that sends a later replica's last microbatch may have one microbatch less.
  return std::max(std::min(lag / replicas + 1, (m - most_replicas_ + 1) / replicas), 1);
}

int StageBounds::most_left(int device, int replicas, int microbatches) const {
  const int lag = lead_ * device;
  const bool split = setting_.replicas == ReplicaPolicy::split;
  return std::min((split ? lag : lag / replicas) + 1, microbatches);
}

ChunkMemory StageBounds::memory_of(const Share& share, const LayerRange& layers,
                                   int replicas) const {
  const OptimizerChoice& optimizer = space_.problem().optimizer;
  return memory_share(share.table->memory(layers, optimizer.kind), optimizer.sharding,
                      space_.holders(setting_, replicas));
}

/// With or without recomputation, the first replica holds the saved activations of one microbatch.
bool StageBounds::is_too_large(const LayerRange& layers, int device, int replicas) const {
  const Share& first = shares(device, replicas).front();
  const ChunkMemory memory = memory_of(first, layers, replicas);
  const bool computes = first.table->backward_input(layers) > Duration{0};
  return memory.parameters + memory.gradients + memory.optimizer + (computes ? memory.saved : 0) >
         first.limit;
}

bool StageBounds::may_fit(const Share& share, const LayerRange& layers, int device, int replicas,
                          Recompute recompute, int in_flight) const {
  if (share.limit == std::numeric_limits<Bytes>::max()) return true;
  const bool computes = share.table->backward_input(layers) > Duration{0};
  const ChunkMemory memory = memory_of(share, layers, replicas);
  // After all forwards, the weight gradients of finished backwards wait.
  const bool split = setting_.replicas == ReplicaPolicy::split;
  const int waiting = splits_ && split ? std::min(least_left(device, replicas) - 1,
                                                  setting_.microbatches - in_flight)
                                       : 0;
  const FullMoment moment{
      .in_flight = {in_flight}, .waiting = {waiting}, .turn = 0, .splits = splits_};
  return bytes_at(moment, {&memory, 1}, {&recompute, 1}, computes) <= share.limit;
}

/// Lower bound on the time for tied weights after the stage's last backward. The owner of tied
/// weights waits for the user; the opposite direction is not counted.
Time StageBounds::tied(const LayerRange& layers, int device, int replicas) const {
  Time time = 0;
  const auto& ties = space_.problem().profile.model.ties;
  for (std::size_t i = 0; i < ties.size(); ++i) {
    const bool owns = layers.first <= ties[i].owner && ties[i].owner < layers.end;
    if (!owns || ties[i].user < layers.end) continue;
    time =
        std::max(time, tie_times_[i][index(device) * index(most_replicas_ + 1) + index(replicas)]);
  }
  return time;
}

/// Zero if the stage is not behind the one that begins the model.
Time StageBounds::end_tie(int device, int replicas) const {
  return end_ties_[index(device) * index(most_replicas_ + 1) + index(replicas)];
}

Time StageBounds::post(const LayerRange& layers, int device, int replicas) const {
  const Sharding sharding = space_.problem().optimizer.sharding;
  const Holders holders = space_.holders(setting_, replicas);
  Time update = never;
  for (const Share& share : shares(device, replicas)) {
    const Duration own = update_share(share.table->update(layers), sharding, holders);
    update = std::min<Time>(update, own.count());
  }
  Time time = update + tied(layers, device, replicas);
  if (holders.all == 1 || layers.size() == 0) return time;
  std::vector<int> members(index(replicas));
  std::iota(members.begin(), members.end(), device);
  const StageGroups& groups = space_.groups(setting_, members);
  const CostTable& table = *shares(device, replicas).front().table;
  return time + sums_.exposed(table, layers, groups).count() +
         collect_time(groups, sharding, table.parameters(layers)).count();
}

std::optional<StageChoice> StageBounds::choose(const LayerRange& layers, int device, int replicas,
                                               int stages_left) const {
  const auto& all = shares(device, replicas);
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    if (!space_.allows(recompute)) continue;
    const bool fits = std::all_of(all.begin(), all.end(), [&](const Share& share) {
      const int held = in_flight(stages_left, replicas, share.replica);
      return may_fit(share, layers, device, replicas, recompute, held);
    });
    if (!fits) continue;
    StageChoice choice{
        .recompute = recompute, .fill = never, .drain = never, .left = never, .post = 0};
    const Time left = least_left(device, replicas);
    for (const Share& share : all) {
      const Pass pass = this->pass(*share.table, layers, recompute);
      choice.fill = std::min(choice.fill, pass.forward);
      choice.drain = std::min(choice.drain, pass.backward);
      choice.left = std::min(choice.left, left * pass.weight);
    }
    choice.post = post(layers, device, replicas);
    choice.others = others(choice, replicas, most_last_replicas(device, replicas, stages_left));
    return choice;
  }
  return {};
}

int StageBounds::most_last_replicas(int device, int replicas, int stages_left) const {
  return stages_left == 1 ? replicas : devices_ - device - replicas;
}

OtherPasses StageBounds::others(const StageChoice& choice, int replicas, int last_replicas) const {
  if (!all_forwards_first_) return {};
  const int last = setting_.microbatches - 1;
  if (setting_.replicas == ReplicaPolicy::split) return {last * choice.fill, last * choice.drain};
  // Stages of other tensor-parallel degrees may have more replicas than this setting knows.
  if (finest_ > 1 || last_replicas <= 0) return {};
  return {last_forward_[index(last_replicas)] / replicas * choice.fill,
          (own_microbatches(replicas, 0) - 1) * choice.drain};
}

Time StageBounds::bound(const Head& head, const StageChoice& choice, const LayerRange& layers,
                        int device, int replicas, int stages_left, const Beyond& beyond) const {
  const int ahead = window(stages_left, device, replicas);
  const bool split = setting_.replicas == ReplicaPolicy::split;
  const Time tied_after = after_tie(head, beyond);
  Time bound = all_forwards_first_ ? bound_of_ways(head, choice, replicas, beyond) : 0;
  for (const Share& share : shares(device, replicas)) {
    const int microbatches = own_microbatches(replicas, share.replica);
    const auto [forward, backward, weight] = pass(*share.table, layers, choice.recompute);
    // A round-robin replica may have one W more than B to do in that time.
    const Time more = split || replicas == 1 ? 0 : weight;
    const Time gaps =
        round_trip_gaps(forward, backward + weight, beyond.round_trip - more, ahead, microbatches);
    const Time left = most_left(device, replicas, microbatches) * weight;
    const Time load = microbatches * (forward + backward + weight) - left + gaps;
    bound = std::max(
        bound, load + std::max({head.fill + left + choice.post, head.fill_and_drain, tied_after}));
  }
  return bound;
}

/// GPipe's bound: all forwards, then all backwards.
Time StageBounds::bound_of_ways(const Head& head, const StageChoice& choice, int replicas,
                                const Beyond& beyond) const {
  const OtherPasses own =
      beyond.last_replicas > 0 ? others(choice, replicas, beyond.last_replicas) : choice.others;
  const OtherPasses from_here = most_of(own, beyond.others);
  const OtherPasses all = most_of(from_here, head.others);
  const Time first = choice.fill + beyond.round_trip + choice.drain;
  const Time after =
      std::max({head.fill + choice.post, head.fill_and_drain, after_tie(head, beyond)});
  return first + all.forward +
         std::max(from_here.backward + after, all.backward + head.fill_and_return);
}

bool StageBounds::is_too_long(const Head& head, const LayerRange& layers, int device, int replicas,
                              Time limit) const {
  const Time before = std::max(head.fill, head.fill_and_drain);
  for (const Share& share : shares(device, replicas)) {
    const int microbatches = own_microbatches(replicas, share.replica);
    const Pass each = pass(*share.table, layers, Recompute::none);
    const Time left = most_left(device, replicas, microbatches) * each.weight;
    if (before + microbatches * each.whole() - left > limit) return true;
  }
  return false;
}

}  // namespace stagecraft
