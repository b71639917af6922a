// {
//   "format": "stagecraft-cluster/1",
//   "name": "two boxes",
//   "kinds": [                                // a built-in kind by name, or one described in full
//     "a100",
//     {"name": "gpu", "memory": "24GiB",      // or "unlimited"
//      "flops": {"fp32": 4e13, "bf16": 1.6e14},   // dense peak per second; left out: not supported
//      "memory_bandwidth": "1TB/s",
//      "efficiency": 0.6,                     // of the peak, in large matrix products; 1 if left
//      out "source": "vendor's datasheet",
//      "constants": {"product_rate": 0.8},    // fitted ones for layers of transformers: see
//      kernel_constants.hpp; may be left out, as may any of them
//      "reserve": {"memory": "2GiB", "source": "nvidia-smi"},   // of the memory, for the
//      framework: its context, communication buffers, fragmentation; none if left out
//      "price_per_hour": 2.5}                 // of one device, in any currency; may be left out
//   ],
//   "devices": [                              // in order of position; may be left out with one
//   kind
//     {"kind": "a100", "count": 8}, {"kind": "gpu", "count": 8}
//   ],
//   "levels": [                               // outermost first; the counts multiply to the
//   devices
//     {"count": 2, "link": {"latency": "5us", "point_to_point": "25GB/s", "collective": "20GB/s"},
//      "rails": 8,                            // network ports of each box; 1 if left out
//      "oversubscription": 2},                // the level carries half of what all ports send; 1
//     {"count": 8, "link": {"point_to_point": "300GB/s"}}   // collective: the same; latency: zero
//   ],
//   "overrides": [                            // one direction each; may be left out
//     {"from": 0, "to": 15, "link": {"latency": "50us", "point_to_point": "1GB/s"}}
//   ]
// }

#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiles/cluster.hpp"
#include "profiles/device_names.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/kernel_constants_json.hpp"
#include "profiles/link_json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

using Value = nlohmann::ordered_json;

Link read_link(const Json& json) {
  json.allow_only({"latency", "point_to_point", "collective"});
  Link link;
  if (json.contains("latency")) link.latency = json["latency"].duration();
  link.point_to_point = json["point_to_point"].bandwidth();
  link.collective =
      json.contains("collective") ? json["collective"].bandwidth() : link.point_to_point;
  return link;
}

Value write_link(const Link& link) {
  return {{"latency", exact_duration(link.latency)},
          {"point_to_point", exact_bandwidth(link.point_to_point)},
          {"collective", exact_bandwidth(link.collective)}};
}

