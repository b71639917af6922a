#include "planner/analysis/changes/shape.hpp"

#include <optional>
#include <string>

#include "profiles/index.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft::what_if {

namespace {

/// Nothing where stages differ.
std::optional<Shape> shape_of_all(const Plan& plan) {
  const Stage& first = plan.stages.front();
  for (const Stage& stage : plan.stages) {
    if (stage.devices.size() != first.devices.size()) return {};
    for (const std::vector<int>& peers : stage.devices) {
      if (peers.size() != first.devices.front().size()) return {};
    }
  }
  return Shape{.pipeline = pipeline_devices(plan),
               .virtual_stages = plan.schedule.virtual_stages,
               .data = static_cast<int>(first.devices.size()),
               .tensor = tensor_degree(plan),
               .context = plan.parallelism.context};
}

/// Devices of each pipeline device, replica by replica.
DevicesByRank devices_by_rank(const Plan& plan) {
  const StagePlacement placement = find_schedule(plan.schedule.name).placement;
  const int pipeline = pipeline_devices(plan);
  DevicesByRank devices(index(pipeline));
  for (int stage = 0; stage < static_cast<int>(plan.stages.size()); ++stage) {
    devices[index(device_of_stage(placement, stage, pipeline))] = plan.stages[index(stage)].devices;
  }
  return devices;
}

/// The plan's own where there are as many, else the cluster's first ones; tensor-parallel peers
/// stand next to each other, then context-parallel ones, replicas, and pipeline devices, or with
/// `pipelines_first` pipeline devices, and replicas.
DevicesByRank devices_for(const Shape& shape, const Plan& plan, const Cluster& cluster,
                          bool pipelines_first) {
  std::vector<int> devices = used_devices(plan);
  if (shape.devices() > device_count(cluster)) {
    fail("pp ", shape.pipeline, " x dp ", shape.data, " x tp ", shape.tensor, " x cp ",
         shape.context, " are ", shape.devices(), " devices; ", cluster.name, " has ",
         device_count(cluster));
  }
  if (static_cast<int>(devices.size()) < shape.devices()) {
    devices.resize(index(shape.devices()));
    for (std::size_t device = 0; device < devices.size(); ++device)
      devices[device] = static_cast<int>(device);
  }
  DevicesByRank ranks(index(shape.pipeline));
  const int peers = shape.tensor * shape.context;
  for (int rank = 0; rank < shape.pipeline; ++rank) {
    for (int replica = 0; replica < shape.data; ++replica) {
      const int place =
          pipelines_first ? replica * shape.pipeline + rank : rank * shape.data + replica;
      const auto first = devices.begin() + std::ptrdiff_t{place} * peers;
      ranks[index(rank)].emplace_back(first, first + peers);
    }
  }
  return ranks;
}

constexpr std::string_view pipelines_outermost = "tp-cp-dp-pp";
constexpr std::string_view pipelines_inside_replicas = "tp-cp-pp-dp";

/// Whether pipeline devices stand closer than replicas.
bool wants_pipelines_first(const Wishes& wishes) {
  const Change* change = wishes.find("order");
  if (change == nullptr) return false;
  if (change->value != pipelines_outermost && change->value != pipelines_inside_replicas) {
    fail_unknown("order of devices, innermost first", change->value,
                 {std::string(pipelines_outermost), std::string(pipelines_inside_replicas)});
  }
  return change->value == pipelines_inside_replicas;
}

}  // namespace

Shape require_one_shape(const Plan& plan, std::string_view what) {
  const auto shape = shape_of_all(plan);
  if (shape) return *shape;
  fail("--set ", what,
       ": the plan's stages have different numbers of replicas or peers, which no one number "
       "replaces; make a plan with stagecraft plan instead");
}

Shape wished_shape(const Wishes& wishes, const Shape& now, const Plan& plan) {
  Shape shape = now;
  shape.pipeline = wishes.number("pp", now.pipeline);
  shape.tensor = wishes.number("tp", now.tensor);
  shape.context = wishes.number("cp", now.context);
  if (wishes.find("dp") != nullptr) {
    shape.data = wishes.number("dp", now.data);
    return shape;
  }
  const int devices = static_cast<int>(used_devices(plan).size());
  const std::int64_t model = std::int64_t{shape.pipeline} * shape.tensor * shape.context;
  if (model > devices || devices % model != 0) {
    fail("pp ", shape.pipeline, " x tp ", shape.tensor, " x cp ", shape.context, " = ", model,
         " does not divide the plan's ", devices, devices == 1 ? " device" : " devices",
         " into whole replicas; set dp, too, or other degrees");
  }
  shape.data = static_cast<int>(devices / model);
  return shape;
}

std::int64_t samples_per_replica(const Plan& plan, const Shape& shape) {
  if (plan.replicas == ReplicaPolicy::round_robin) return plan.batch.microbatch;
  if (plan.batch.microbatch % shape.data != 0) {
    fail("--set dp: a microbatch of ", plan.batch.microbatch, " samples on ", shape.data,
         " replicas is no whole number for each; add --set mbs=N");
  }
  return plan.batch.microbatch / shape.data;
}

DevicesByRank wished_devices(const Wishes& wishes, const Shape& now, const Shape& shape,
                             const Plan& plan, const Cluster& cluster) {
  const bool same_ranks = shape.pipeline == now.pipeline && shape.data == now.data &&
                          shape.tensor == now.tensor && shape.context == now.context;
  const bool pipelines_first = wants_pipelines_first(wishes);
  if (same_ranks && !wishes.has("order")) return devices_by_rank(plan);
  return devices_for(shape, plan, cluster, pipelines_first);
}

}  // namespace stagecraft::what_if
