// stagecraft cluster list | show CLUSTER: devices, and the links between them.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <numeric>

#include "planner/calibration/ledger.hpp"
#include "profiles/collectives.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/options/applicable.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ClusterArguments {
  std::string what = "list";
  std::string cluster;
  std::string constants;
  std::string collectives;  ///< sizes, separated by commas
};

std::string memory_text(const DeviceKind& kind) {
  return kind.memory_unlimited ? "unlimited" : format_bytes(kind.memory);
}

std::string rate_text(double flops) {
  return flops > 0 ? readable(flops / 1e12) : "-";
}

ordered_json kind_json(const DeviceKind& kind) {
  ordered_json result{{"name", kind.name}};
  if (!kind.memory_unlimited) result["memory_bytes"] = kind.memory;
  if (kind.reserve > 0) {
    result["reserve_bytes"] = kind.reserve;
    result["reserve_source"] = kind.reserve_source;
    result["usable_memory_bytes"] = usable_memory(kind);
  }
  result["flops_fp32"] = kind.flops_fp32;
  result["flops_bf16"] = kind.flops_bf16;
  if (kind.flops_fp8 > 0) result["flops_fp8"] = kind.flops_fp8;
  if (!kind.memory_bandwidth.is_unlimited())
    result["memory_bandwidth_bytes_per_second"] = kind.memory_bandwidth.bytes_per_second;
  result["source"] = kind.source;
  return result;
}

int list_clusters(Console& console) {
  Table kinds(
      {"device", ">memory", ">usable", ">TFLOP/s fp32", ">bf16", ">memory bandwidth", "source"});
  ordered_json kind_rows = ordered_json::array();
  for (const std::string& name : builtin_device_kinds()) {
    const DeviceKind kind = builtin_device_kind(name);
    kinds.row({name, memory_text(kind),
               kind.memory_unlimited ? "unlimited" : format_bytes(usable_memory(kind)),
               rate_text(kind.flops_fp32), rate_text(kind.flops_bf16),
               kind.generic ? "-" : format_bandwidth(kind.memory_bandwidth), kind.source});
    kind_rows.push_back(kind_json(kind));
  }
  console.print(kinds.text(console.unicode()) + "\n clusters by name:");
  for (const std::string& name : builtin_clusters()) console.print(" " + name);
  console.print(
      "\n or an expression, outermost level first: 8xh100   16x8xh100@400Gb/s   "
      "4x4xgeneric@1.25GB/s,10GB/s\n");
  console.result({{"devices", std::move(kind_rows)}, {"clusters", builtin_clusters()}});
  return 0;
}

ordered_json link_json(const Link& link) {
  ordered_json result{{"latency_ns", link.latency.count()}};
  if (!link.point_to_point.is_unlimited())
    result["point_to_point_bytes_per_second"] = link.point_to_point.bytes_per_second;
  if (!link.collective.is_unlimited())
    result["collective_bytes_per_second"] = link.collective.bytes_per_second;
  return result;
}

std::string link_text(Bandwidth bandwidth) {
  return bandwidth.is_unlimited() ? "unlimited" : format_bandwidth(bandwidth);
}

/// Gives the kinds of devices that the file knows its constants.
void apply_constants(Console& console, const std::string& path, Cluster& cluster) {
  const std::string content = read_file(path);
  console.input(path, content_hash(content));
  bool any = false;
  std::vector<std::string> known;
  for (const NamedCalibration& each : read_constants(Json::parse(content, path))) {
    known.push_back(each.device);
    for (DeviceKind& kind : cluster.kinds) {
      if (kind.name != each.device || kind.constants) continue;
      kind.constants = each.calibration.constants;
      any = true;
    }
  }
  if (any) return;
  fail_usage("--constants: ", path, " has constants of ", join_words(known), ", but ", cluster.name,
             " has no such devices");
}