namespace {

/// No device comes near it, and sums over a cluster stay finite.
constexpr double most_flops = 1e24;

double read_rate(const Json& flops, std::string_view precision) {
  if (!flops.contains(precision)) return 0;
  const double rate = flops[precision].number();
  if (rate < 0) flops[precision].fail("expected a rate per second, found a negative number");
  if (rate > most_flops) {
    flops[precision].fail(concat("expected a rate of at most ", most_flops, " per second"));
  }
  return rate;
}

DeviceKind read_kind(const Json& json) {
  if (json.is_string()) {
    const std::vector<std::string> known = builtin_device_kinds();
    const std::string name = builtin_device_kind_called(json.string());
    if (std::find(known.begin(), known.end(), name) != known.end())
      return builtin_device_kind(name);
    const std::string suggestion = closest(name, known);
    json.fail("no device kind \"" + name + "\" is built in; known: " + join_words(known) +
              (suggestion.empty() ? "" : "; did you mean \"" + suggestion + "\"?"));
  }
  json.allow_only({"name", "memory", "flops", "memory_bandwidth", "efficiency", "constants",
                   "generic", "source", "reserve", "price_per_hour"});
  DeviceKind kind;
  kind.name = json["name"].string();
  const Json memory = json["memory"];
  kind.memory_unlimited = memory.is_string() && memory.string() == "unlimited";
  if (!kind.memory_unlimited) kind.memory = memory.bytes();
  if (json.contains("flops")) {
    const Json flops = json["flops"];
    flops.allow_only({"fp64", "fp32", "bf16", "fp16", "fp8"});
    kind.flops_fp64 = read_rate(flops, "fp64");
    kind.flops_fp32 = read_rate(flops, "fp32");
    kind.flops_bf16 = read_rate(flops, "bf16");
    kind.flops_fp16 = read_rate(flops, "fp16");
    kind.flops_fp8 = read_rate(flops, "fp8");
  }
  if (json.contains("memory_bandwidth"))
    kind.memory_bandwidth = json["memory_bandwidth"].bandwidth();
  if (json.contains("efficiency")) kind.efficiency = json["efficiency"].number();
  if (json.contains("constants")) {
    kind.constants = read_kernel_constants(json["constants"], usual_constants(kind.name));
  }
  if (json.contains("generic")) kind.generic = json["generic"].boolean();
  if (json.contains("source")) kind.source = json["source"].string();
  if (json.contains("reserve")) {
    const Json reserve = json["reserve"];
    reserve.allow_only({"memory", "source"});
    kind.reserve = reserve["memory"].bytes();
    if (reserve.contains("source")) kind.reserve_source = reserve["source"].string();
  }
  if (json.contains("price_per_hour")) {
    kind.price_per_hour = json["price_per_hour"].number();
    constexpr double most_price = 1e12;
    if (*kind.price_per_hour <= 0 || *kind.price_per_hour > most_price) {
      json["price_per_hour"].fail(concat("expected a price above zero, and at most ", most_price));
    }
  }
  return kind;
}

Value write_kind(const DeviceKind& kind) {
  Value json{{"name", kind.name}};
  json["memory"] = kind.memory_unlimited ? "unlimited" : exact_bytes(kind.memory);
  Value flops = Value::object();
  if (kind.flops_fp64 > 0) flops["fp64"] = kind.flops_fp64;
  if (kind.flops_fp32 > 0) flops["fp32"] = kind.flops_fp32;
  if (kind.flops_bf16 > 0) flops["bf16"] = kind.flops_bf16;
  if (kind.flops_fp16 > 0) flops["fp16"] = kind.flops_fp16;
  if (kind.flops_fp8 > 0) flops["fp8"] = kind.flops_fp8;
  if (!flops.empty()) json["flops"] = flops;
  if (kind.memory_bandwidth.bytes_per_second > 0) {
    json["memory_bandwidth"] = exact_bandwidth(kind.memory_bandwidth);
  }
  json["efficiency"] = kind.efficiency;
  if (kind.constants) json["constants"] = write_kernel_constants(*kind.constants);
  if (kind.generic) json["generic"] = true;
  if (!kind.source.empty()) json["source"] = kind.source;
  if (kind.reserve > 0) {
    json["reserve"] = {{"memory", exact_bytes(kind.reserve)}};
    if (!kind.reserve_source.empty()) json["reserve"]["source"] = kind.reserve_source;
  }
  if (kind.price_per_hour) json["price_per_hour"] = *kind.price_per_hour;
  return json;
}

Level read_level(const Json& json) {
  json.allow_only({"count", "link", "rails", "oversubscription"});
  Level level{.count = json["count"].small_integer(1, most_devices),
              .link = read_link(json["link"])};
  if (json.contains("rails")) level.rails = json["rails"].small_integer(1, most_devices);
  if (json.contains("oversubscription")) level.oversubscription = json["oversubscription"].number();
  return level;
}

Value write_level(const Level& level) {
  Value json{{"count", level.count}, {"link", write_link(level.link)}};
  if (level.rails != 1) json["rails"] = level.rails;
  if (level.oversubscription != 1) json["oversubscription"] = level.oversubscription;
  return json;
}

int find_kind(const Cluster& cluster, const Json& json) {
  std::vector<std::string> known;
  for (const DeviceKind& kind : cluster.kinds) known.push_back(kind.name);
  for (const std::string& name : {json.string(), builtin_device_kind_called(json.string())}) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found != known.end()) return static_cast<int>(found - known.begin());
  }
  const std::string suggestion = closest(json.string(), known);
  json.fail("the kind \"" + json.string() + "\" is not among \"kinds\": " + join_words(known) +
            (suggestion.empty() ? "" : "; did you mean \"" + suggestion + "\"?"));
}

