#include "planner/plan/plan.hpp"

#include <algorithm>

#include "planner/plan/plan_fault.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft {

namespace {

/// Throws unless `order` lists each of the model's layers once, after all that it reads from.
void validate_order(const Model& model, const std::vector<int>& order) {
  const std::size_t layers = model.layers.size();
  if (order.size() != layers) {
    fail("the order lists ", order.size(), " layers, but the model has ", layers);
  }
  std::vector<int> position(layers, -1);
  for (std::size_t place = 0; place < layers; ++place) {
    const auto layer = static_cast<std::size_t>(order[place]);
    if (order[place] < 0 || layer >= layers) {
      fail("the order names layer ", order[place], ", but the model's layers are 0 to ",
           layers - 1);
    }
    if (position[layer] >= 0) fail("the order names layer ", layer, " twice");
    position[layer] = static_cast<int>(place);
  }
  for (const Edge& edge : model.edges) {
    const auto from = static_cast<std::size_t>(edge.from);
    const auto to = static_cast<std::size_t>(edge.to);
    if (position[from] < position[to]) continue;
    fail("the order puts layer ", to, " (", model.layers[to].name, ") before layer ", from, " (",
         model.layers[from].name, "), whose output it reads");
  }
}

}  // namespace

std::string_view to_string(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw: return "adamw";
    case OptimizerKind::sgd: return "sgd";
  }
  return "";
}

OptimizerKind read_optimizer_kind(std::string_view name) {
  return read_known("optimizer", name, {OptimizerKind::adamw, OptimizerKind::sgd});
}

std::string_view to_string(RecomputeEverywhere what) {
  switch (what) {
    case RecomputeEverywhere::none: return "none";
    case RecomputeEverywhere::selective: return "selective";
    case RecomputeEverywhere::blocks: return "blocks";
    case RecomputeEverywhere::layers: return "layers";
    case RecomputeEverywhere::stages: return "stages";
  }
  return "";
}

RecomputeEverywhere read_recompute_everywhere(std::string_view name) {
  using enum RecomputeEverywhere;
  return read_known("recomputation", name, {none, selective, blocks, layers, stages});
}

std::string_view to_string(ObjectiveKind kind) {
  switch (kind) {
    case ObjectiveKind::step: return "step";
    case ObjectiveKind::throughput: return "throughput";
    case ObjectiveKind::latency: return "latency";
    case ObjectiveKind::cost: return "cost";
  }
  return "";
}

ObjectiveKind read_objective_kind(std::string_view name) {
  constexpr ObjectiveKind kinds[] = {ObjectiveKind::step, ObjectiveKind::throughput,
                                     ObjectiveKind::latency, ObjectiveKind::cost};
  return read_known("objective", name, kinds);
}

Profile in_plan_order(const Profile& profile, const Plan& plan) {
  if (plan.order.empty()) return profile;
  validate_order(profile.model, plan.order);
  return reordered(profile, plan.order);
}

bool exchanges_beside(const Plan& plan) {
  return plan.kernels.overlap.experts && plan.parallelism.expert > 1;
}

bool recomputes_selectively(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return std::ranges::find(stage.again, Recomputed::selective) != stage.again.end();
  });
}

LayerModules modules_again(const Plan& plan) {
  return recomputes_selectively(plan) ? plan.kernels.again : LayerModules{};
}

int tensor_degree(const Plan& plan) {
  int most = 1;
  for (const Stage& stage : plan.stages) {
    for (const auto& peers : stage.devices) {
      most = std::max(most, tensor_degree(plan.parallelism, peers.size()));
    }
  }
  return most;
}

int pipeline_devices(const Plan& plan) {
  return static_cast<int>(plan.stages.size()) / std::max(plan.schedule.virtual_stages, 1);
}

int pipeline_device_of(const Plan& plan, int stage) {
  return device_of_stage(find_schedule(plan.schedule.name).placement, stage,
                         pipeline_devices(plan));
}

namespace {

/// What the plan says; else, where replicas take turns and weights are updated on the way, windows
/// that count devices: those of the schedule, which count stages, are too short.
std::vector<int> warm_up_of(const Plan& plan) {
  const bool in_rounds =
      plan.replicas == ReplicaPolicy::round_robin &&
      (plan.weights == WeightPolicy::stashing || plan.weights == WeightPolicy::double_buffered);
  if (!plan.schedule.warm_up.empty() || !in_rounds) return plan.schedule.warm_up;
  const std::vector<int> replicas = replicas_of_stages(plan);
  const bool several = std::ranges::any_of(replicas, [](int count) { return count > 1; });
  if (!several) return {};
  return round_robin_warm_up(replicas, plan.batch.microbatches);
}

}  // namespace

std::vector<int> replicas_of_stages(const Plan& plan) {
  std::vector<int> counts;
  for (const Stage& stage : plan.stages) counts.push_back(static_cast<int>(stage.devices.size()));
  return counts;
}

ScheduleShape shape_of(const Plan& plan) {
  return {.devices = pipeline_devices(plan),
          .microbatches = plan.batch.microbatches,
          .virtual_stages = plan.schedule.virtual_stages,
          .group = plan.schedule.group,
          .warm_up = warm_up_of(plan),
          .sequence_chunks = plan.schedule.sequence_chunks,
          .pipes = plan.schedule.pipes};
}

namespace {

std::vector<int> each_once(std::vector<int> devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

}  // namespace

bool serves(const Plan& plan) {
  return find_schedule(plan.schedule.name).generate == inference;
}

Requests requests_of(const Plan& plan) {
  return plan.requests.value_or(Requests{});
}

std::vector<int> used_devices(const Plan& plan) {
  std::vector<int> used;
  for (const Stage& stage : plan.stages) {
    for (const auto& peers : stage.devices) used.insert(used.end(), peers.begin(), peers.end());
  }
  return each_once(std::move(used));
}

std::vector<int> lead_devices(const Plan& plan) {
  std::vector<int> leads;
  for (const Stage& stage : plan.stages) {
    for (const auto& peers : stage.devices) leads.push_back(peers.front());
  }
  return each_once(std::move(leads));
}

void validate(const Plan& plan, const Model& model, const Cluster& cluster) {
  const auto fault = find_fault(plan, model, cluster);
  if (fault) fail_with_help(ErrorKind::input, concat("plan: ", fault->message), fault->help);
}

}  // namespace stagecraft
