// Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5): the link
// that can give each of its flows the least gives it to them; what they take elsewhere is taken off
// there; and so on with the flows that are left.
//
//   link A 10 B/s   ━━ x ━━ y ━━        A gives 5 to x and y
//   link B 20 B/s          ━━ y ━━ z    y takes 5 of B, z gets the other 15
//
// Only the links and flows that the change can reach, from flow to link to flow, are looked at:
// the rates of all others are what they would be again.

#include "simulator/engines/events/traffic.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft::events {

namespace {

constexpr std::int64_t billion = 1'000'000'000;

}  // namespace

Traffic::Traffic(const Network& network) : sharing_(network.sharing) {
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    const std::int64_t bandwidth = network.links[i].bytes_per_second;
    if (bandwidth < 1) fail("simulate: link ", i, " has no bandwidth");
    links_.push_back({.bandwidth = bandwidth});
  }
}

void Traffic::begin(int flow, int rank, const Route& route, Bytes bytes, Time now) {
  int slot = static_cast<int>(flows_.size());
  if (free_slots_.empty()) {
    flows_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  flows_[index(slot)] = {.name = flow,
                         .rank = rank,
                         .route = &route,
                         .left = static_cast<Wide>(bytes) * billion,
                         .since = now};
  if (index(flow) >= slot_of_.size()) slot_of_.resize(index(flow) + 1);
  slot_of_[index(flow)] = slot;
  if (sharing_ == Sharing::fifo) {
    arrivals_.push_back(slot);
    return;
  }
  for (const int link : route.links) {
    links_[index(link)].flows.push_back(slot);
    changed_.push_back(link);
  }
}

void Traffic::end(int flow) {
  const int slot = slot_of_[index(flow)];
  for (const int link : flows_[index(slot)].route->links) {
    std::vector<int>& flows = links_[index(link)].flows;
    flows.erase(std::find(flows.begin(), flows.end(), slot));
    changed_.push_back(link);
  }
  flows_[index(slot)].due = never;
  free_slots_.push_back(slot);
}

Time Traffic::due(int flow) const {
  const Flow& state = flows_[index(slot_of_[index(flow)])];
  return state.name == flow ? state.due : never;
}

std::int64_t Traffic::rate(int flow) const {
  return flows_[index(slot_of_[index(flow)])].rate;
}

const std::vector<Traffic::Due>& Traffic::share(Time now) {
  moved_.clear();
  if (sharing_ == Sharing::fair) {
    share_fairly(now);
  } else {
    serve_in_order(now);
  }
  changed_.clear();
  return moved_;
}

/// What it has left now.
Wide Traffic::moved_on(const Flow& flow, Time now) {
  if (flow.rate == 0) return flow.left;
  return std::max<Wide>(0, flow.left - static_cast<Wide>(flow.rate) * (now - flow.since));
}

/// Rounded up. Almost always 64 bits will do, in which a division takes a third of the time.
Time Traffic::time_through(Wide left, std::int64_t rate, Time now) {
  const Wide whole = left + rate - 1;
  const bool fits = whole <= INT64_MAX;
  const Wide due =
      now + (fits ? static_cast<Wide>(static_cast<std::int64_t>(whole) / rate) : whole / rate);
  if (due >= never) fail("simulate: times exceed 292 years");
  return static_cast<Time>(due);
}

void Traffic::set_rate(Flow& flow, std::int64_t rate, Time now) {
  if (rate == flow.rate) return;
  flow.left = moved_on(flow, now);
  flow.since = now;
  flow.rate = rate;
  const Time due = time_through(flow.left, rate, now);
  if (due == flow.due) return;
  flow.due = due;
  moved_.push_back({flow.name, flow.due});
}

// --- Fair ---------------------------------------------------------------------------------------

void Traffic::share_fairly(Time now) {
  gather_affected();
  for (find_tightest(); !tightest_.empty(); find_tightest()) fix_tightest(now);
  for (const int link : affected_links_) links_[index(link)].affected = false;
}

void Traffic::gather_affected() {
  affected_links_.clear();
  const auto add = [&](int link) {
    LinkState& state = links_[index(link)];
    if (state.affected) return;
    state.affected = true;
    state.spare = state.bandwidth;
    state.open = static_cast<int>(state.flows.size());
    state.share = state.open > 1 ? state.spare / state.open : state.spare;
    affected_links_.push_back(link);
  };
  for (const int link : changed_) add(link);
  for (std::size_t next = 0; next < affected_links_.size(); ++next) {
    for (const int slot : links_[index(affected_links_[next])].flows) {
      Flow& flow = flows_[index(slot)];
      if (flow.affected) continue;
      flow.affected = true;
      for (const int link : flow.route->links) add(link);
    }
  }
}

/// The affected links that give the least to each of their flows without a rate, in their order.
void Traffic::find_tightest() {
  tightest_.clear();
  std::int64_t least = INT64_MAX;
  for (const int link : affected_links_) {
    const LinkState& state = links_[index(link)];
    if (state.open == 0 || state.share > least) continue;
    if (state.share < least) tightest_.clear();
    least = state.share;
    tightest_.push_back(link);
  }
  std::sort(tightest_.begin(), tightest_.end());
}

/// What one link fixes never lets another one's share fall, so that all of equal share are found
/// at once; it may let it rise, by what the division left.
void Traffic::fix_tightest(Time now) {
  const std::int64_t least = links_[index(tightest_.front())].share;
  for (const int link : tightest_) {
    const LinkState& state = links_[index(link)];
    if (state.open > 0 && state.share == least) fix_flows(state, now);
  }
}

void Traffic::fix_flows(const LinkState& link, Time now) {
  const std::int64_t rate = std::max<std::int64_t>(1, link.share);
  for (const int slot : link.flows) {
    Flow& flow = flows_[index(slot)];
    if (!flow.affected) continue;
    flow.affected = false;
    for (const int other : flow.route->links) {
      LinkState& state = links_[index(other)];
      state.spare = std::max<std::int64_t>(0, state.spare - rate);
      --state.open;
      if (state.open > 0) state.share = state.open == 1 ? state.spare : state.spare / state.open;
    }
    set_rate(flow, rate, now);
  }
}

// --- First in, first out ------------------------------------------------------------------------

/// Of those that arrive at the same instant, the lower rank comes first.
void Traffic::serve_in_order(Time now) {
  const auto by_rank = [&](int a, int b) { return flows_[index(a)].rank < flows_[index(b)].rank; };
  std::sort(arrivals_.begin(), arrivals_.end(), by_rank);
  for (const int slot : arrivals_) {
    for (const int link : flows_[index(slot)].route->links) {
      links_[index(link)].flows.push_back(slot);
      changed_.push_back(link);
    }
  }
  arrivals_.clear();
  for (const int link : changed_) {
    if (links_[index(link)].flows.empty()) continue;
    const int slot = links_[index(link)].flows.front();
    Flow& flow = flows_[index(slot)];
    const auto is_first = [&](int other) { return links_[index(other)].flows.front() == slot; };
    const std::vector<int>& path = flow.route->links;
    if (flow.rate > 0 || !std::all_of(path.begin(), path.end(), is_first)) continue;
    std::int64_t rate = Bandwidth::unlimited().bytes_per_second;
    for (const int other : path) rate = std::min(rate, links_[index(other)].bandwidth);
    flow.since = now;
    set_rate(flow, rate, now);
  }
}

}  // namespace stagecraft::events
