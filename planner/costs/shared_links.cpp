#include "planner/costs/shared_links.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/wide.hpp"

namespace stagecraft {

namespace {

enum class Way { out, in, between };

/// Gives every link a number when it is first asked for.
class Links {
 public:
  Links(const Cluster& cluster, std::optional<int> devices_per_link)
      : cluster_(cluster), devices_per_link_(devices_per_link) {}

  /// What a message from one position to another crosses.
  std::vector<int> between(int from, int to) {
    const Link link = link_of_positions(cluster_, from, to);
    if (link.point_to_point.is_unlimited()) return {};
    for (const LinkOverride& entry : cluster_.overrides) {
      if (entry.from == from && entry.to == to) {
        return {number({Way::between, 0, from, to}, link.point_to_point)};
      }
    }
    int inside = device_count(cluster_);
    int level = 0;
    do {
      inside /= cluster_.levels[static_cast<std::size_t>(level++)].count;
    } while (from / inside == to / inside);
    return {number(key(Way::out, level, inside, from), link.point_to_point),
            number(key(Way::in, level, inside, to), link.point_to_point)};
  }

  const std::vector<Bandwidth>& bandwidths() const { return bandwidths_; }

 private:
  using Key = std::tuple<Way, int, int, int>;  ///< way, level, part, link of it

  /// `level` counts from 1. Where nobody says how many devices are behind a link, they are those of
  /// a box for each of its ports, and more where the level is oversubscribed.
  Key key(Way way, int level, int inside, int device) const {
    const Level& crossed = cluster_.levels[static_cast<std::size_t>(level - 1)];
    const double behind_port =
        std::ceil(cluster_.levels.back().count * crossed.oversubscription / crossed.rails);
    const int usual = static_cast<int>(std::min<double>(inside, behind_port));
    const int behind_one = std::min(devices_per_link_.value_or(usual), inside);
    return {way, level, device / inside, device % inside / behind_one};
  }

  int number(const Key& key, Bandwidth bandwidth) {
    const auto [place, is_new] = numbers_.emplace(key, static_cast<int>(bandwidths_.size()));
    if (is_new) bandwidths_.push_back(bandwidth);
    return place->second;
  }

  const Cluster& cluster_;
  std::optional<int> devices_per_link_;
  std::map<Key, int> numbers_;
  std::vector<Bandwidth> bandwidths_;
};

/// What crosses a link of this bandwidth in this time.
Bytes bytes_in(Duration time, Bandwidth bandwidth) {
  constexpr Wide second = 1'000'000'000;
  const Wide bytes = static_cast<Wide>(time.count()) * bandwidth.bytes_per_second / second;
  return static_cast<Bytes>(std::min<Wide>(bytes, INT64_MAX));
}

/// All links between neighbours on the ring, for as long as the collective takes alone.
Route ring_route(Links& links, std::vector<int> ring, Duration time) {
  std::sort(ring.begin(), ring.end());
  ring.erase(std::unique(ring.begin(), ring.end()), ring.end());
  Route route;
  for (std::size_t i = 0; i < ring.size() && ring.size() > 1; ++i) {
    for (const int link : links.between(ring[i], ring[(i + 1) % ring.size()])) {
      const auto& known = route.links;
      if (std::find(known.begin(), known.end(), link) == known.end()) route.links.push_back(link);
    }
  }
  Bandwidth slowest = Bandwidth::unlimited();
  for (const int link : route.links) {
    slowest = std::min(slowest, links.bandwidths()[static_cast<std::size_t>(link)]);
  }
  if (!route.links.empty()) route.bytes = bytes_in(time, slowest);
  return route;
}

}  // namespace

Network shared_network(const Program& program, const Costs& costs, const std::vector<int>& devices,
                       const Cluster& cluster, const LinkSharing& sharing) {
  if (sharing.devices_per_link && *sharing.devices_per_link < 1) {
    fail_usage("shared links: at least one device is behind a link, not ",
               *sharing.devices_per_link);
  }
  Links links(cluster, sharing.devices_per_link);
  Network network{.links = {}, .sharing = sharing.sharing, .channels = {}, .groups = {}};
  const auto position = [&](int chunk) {
    const int device = program.chunks[static_cast<std::size_t>(chunk)].device;
    return position_of(cluster, devices.at(static_cast<std::size_t>(device)));
  };
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const Channel& channel = program.channels[i];
    Route& route = network.channels.emplace_back();
    const int from = position(channel.from), to = position(channel.to);
    const Bandwidth bandwidth = link_of_positions(cluster, from, to).point_to_point;
    if (transfer_time(channel.bytes, bandwidth) != costs.channels[i].occupancy) continue;
    route = {.links = links.between(from, to), .bytes = channel.bytes};
  }
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    std::vector<int> ring;
    for (const int chunk : program.groups[i].chunks) ring.push_back(position(chunk));
    network.groups.push_back(ring_route(links, std::move(ring), costs.groups[i]));
  }
  network.links = links.bandwidths();
  return network;
}

}  // namespace stagecraft
