#include "planner/analysis/changes/cluster.hpp"

#include <algorithm>
#include <cmath>

#include "profiles/index.hpp"
#include "profiles/text.hpp"

namespace stagecraft::what_if {

namespace {

Bandwidth times_as_wide(Bandwidth bandwidth, double factor) {
  const double rate = std::round(static_cast<double>(bandwidth.bytes_per_second) * factor);
  constexpr double most = 1e18;
  return {static_cast<std::int64_t>(std::clamp(rate, 1.0, most))};
}

/// A bandwidth, or a percentage of the one there is.
Bandwidth new_bandwidth(const Change& change, Bandwidth now) {
  const auto part = percentage(change);
  if (!part) return quantity(change, parse_bandwidth);
  if (!(*part > 0)) {
    fail_usage("--set ", change.key, ": expected a percentage above 0%, found \"", change.value,
               "\"");
  }
  if (now.is_unlimited()) {
    fail_usage(
        "--set ", change.key, "=", change.value,
        ": the bandwidth is unlimited, so there is no part of it; give a rate such as 25GB/s");
  }
  return times_as_wide(now, *part);
}

/// Collectives keep their share of the line.
void set_bandwidth(const Change& change, Link& link) {
  const Bandwidth before = link.point_to_point;
  link.point_to_point = new_bandwidth(change, before);
  const bool is_share = !before.is_unlimited() && !link.collective.is_unlimited();
  const double factor = static_cast<double>(link.point_to_point.bytes_per_second) /
                        static_cast<double>(before.bytes_per_second);
  link.collective = is_share ? times_as_wide(link.collective, factor) : link.point_to_point;
}

void set_link(const Change& change, const NumberedKey& key, Cluster& cluster) {
  const int levels = static_cast<int>(cluster.levels.size());
  if (key.number >= levels) {
    if (levels == 0) fail_usage("--set ", change.key, ": the cluster has no links");
    fail_usage("--set ", change.key, ": ", cluster.name, " has link0",
               levels > 1 ? concat(" (outermost) to link", levels - 1) : std::string(" only"));
  }
  Link& link = cluster.levels[index(key.number)].link;
  if (key.rest.empty()) {
    set_bandwidth(change, link);
  } else if (key.rest == "collective") {
    link.collective = new_bandwidth(change, link.collective);
  } else if (key.rest == "latency") {
    link.latency = quantity(change, parse_duration);
  } else {
    fail_unknown("property of a link", key.rest, {"latency", "collective"});
  }
}

SlowDevice slow_device(const Change& change, const NumberedKey& key, const Cluster& cluster) {
  if (key.rest != "slow") {
    fail_usage("--set ", change.key, ": of a device only its slowness can be set: device",
               key.number, ".slow=20%");
  }
  if (key.number >= device_count(cluster)) {
    fail_usage("--set ", change.key, ": ", cluster.name, " has the devices 0 to ",
               device_count(cluster) - 1);
  }
  const auto part = percentage(change);
  if (!part || !(*part >= 0)) {
    fail_usage("--set ", change.key,
               ": expected how much longer it computes, such as 20%, found \"", change.value, "\"");
  }
  return {key.number, change.value};
}

}  // namespace

void set_cluster(const Wishes& wishes, ChangedPlan& changed) {
  Cluster& cluster = changed.loaded.cluster;
  for (const auto& [key, change] : wishes.all()) {
    if (const auto link = numbered_key(key, "link")) {
      set_link(change, *link, cluster);
      changed.changes_cluster = true;
    } else if (const auto device = numbered_key(key, "device")) {
      changed.slow.push_back(slow_device(change, *device, cluster));
    }
  }
  if (changed.changes_cluster && !cluster.overrides.empty()) {
    changed.notes.push_back(
        concat(cluster.overrides.size(),
               " connections that the cluster's file lists one by one stay as they are"));
  }
}

}  // namespace stagecraft::what_if
