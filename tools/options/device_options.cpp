#include "tools/options/device_options.hpp"

#include <CLI/CLI.hpp>

#include "planner/costs/device_memory.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/memory_options.hpp"

namespace stagecraft {

namespace {

void set_bandwidth(Cluster& cluster, Bandwidth bandwidth) {
  for (Level& level : cluster.levels) {
    level.link.point_to_point = bandwidth;
    level.link.collective = bandwidth;
  }
  for (LinkOverride& one : cluster.overrides) {
    one.link.point_to_point = bandwidth;
    one.link.collective = bandwidth;
  }
}

ChosenDevices named_devices(const DeviceOptions& options) {
  ChosenDevices chosen{.name = options.cluster, .cluster = load_cluster(options.cluster)};
  chosen.hash = content_hash(write_cluster(chosen.cluster));
  if (options.devices > 0) chosen.first = options.devices;
  if (!options.bandwidth.empty())
    set_bandwidth(chosen.cluster, read_bandwidth("--bandwidth", options.bandwidth));
  return chosen;
}

ChosenDevices own_devices(const DeviceOptions& options, const Profile& profile) {
  if (!profile.devices) {
    throw Error(ErrorKind::usage,
                "CLUSTER is missing, and MODEL's file names no devices of its own", {},
                {"name the devices to plan for, for example 8xh100, or 8xgeneric@10GB/s to take a "
                 "profile's times as they stand"});
  }
  OwnDevices own = *profile.devices;
  if (options.devices > 0) own.count = options.devices;
  if (!options.bandwidth.empty()) own.bandwidth = read_bandwidth("--bandwidth", options.bandwidth);
  ChosenDevices chosen{
      .name = cluster_expression(own), .cluster = {}, .hash = {}, .first = {}, .own = own};
  chosen.cluster = load_cluster(chosen.name);
  give_memory(chosen.cluster, own.memory);
  return chosen;
}

}  // namespace

void declare_devices(CLI::App& app, DeviceOptions& options) {
  app.add_option("cluster", options.cluster,
                 "Name, expression such as 4x8xh100@400Gb/s, or file of a cluster; optional if "
                 "MODEL's file names devices (Piper, dnn-partitioning)")
      ->type_name("CLUSTER");
  app.add_option(
         "--memory", options.memory,
         "Memory of each device, including the memory that CUDA and NCCL take (the cluster's)")
      ->type_name("SIZE");
  app.add_option("--bandwidth", options.bandwidth, "Bandwidth of every link (the cluster's)")
      ->type_name("RATE");
  app.add_option("--devices", options.devices,
                 "Number of devices: the first N of the cluster, or N instead of the number in "
                 "MODEL's file (all)")
      ->type_name("N")
      ->check(CLI::Range(1, most_devices));
}

ChosenDevices choose_devices(const DeviceOptions& options, const Profile& profile) {
  ChosenDevices chosen =
      options.cluster.empty() ? own_devices(options, profile) : named_devices(options);
  if (!options.memory.empty()) give_memory_of_flag(chosen.cluster, options.memory);
  return chosen;
}

}  // namespace stagecraft