/// What collectives over all devices take, by size.
ordered_json print_collectives(Console& console, const Cluster& cluster, const std::string& sizes) {
  std::vector<int> devices(static_cast<std::size_t>(device_count(cluster)));
  std::iota(devices.begin(), devices.end(), 0);
  const DeviceGroup group = device_group(cluster, devices);
  Table table({"collective", ">bytes", ">time", "algorithm", "others"});
  ordered_json rows = ordered_json::array();
  for (const CollectiveName& row : collectives) {
    for (const std::string& size : split(sizes, ',')) {
      const Bytes bytes = parse_bytes(size);
      const CollectiveChoice choice = choose_collective(row.collective, group, bytes);
      std::string others;
      for (const AlgorithmName& other : collective_algorithms) {
        const auto time = collective_time(row.collective, other.algorithm, group, bytes);
        if (!time || other.algorithm == choice.algorithm) continue;
        others +=
            fmt::format("{}{} {}", others.empty() ? "" : ", ", other.name, format_duration(*time));
      }
      table.row({std::string(row.name), size, format_duration(choice.time),
                 std::string(to_string(choice.algorithm)), others});
      rows.push_back({{"collective", row.name},
                      {"bytes", bytes},
                      {"time_ns", choice.time.count()},
                      {"algorithm", to_string(choice.algorithm)}});
    }
  }
  console.print(fmt::format("collectives over {}\n", number_of(group.members, "device")) +
                table.text(console.unicode()));
  return rows;
}

int show(Console& console, const ClusterArguments& arguments) {
  if (arguments.cluster.empty())
    fail_usage("cluster show needs a CLUSTER: a name, an expression or a file");
  Cluster cluster = load_cluster(arguments.cluster);
  console.input(arguments.cluster, content_hash(write_cluster(cluster)));
  if (!arguments.constants.empty()) apply_constants(console, arguments.constants, cluster);
  console.artefact(write_cluster(cluster));
  const std::string single = why_single_devices(arguments.cluster);
  if (!single.empty()) console.note(single);
  Table levels({">level", ">parts", ">latency", ">point to point", ">collective", ">rails",
                ">oversubscription"});
  ordered_json level_rows = ordered_json::array();
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    const Level& level = cluster.levels[i];
    levels.row({std::to_string(i), std::to_string(level.count), format_duration(level.link.latency),
                link_text(level.link.point_to_point), link_text(level.link.collective),
                i + 1 == cluster.levels.size() ? "" : std::to_string(level.rails),
                level.oversubscription == 1 ? "" : fmt::format("{:g}", level.oversubscription)});
    level_rows.push_back({{"count", level.count},
                          {"link", link_json(level.link)},
                          {"rails", level.rails},
                          {"oversubscription", level.oversubscription}});
  }
  ordered_json kinds = ordered_json::array();
  std::string kind_names;
  for (const DeviceKind& kind : cluster.kinds) {
    kinds.push_back(kind_json(kind));
    kind_names +=
        fmt::format("{}{} ({})", kind_names.empty() ? "" : ", ", kind.name, memory_text(kind));
  }
  console.print(fmt::format("{}: {}: {}\n", cluster.name,
                            number_of(device_count(cluster), "device"), kind_names));
  console.print(levels.text(console.unicode()));
  for (const DeviceKind& kind : cluster.kinds) {
    if (kind.reserve == 0) continue;
    console.print(fmt::format("plans use {} of each {}: of the others, {}\n",
                              format_bytes(usable_memory(kind)), kind.name, kind.reserve_source));
  }
  ordered_json result{{"name", cluster.name},
                      {"devices", device_count(cluster)},
                      {"kinds", std::move(kinds)},
                      {"levels", std::move(level_rows)}};
  if (!arguments.collectives.empty())
    result["collectives"] = print_collectives(console, cluster, arguments.collectives);
  console.result(result);
  return 0;
}

}  // namespace

Action declare_cluster(CLI::App& app) {
  auto arguments = std::make_shared<ClusterArguments>();
  app.add_option("what", arguments->what, "list or show")
      ->type_name("list|show")
      ->check(CLI::IsMember({"list", "show"}));
  app.add_option("cluster", arguments->cluster, "Name, expression or file of a cluster")
      ->type_name("CLUSTER");
  app.add_option("--constants", arguments->constants,
                 "With show: constants fitted by `stagecraft calibrate`, for the cluster's "
                 "devices; -o writes a cluster whose predictions rest on them")
      ->type_name("FILE");
  app.add_option("--collectives", arguments->collectives,
                 "With show: print the times of collectives of these sizes over all devices, by "
                 "the fastest algorithm: 64KiB,256MiB")
      ->type_name("SIZE,…");
  return [arguments, &app](Console& console) {
    if (arguments->what == "list") refuse_beside_list(app);
    return arguments->what == "list" ? list_clusters(console) : show(console, *arguments);
  };
}

}  // namespace stagecraft