void read_devices(Cluster& cluster, const Json& json) {
  for (const Json& run : json.elements()) {
    run.allow_only({"kind", "count"});
    const int kind = find_kind(cluster, run["kind"]);
    const int count = run["count"].small_integer(1, most_devices);
    cluster.devices.insert(cluster.devices.end(), static_cast<std::size_t>(count), kind);
    if (device_count(cluster) > most_devices)
      run.fail(concat("the cluster has more than ", most_devices, " devices"));
  }
}

/// One kind everywhere: the levels say how many.
void fill_devices(Cluster& cluster, const Json& json) {
  if (cluster.kinds.size() != 1) {
    json.fail("the member \"devices\" is missing; it may be left out only with exactly one kind");
  }
  std::int64_t count = 1;
  for (const Level& level : cluster.levels) {
    count *= level.count;
    if (count > most_devices)
      json["levels"].fail(concat("the cluster has more than ", most_devices, " devices"));
  }
  cluster.devices.assign(static_cast<std::size_t>(count), 0);
}

/// Runs of equal kinds; nothing if the levels and the only kind say it all.
Value write_devices(const Cluster& cluster) {
  Value runs = Value::array();
  for (std::size_t start = 0; start < cluster.devices.size();) {
    std::size_t end = start;
    while (end < cluster.devices.size() && cluster.devices[end] == cluster.devices[start]) ++end;
    const auto kind = static_cast<std::size_t>(cluster.devices[start]);
    runs.push_back({{"kind", cluster.kinds.at(kind).name}, {"count", end - start}});
    start = end;
  }
  return runs;
}

}  // namespace

Cluster read_cluster(const Json& json) {
  json.expect_format("stagecraft-cluster/1");
  json.allow_only({"format", "name", "kinds", "devices", "levels", "overrides"});
  Cluster cluster;
  cluster.name = json["name"].string();
  for (const Json& kind : json["kinds"].elements()) cluster.kinds.push_back(read_kind(kind));
  for (const Json& level : json["levels"].elements()) {
    cluster.levels.push_back(read_level(level));
  }
  if (json.contains("devices")) {
    read_devices(cluster, json["devices"]);
  } else {
    fill_devices(cluster, json);
  }
  if (!json.contains("overrides")) return cluster;
  for (const Json& entry : json["overrides"].elements()) {
    entry.allow_only({"from", "to", "link"});
    const int last = device_count(cluster) - 1;
    cluster.overrides.push_back({entry["from"].small_integer(0, last),
                                 entry["to"].small_integer(0, last), read_link(entry["link"])});
  }
  return cluster;
}

std::string write_cluster(const Cluster& cluster) {
  Value json{{"format", "stagecraft-cluster/1"}, {"name", cluster.name}};
  json["kinds"] = Value::array();
  for (const DeviceKind& kind : cluster.kinds) json["kinds"].push_back(write_kind(kind));
  json["devices"] = write_devices(cluster);
  json["levels"] = Value::array();
  for (const Level& level : cluster.levels) {
    json["levels"].push_back(write_level(level));
  }
  for (const LinkOverride& entry : cluster.overrides) {
    json["overrides"].push_back(
        {{"from", entry.from}, {"to", entry.to}, {"link", write_link(entry.link)}});
  }
  return to_text(json);
}

}  // namespace stagecraft
