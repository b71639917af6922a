#include "tools/inputs/profile_links.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "executor/driver/host.hpp"
#include "executor/measurement/measure_links.hpp"
#include "executor/measurement/measure_ways.hpp"
#include "profiles/text.hpp"
#include "tools/launch/interrupt.hpp"
#include "tools/launch/lifeline.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

/// Several measurements of one way, as a row of the table and in JSON.
struct Row {
  std::string name;
  const std::vector<TimedCopy>& copies;
  const FittedWay& fit;
};

std::vector<Row> rows_of(const MeasuredLevel& level) {
  const std::string_view parts = level.joins_boxes ? "hosts" : "ranks";
  return {{fmt::format("between two {}", parts), level.messages, level.message},
          {fmt::format("sum over {} {}", level.count, parts), level.sums, level.sum}};
}

ordered_json row_json(const Row& row) {
  ordered_json copies = ordered_json::array();
  for (const TimedCopy& copy : row.copies) {
    copies.push_back({{"bytes", copy.bytes}, {"time_ns", copy.time.count()}});
  }
  return {{"name", row.name},
          {"latency_ns", row.fit.latency.count()},
          {"bytes_per_second", row.fit.bandwidth.bytes_per_second},
          {"worst_error", row.fit.worst_error},
          {"copies", std::move(copies)}};
}

std::string table_of(const std::vector<Row>& rows, bool unicode) {
  Table table({"way", ">latency", ">bandwidth", ">worst error", ">largest copy", ">took"});
  for (const Row& row : rows) {
    const TimedCopy& largest = row.copies.back();
    table.row({row.name, format_duration(row.fit.latency), format_bandwidth(row.fit.bandwidth),
               percent(row.fit.worst_error), format_bytes(largest.bytes),
               format_duration(largest.time)});
  }
  return table.text(unicode);
}

/// Two ranks that share a GPU are one device of the cluster.
Cluster cluster_of_measured(const MeasuredDevice& device, bool threads,
                            const std::vector<MeasuredLevel>& levels) {
  Cluster cluster = measured_cluster(kind_of_measured(device), levels);
  if (threads && !device.is_cpu() && device.devices == 1) {
    cluster.levels.back().count = 1;
    cluster.devices.resize(1);
  }
  return cluster;
}

void report(Console& console, const MeasuredDevice& device, const Cluster& cluster,
            const std::vector<MeasuredWay>& ways, const std::vector<MeasuredLevel>& levels) {
  std::vector<Row> rows;
  for (const MeasuredWay& way : ways) rows.push_back({way.name, way.copies, way.fit});
  for (const MeasuredLevel& level : levels) {
    std::ranges::move(rows_of(level), std::back_inserter(rows));
  }
  console.print(table_of(rows, console.unicode()));
  const std::string file = write_cluster(cluster);
  console.artefact(file);
  ordered_json measured = ordered_json::array();
  for (const Row& row : rows) measured.push_back(row_json(row));
  console.result({{"device", device.is_cpu() ? "this machine's CPU" : device.description},
                  {"ways", std::move(measured)},
                  {"cluster", ordered_json::parse(file)}});
}

int ranks_here(const Console& console, const MeasuredDevice& device) {
  if (!device.is_cpu()) return std::max(device.devices, 2);
  const int threads = console.options().threads;
  return std::max(threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency()), 2);
}

/// Where the ranks of all processes are. Every process calls it.
RankGrid grid_of_processes() {
  Processes& processes = launched_processes();
  std::string hosts;
  for (const std::string& host : processes.gather(nccl_host())) hosts += host + "\n";
  hosts = processes.broadcast(hosts);
  hosts.pop_back();
  const std::vector<std::string> lines = split(hosts, '\n');
  return grid_of(lines);
}

int measure(Console& console, const DeviceFlags& flags, const TransportMaker& transport,
            bool sums_in_order) {
  const bool threads = !transport.several_processes;
  const MeasuredDevice device = measured_device(flags, !threads);
  const RankGrid grid = threads ? RankGrid{.boxes = 1, .ranks_of_box = ranks_here(console, device)}
                                : grid_of_processes();
  const std::vector<MeasuredLevel> levels = measure_links(
      grid,
      [&](Wiring wiring) {
        wiring.sums_in_order = sums_in_order;
        return transport.make(wiring);
      },
      device.make_backend);
  if (!threads && !speaks()) return 0;
  report(console, device, cluster_of_measured(device, threads, levels), measure_ways(device),
         levels);
  return 0;
}

bool sums_in_order(const LinkFlags& flags, const TransportMaker& transport) {
  return flags.sums.empty() ? !transport.on_gpus : flags.sums == "ordered";
}

}  // namespace

void declare_links(CLI::App& app, LinkFlags& flags) {
  declare_process_options(app, flags.processes);
  app.add_option("--sums", flags.sums,
                 "With links: sums to measure: ordered, as in run, or nccl, by NCCL's collectives "
                 "(nccl with --transport nccl, otherwise ordered)")
      ->type_name("KIND")
      ->check(CLI::IsMember({"ordered", "nccl"}));
}

void require_layers(const LinkFlags& flags) {
  const bool any = !flags.processes.transport.empty() || flags.processes.processes > 0 ||
                   !flags.processes.hosts.empty() || !flags.sums.empty();
  if (any) {
    fail_usage(
        "--transport, -n, --hosts and --sums are about links, which `stagecraft profile links` "
        "measures; leave them out");
  }
}

int profile_links(Console& console, const DeviceFlags& device, const LinkFlags& flags) {
  end_with_launcher();
  const TransportMaker& transport = transport_of(flags.processes);
  require_carried(transport, device.device != "cpu", "--device cuda");
  require_sums(transport, flags.sums);
  const bool in_order = sums_in_order(flags, transport);
  if (must_start_processes(transport)) {
    if (flags.processes.processes < 2) {
      fail_usage("--transport ", transport.name, ": say between how many processes, -n 2 at least");
    }
    const Interrupt interrupt;
    return start_processes(flags.processes, transport, flags.processes.processes, {}, interrupt);
  }
  const auto body = [&](Console& voice) { return measure(voice, device, transport, in_order); };
  return transport.several_processes ? run_together(console, body) : body(console);
}

}  // namespace stagecraft
