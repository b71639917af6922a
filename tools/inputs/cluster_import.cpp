#include "tools/inputs/cluster_import.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "profiles/cluster_importers.hpp"
#include "profiles/device_names.hpp"
#include "profiles/json.hpp"
#include "profiles/link_fit.hpp"
#include "tools/commands.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view measured_collectives = "nccl-tests";

const ClusterImporter* find_importer(const std::string& format) {
  for (const ClusterImporter& importer : cluster_importers) {
    if (importer.name == format) return &importer;
  }
  return nullptr;
}

/// The cluster's file goes to -o, or where nobody looks, to standard output.
void print_cluster(Console& console, const Cluster& cluster, const std::string& text) {
  const std::string file = write_cluster(cluster);
  const bool written = console.artefact(file);
  console.print(!written && !console.person_reads_output() ? file : text);
}

std::string machine_text(const Machine& machine, const Cluster& cluster) {
  const std::size_t ports = machine.ports.size(), rails = rail_ports(machine).size();
  std::string text = fmt::format("{}: {} {}, {} port{}", cluster.name, device_count(cluster),
                                 cluster.kinds.front().name, ports, ports == 1 ? "" : "s");
  if (rails != ports)
    text += fmt::format(", {} of them {}", rails, rails == 1 ? "a rail" : "rails");
  if (device_count(cluster) < 2) return text + "\n";
  const Link& inside = cluster.levels.back().link;
  return text + fmt::format("; {} between the farthest pair, collectives at {}\n",
                            format_bandwidth(inside.point_to_point),
                            format_bandwidth(inside.collective));
}

int import_machine(Console& console, const ClusterImporter& importer, const std::string& content,
                   const ClusterImport& import) {
  const Machine machine =
      importer.import(content, import.file, builtin_device_kind_called(import.device));
  const Cluster cluster = cluster_of(machine);
  for (const std::string& note : notes_on(machine)) console.note(note);
  print_cluster(console, cluster, machine_text(machine, cluster));
  console.result({{"name", cluster.name},
                  {"devices", device_count(cluster)},
                  {"ports", machine.ports.size()},
                  {"rails", rail_ports(machine).size()},
                  {"cluster", ordered_json::parse(write_cluster(cluster))}});
  return 0;
}

std::string level_table(const LevelFit& level, bool of_messages, bool unicode) {
  Table table({"level " + std::to_string(level.level), ">before", ">fitted", ">+- 95 %"});
  table.row({"latency of a hop", format_duration(level.before.latency),
             format_duration(level.after.latency),
             format_duration(from_seconds(level.latency_interval))});
  const auto rate = [&](const Link& link) {
    return format_bandwidth(of_messages ? link.point_to_point : link.collective);
  };
  const std::string interval =
      level.limits ? format_bandwidth({static_cast<std::int64_t>(level.bandwidth_interval)})
                   : "no time depends on it";
  table.row({of_messages ? "point-to-point bandwidth" : "collective bandwidth", rate(level.before),
             rate(level.after), interval});
  return table.text(unicode);
}

std::string fit_text(const CollectiveLog& log, const LinkFit& fit, bool unicode) {
  std::string text = fmt::format("{} over {}, {}\n", to_string(log.operation),
                                 number_of(std::ssize(log.hosts), "rank"),
                                 number_of(std::ssize(log.rows), "size"));
  for (const LevelFit& level : fit.levels) text += level_table(level, fit.of_messages, unicode);
  text += fmt::format("mean error {:.1f} %, worst {:.1f} % at {}", 100 * fit.mean_error,
                      100 * fit.worst_error, format_bytes(fit.worst_bytes));
  if (fit.held_out > 0) {
    text += fmt::format("; {:.1f} % on {} times left out of a fit on every fourth size",
                        100 * fit.held_out_error, fit.held_out);
  }
  return text + "\n";
}

ordered_json level_json(const LevelFit& level, bool of_messages) {
  ordered_json json{{"level", level.level},
                    {"latency_ns", level.after.latency.count()},
                    {"latency_interval_ns", level.latency_interval * 1e9}};
  const std::string rate = of_messages ? "point_to_point" : "collective";
  const Link& after = level.after;
  json[rate + "_bytes_per_second"] =
      (of_messages ? after.point_to_point : after.collective).bytes_per_second;
  if (level.limits) json[rate + "_interval_bytes_per_second"] = level.bandwidth_interval;
  json["limits"] = level.limits;
  return json;
}

int import_collectives(Console& console, const std::string& content, const ClusterImport& import) {
  const CollectiveLog log = read_collective_log(content, import.file);
  for (const std::string& note : log.notes) console.note(note);
  Cluster cluster = import.cluster.empty() ? cluster_of_log(log, import.device, import.file)
                                           : load_cluster(import.cluster);
  if (!import.cluster.empty()) console.input(import.cluster, content_hash(write_cluster(cluster)));
  const LinkFit fit = fit_link(log, cluster, import.file);
  constexpr double far_off = 0.15;
  if (fit.mean_error > far_off) {
    console.warn(fmt::format(
        "a latency and a bandwidth explain these times badly: wrong by {:.0f} % on average; they "
        "hold for the shortest and the longest messages, sizes between may take longer",
        100 * fit.mean_error));
  }
  ordered_json levels = ordered_json::array();
  for (const LevelFit& level : fit.levels) {
    cluster.levels[static_cast<std::size_t>(level.level)].link = level.after;
    levels.push_back(level_json(level, fit.of_messages));
  }
  print_cluster(console, cluster, fit_text(log, fit, console.unicode()));
  ordered_json result{{"collective", to_string(log.operation)},
                      {"ranks", log.hosts.size()},
                      {"rows", log.rows.size()}};
  result.update(levels.front());
  result["levels"] = std::move(levels);
  result["mean_error"] = fit.mean_error;
  result["worst_error"] = fit.worst_error;
  if (fit.held_out > 0) {
    result["held_out"] = fit.held_out;
    result["held_out_error"] = fit.held_out_error;
  }
  result["cluster"] = ordered_json::parse(write_cluster(cluster));
  console.result(result);
  return 0;
}

}  // namespace

bool imports_cluster(const std::string& format) {
  return format == measured_collectives || find_importer(format) != nullptr;
}

std::vector<std::string> cluster_import_names() {
  std::vector<std::string> names;
  for (const ClusterImporter& importer : cluster_importers) names.emplace_back(importer.name);
  names.emplace_back(measured_collectives);
  return names;
}

std::string cluster_import_summaries() {
  std::string text;
  for (const ClusterImporter& importer : cluster_importers)
    text += fmt::format("; {}: {}", importer.name, importer.summary);
  return text + fmt::format(
                    "; {}: what all_reduce_perf and its like of nccl-tests or RCCL-tests print, as "
                    "text or JSON: latency and bandwidth of the levels that the ranks cross",
                    measured_collectives);
}

int import_cluster(Console& console, const ClusterImport& import) {
  const std::string content = read_file(import.file);
  console.input(import.file, content_hash(content));
  const ClusterImporter* importer = find_importer(import.format);
  return importer != nullptr ? import_machine(console, *importer, content, import)
                             : import_collectives(console, content, import);
}

}  // namespace stagecraft
