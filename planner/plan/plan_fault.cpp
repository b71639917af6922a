// One check per promise of a plan, in an order that names the cause before its consequences.

#include "planner/plan/plan_fault.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "planner/plan/parallelism_fault.hpp"
#include "planner/plan/schedule_size.hpp"
#include "profiles/error.hpp"
#include "profiles/kernel_times.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft {

namespace {

using Fault = std::optional<PlanFault>;

struct Subject {
  const Plan& plan;
  const Model& model;
  const Cluster& cluster;
  int layers() const { return static_cast<int>(model.layers.size()); }
  int stages() const { return static_cast<int>(plan.stages.size()); }
};

std::vector<std::variant<std::string, int>> at_stage(int stage, const char* member) {
  return {"stages", stage, member};
}

/// "layer 7", "layers 7..9".
std::string layers_in_words(int first, int end) {
  if (end - first == 1) return concat("layer ", first);
  return concat("layers ", first, "..", end - 1);
}

/// "27 of 28 layers are placed".
std::string placed_in_words(const Subject& subject) {
  std::vector<bool> placed(subject.model.layers.size());
  for (const Stage& stage : subject.plan.stages) {
    const int end = std::min(stage.layers.end, subject.layers());
    for (int layer = std::max(stage.layers.first, 0); layer < end; ++layer) {
      placed[static_cast<std::size_t>(layer)] = true;
    }
  }
  return concat(std::count(placed.begin(), placed.end(), true), " of ", subject.layers(),
                " layers are placed");
}

Fault check_batch(const Subject& subject) {
  const Batch& batch = subject.plan.batch;
  if (batch.microbatch < 1) {
    return PlanFault{{"batch", "microbatch"},
                     concat("a microbatch of ", batch.microbatch,
                            " samples trains nothing; "
                            "expected at least 1"),
                     {}};
  }
  if (batch.microbatches < 1) {
    return PlanFault{{"batch", "microbatches"},
                     concat(batch.microbatches, " microbatches train nothing; expected at least 1"),
                     {}};
  }
  const bool divides = batch.global % batch.microbatches == 0;
  if (divides && batch.global / batch.microbatches == batch.microbatch) return {};
  return PlanFault{{"batch", "global"},
                   concat("the global batch is ", batch.global, " samples, but it would take ",
                          batch.microbatches, " microbatches of ", batch.microbatch,
                          "; microbatch x microbatches must be the global batch"),
                   {}};
}

Fault check_stage_count(const Subject& subject) {
  if (subject.plan.stages.empty()) return PlanFault{{"stages"}, "there are no stages", {}};
  const int virtual_stages = subject.plan.schedule.virtual_stages;
  if (virtual_stages < 1) {
    return PlanFault{{"schedule", "virtual_stages"},
                     concat("expected at least 1 stage per device, found ", virtual_stages),
                     {}};
  }
  if (subject.stages() % virtual_stages == 0) return {};
  return PlanFault{{"stages"},
                   concat(subject.stages(), " stages are not a multiple of ", virtual_stages,
                          " virtual stages per device"),
                   {}};
}

/// A stage may be empty, [k, k), and then only passes on; but samples come in at the first one, and
/// the loss is found at the last one.
Fault check_stages_hold_layers(const Subject& subject) {
  for (int s = 0; s < subject.stages(); ++s) {
    const LayerRange& layers = subject.plan.stages[static_cast<std::size_t>(s)].layers;
    const bool is_inside = s > 0 && s + 1 < subject.stages();
    if (layers.size() > 0 || (layers.size() == 0 && is_inside)) continue;
    const std::string range = concat("[", layers.first, ", ", layers.end, ")");
    if (layers.size() < 0) {
      return PlanFault{at_stage(s, "layers"),
                       concat("stage ", s, " ends before it begins: ", range),
                       {"write the first layer and the one after the last"}};
    }
    return PlanFault{at_stage(s, "layers"),
                     concat("stage ", s, " has no layers: ", range, " is empty, but the ",
                            s == 0 ? "first stage must have the first layer"
                                   : "last stage must have the last layer"),
                     {"give it a layer, or leave the stage and its devices out"}};
  }
  return {};
}

/// Where one stage ends the next must start, and the first at layer 0.
Fault check_layers_follow(const Subject& subject) {
  int expected = 0;
  for (int s = 0; s < subject.stages(); ++s) {
    const LayerRange& layers = subject.plan.stages[static_cast<std::size_t>(s)].layers;
    const std::string start = concat("stage ", s, " starts at layer ", layers.first);
    const std::string before =
        s == 0 ? "" : concat(" but stage ", s - 1, " ends at layer ", expected);
    if (layers.first > expected) {
      return PlanFault{at_stage(s, "layers"),
                       concat(start, before, ": ", layers_in_words(expected, layers.first),
                              " would never be trained; ", placed_in_words(subject)),
                       {}};
    }
    if (layers.first < expected && layers.size() == 0) {
      return PlanFault{at_stage(s, "layers"),
                       concat(start, ", where it is empty,", before),
                       {concat("write [", expected, ", ", expected, "]")}};
    }
    if (layers.first < expected) {
      const int end = std::min(expected, layers.end);
      return PlanFault{at_stage(s, "layers"),
                       concat(start, before, ": ", layers_in_words(layers.first, end),
                              " would be trained twice"),
                       {}};
    }
    expected = layers.end;
  }
  return {};
}

Fault check_last_layer(const Subject& subject) {
  const int last = subject.stages() - 1;
  const int end = subject.plan.stages.back().layers.end;
  const std::string ends = concat("stage ", last, " ends at layer ", end, " but the model \"",
                                  subject.model.name, "\" has ", subject.layers(), " layers");
  if (end > subject.layers()) {
    return PlanFault{at_stage(last, "layers"),
                     concat(ends, ": this is a plan for another model"),
                     {"make a plan for this model with `stagecraft plan`"}};
  }
  if (end < subject.layers()) {
    return PlanFault{at_stage(last, "layers"),
                     concat(ends, ": ", layers_in_words(end, subject.layers()),
                            " would never be trained; ", placed_in_words(subject)),
                     {}};
  }
  return {};
}

Fault check_replicas_exist(const Subject& subject) {
  for (int s = 0; s < subject.stages(); ++s) {
    const Stage& stage = subject.plan.stages[static_cast<std::size_t>(s)];
    if (stage.devices.empty()) {
      return PlanFault{at_stage(s, "devices"), concat("stage ", s, " has no devices"), {}};
    }
    for (const auto& peers : stage.devices) {
      if (!peers.empty()) continue;
      return PlanFault{
          at_stage(s, "devices"), concat("stage ", s, " has a replica without a device"), {}};
    }
  }
  return {};
}

/// Replica by replica, all peers.
std::vector<int> devices_of(const Subject& subject, int stage) {
  std::vector<int> devices;
  for (const auto& peers : subject.plan.stages[static_cast<std::size_t>(stage)].devices) {
    devices.insert(devices.end(), peers.begin(), peers.end());
  }
  return devices;
}

Fault check_devices_exist(const Subject& subject) {
  const int count = device_count(subject.cluster);
  const int used = static_cast<int>(used_devices(subject.plan).size());
  if (used > count) {
    return PlanFault{{"stages"},
                     concat("the plan uses ", used, " devices, but the cluster has only ", count),
                     {"name a larger cluster, or make a plan for this one"}};
  }
  for (int s = 0; s < subject.stages(); ++s) {
    for (const int device : devices_of(subject, s)) {
      if (device >= 0 && device < count) continue;
      const std::string range = count == 1 ? "0" : concat("0..", count - 1);
      return PlanFault{at_stage(s, "devices"),
                       concat("stage ", s, " uses device ", device, ", but the cluster has ", count,
                              count == 1 ? " device: " : " devices: ", range),
                       {}};
    }
  }
  return {};
}

/// The stages of one pipeline device name the same devices.
Fault check_rings_agree(const Subject& subject) {
  const int devices = pipeline_devices(subject.plan);
  for (int s = devices; s < subject.stages(); ++s) {
    const int first = pipeline_device_of(subject.plan, s);
    const auto& stages = subject.plan.stages;
    if (stages[static_cast<std::size_t>(s)].devices ==
        stages[static_cast<std::size_t>(first)].devices) {
      continue;
    }
    return PlanFault{
        at_stage(s, "devices"),
        concat("stages ", first, " and ", s, " share a pipeline device under ",
               subject.plan.schedule.virtual_stages, " virtual stages, but name different devices"),
        {}};
  }
  return {};
}

Fault check_devices_once(const Subject& subject) {
  std::map<int, int> owner;
  const int devices = pipeline_devices(subject.plan);
  for (int s = 0; s < devices; ++s) {
    for (const int device : devices_of(subject, s)) {
      const auto [other, fresh] = owner.emplace(device, s);
      if (fresh) continue;
      const std::string where = other->second == s
                                    ? concat("twice by stage ", s)
                                    : concat("by stage ", other->second, " and by stage ", s);
      return PlanFault{at_stage(s, "devices"), concat("device ", device, " is used ", where), {}};
    }
  }
  return {};
}

/// Tensor-parallel peers work in step over the innermost links, with equal shares; context-parallel
/// ones may be farther away.
Fault check_peers_are_near(const Subject& subject) {
  const Cluster& cluster = subject.cluster;
  const int width = cluster.levels.empty() ? 1 : cluster.levels.back().count;
  for (int s = 0; s < subject.stages(); ++s) {
    for (const auto& peers : subject.plan.stages[static_cast<std::size_t>(s)].devices) {
      const int tensor = std::max(tensor_degree(subject.plan.parallelism, peers.size()), 1);
      for (std::size_t p = 0; p < peers.size(); ++p) {
        const int peer = peers[p], first = peers[p - p % static_cast<std::size_t>(tensor)];
        const bool near = peer / width == first / width;
        const auto kind = [&](int device) {
          return cluster.devices[static_cast<std::size_t>(device)];
        };
        if (near && kind(peer) == kind(peers.front())) continue;
        return PlanFault{
            at_stage(s, "devices"),
            concat("devices ", near ? peers.front() : first, " and ", peer, " of stage ", s,
                   " are tensor-parallel peers, but ",
                   near ? "of different kinds" : "not joined by the cluster's innermost links"),
            {concat("peers must be among ", width, " neighbours of one kind")}};
      }
    }
  }
  return {};
}

/// Every replica must have something to do.
Fault check_replicas_work(const Subject& subject) {
  const Batch& batch = subject.plan.batch;
  const bool split = subject.plan.replicas == ReplicaPolicy::split;
  const std::int64_t most = split ? batch.microbatch : batch.microbatches;
  for (int s = 0; s < subject.stages(); ++s) {
    const auto replicas =
        static_cast<std::int64_t>(subject.plan.stages[static_cast<std::size_t>(s)].devices.size());
    if (replicas <= most) continue;
    const std::string share =
        split ? concat("cannot share a microbatch of ", batch.microbatch,
                       batch.microbatch == 1 ? " sample" : " samples")
              : concat("cannot take turns at ", batch.microbatches, " microbatches");
    const std::string remedy =
        split ? concat("use a microbatch of at least ", replicas,
                       " samples, or \"replicas\": \"round_robin\"")
              : concat("use at least ", replicas, " microbatches, or \"replicas\": \"split\"");
    return PlanFault{at_stage(s, "devices"),
                     concat("the ", replicas, " replicas of stage ", s, " ", share),
                     {remedy}};
  }
  return {};
}

Fault check_schedule_name(const Subject& subject) {
  try {
    find_schedule(subject.plan.schedule.name);
    return {};
  } catch (const Error& error) {
    return PlanFault{{"schedule", "name"}, error.message(), error.help()};
  }
}

Fault check_weights(const Subject& subject) {
  const WeightPolicy own = find_schedule(subject.plan.schedule.name).weights;
  if (subject.plan.weights == own) return {};
  return PlanFault{
      {"weights"},
      concat("the schedule ", subject.plan.schedule.name, " updates weights by \"", to_string(own),
             "\", but the plan says \"", to_string(subject.plan.weights), "\""),
      {concat("write \"weights\": \"", to_string(own), "\", or choose another schedule")}};
}

Fault check_linear_has_one(const Subject& subject) {
  const ScheduleChoice& choice = subject.plan.schedule;
  const bool linear = find_schedule(choice.name).placement == StagePlacement::linear;
  if (!linear || choice.virtual_stages == 1) return {};
  return PlanFault{{"schedule", "virtual_stages"},
                   concat("the schedule ", choice.name, " has one stage per device, not ",
                          choice.virtual_stages),
                   {"use \"interleaved\" for several stages per device"}};
}

/// Schedules that cut microbatches cut whole samples, enough for every replica.
Fault check_parts(const Subject& subject, int parts) {
  const std::int64_t samples = subject.plan.batch.microbatch;
  const std::string cuts = concat("the schedule ", subject.plan.schedule.name,
                                  " cuts each microbatch into ", parts, " parts");
  if (samples % parts != 0) {
    return PlanFault{
        {"batch", "microbatch"},
        concat(cuts, ", but ", samples, samples == 1 ? " sample" : " samples", " cannot be cut so"),
        {concat("use a microbatch of a multiple of ", parts, " samples")}};
  }
  if (subject.plan.replicas != ReplicaPolicy::split) return {};
  for (int s = 0; s < subject.stages(); ++s) {
    const auto replicas =
        static_cast<std::int64_t>(subject.plan.stages[static_cast<std::size_t>(s)].devices.size());
    if (replicas <= samples / parts) continue;
    return PlanFault{at_stage(s, "devices"),
                     concat(cuts, " of ", samples / parts, ", which the ", replicas,
                            " replicas of stage ", s, " cannot share"),
                     {concat("use a microbatch of at least ", replicas * parts, " samples")}};
  }
  return {};
}

/// Pieces of sequences are equally long.
Fault check_sequence_chunks(const Subject& subject) {
  const int chunks = subject.plan.schedule.sequence_chunks;
  if (chunks <= 1) return {};  // the schedule says what is wrong with none
  const std::string cuts = concat("the schedule ", subject.plan.schedule.name,
                                  " cuts each sequence into ", chunks, " pieces");
  const std::int64_t tokens =
      subject.plan.batch.sequence > 0 ? subject.plan.batch.sequence : subject.model.sequence;
  if (!subject.model.transformer) {
    return PlanFault{{"schedule", "sequence_chunks"},
                     concat(cuts, ", but ", subject.model.name,
                            " is no transformer whose samples are sequences"),
                     {"leave \"sequence_chunks\" out"}};
  }
  if (tokens % chunks == 0) return {};
  return PlanFault{{"schedule", "sequence_chunks"},
                   concat(cuts, ", but ", tokens, " tokens cannot be cut so"),
                   {concat("use a divisor of ", tokens)}};
}

/// A schedule that places recomputation does so stage by stage.
Fault check_places_recompute(const Subject& subject, const Schedule& schedule) {
  const auto places = [](const std::vector<Instruction>& order) {
    return std::ranges::count(order, Op::recompute, &Instruction::op) > 0;
  };
  if (std::ranges::none_of(schedule.devices, places)) return {};
  for (int s = 0; s < subject.stages(); ++s) {
    if (subject.plan.stages[static_cast<std::size_t>(s)].again.empty()) continue;
    return PlanFault{at_stage(s, "recompute"),
                     concat("the schedule ", subject.plan.schedule.name,
                            " says itself when whole stages recompute, so layers of stage ", s,
                            " cannot do so by themselves"),
                     {"leave \"recompute\" out, or choose another schedule"}};
  }
  return {};
}

/// Replicas that take turns while weights are updated on the way have equal parts in each update,
/// and wait for nobody who waits for them.
Fault check_turns(const Subject& subject, const Schedule& schedule) {
  if (subject.plan.replicas == ReplicaPolicy::split || schedule.weights == WeightPolicy::flush)
    return {};
  const std::vector<int> replicas = replicas_of_stages(subject.plan);
  if (const auto fault = find_turns_fault(schedule, replicas)) {
    return PlanFault{{"replicas"}, fault->what, {fault->remedy}};
  }
  if (const auto fault = find_window_fault(schedule, replicas)) {
    return PlanFault{{"schedule", "warm_up"}, fault->what, {fault->remedy}};
  }
  return {};
}

Fault check_size(const Subject& subject) {
  const Plan& plan = subject.plan;
  const std::string why =
      against_size(subject.stages(), plan.batch.microbatches, plan.schedule.sequence_chunks);
  if (why.empty()) return {};
  return PlanFault{{"batch", "microbatches"},
                   why,
                   {"use a smaller batch, or larger microbatches: a step's time grows in "
                    "proportion with microbatches"}};
}

Fault check_schedule(const Subject& subject) {
  if (Fault fault = check_sequence_chunks(subject)) return fault;
  try {
    const Schedule schedule =
        find_schedule(subject.plan.schedule.name).generate(shape_of(subject.plan));
    if (Fault fault = check_places_recompute(subject, schedule)) return fault;
    if (Fault fault = check_turns(subject, schedule)) return fault;
    return check_parts(subject, schedule.parts / schedule.sequence_chunks);
  } catch (const Error& error) {
    return PlanFault{{"schedule"}, error.message(), error.help()};
  }
}

/// Layers that recompute together with the next one are followed by one that recomputes.
Fault check_runs(const Stage& stage, int s) {
  for (std::size_t i = 0; i < stage.again.size(); ++i) {
    if (stage.again[i] != Recomputed::with_next) continue;
    const int layer = stage.layers.first + static_cast<int>(i);
    const bool is_last = i + 1 == stage.again.size();
    const Recomputed next = is_last ? Recomputed::none : stage.again[i + 1];
    if (next == Recomputed::with_next || next == Recomputed::full) continue;
    return PlanFault{
        at_stage(s, "recompute"),
        is_last ? concat("layer ", layer, ", the last of stage ", s,
                         ", recomputes together with the next layer")
                : concat("layer ", layer, " of stage ", s, " recomputes together with layer ",
                         layer + 1, ", which does not recompute all of itself"),
        {"end the run with a layer that recomputes by itself"}};
  }
  return {};
}

/// Layers do something again by themselves, or their stage does as a whole.
Fault check_recompute(const Subject& subject) {
  for (int s = 0; s < subject.stages(); ++s) {
    const Stage& stage = subject.plan.stages[static_cast<std::size_t>(s)];
    if (stage.again.empty()) continue;
    if (std::ssize(stage.again) != stage.layers.size()) {
      return PlanFault{at_stage(s, "recompute"),
                       concat("stage ", s, " says of ", stage.again.size(),
                              " layers what they do again, but has ", stage.layers.size()),
                       {}};
    }
    if (Fault fault = check_runs(stage, s)) return fault;
    if (stage.recompute == Recompute::none) continue;
    return PlanFault{
        at_stage(s, "recompute"),
        concat("stage ", s, " recomputes as a whole, so its layers cannot do so by themselves"),
        {"choose one of the two"}};
  }
  return {};
}

Fault check_float8_recipe(const Subject& subject) {
  if (!subject.plan.kernels.float8_recipe) return {};
  for (const int device : used_devices(subject.plan)) {
    const std::string why = against_float8_recipe(subject.plan.kernels, subject.plan.precision,
                                                  kind_of(subject.cluster, device));
    if (!why.empty()) return PlanFault{{"fp8_recipe"}, why, {"leave it away"}};
  }
  return {};
}

Fault check_fused_loss(const Subject& subject) {
  const std::string why = against_fused_loss(subject.plan.kernels);
  if (why.empty()) return {};
  return PlanFault{{"fused_loss"}, why, {"leave one away"}};
}

Fault check_router_fusion(const Subject& subject) {
  const std::string why = against_router_fusion(subject.plan.kernels, subject.model);
  if (why.empty()) return {};
  return PlanFault{{"router_fusion"}, why, {"leave it away"}};
}

Fault check_overlap(const Subject& subject) {
  if (subject.plan.kernels.overlap.empty()) return {};
  for (const int device : used_devices(subject.plan)) {
    const std::string why = against_overlap(subject.plan.kernels, kind_of(subject.cluster, device));
    if (!why.empty()) return PlanFault{{"overlap"}, why, {"leave it away"}};
  }
  const Plan& plan = subject.plan;
  if (!exchanges_beside(plan)) return {};
  const std::string why = against_exchanges_beside(plan.schedule.name, plan.batch.microbatches);
  if (why.empty()) return {};
  return PlanFault{{"overlap"}, why, {"leave it away"}};
}

Fault check_recompute_modules(const Subject& subject) {
  const std::string why = against_recompute_modules(subject.plan.kernels, subject.model);
  if (why.empty()) return {};
  return PlanFault{{"recompute_modules"}, why, {"leave it away"}};
}

Fault check_parallelism(const Subject& subject) {
  return find_parallelism_fault(subject.plan, subject.model);
}

Fault check_requests(const Subject& subject) {
  if (!subject.plan.requests) return {};
  const Requests& requests = *subject.plan.requests;
  const auto fault = [](const char* member, std::string why) {
    return PlanFault{{"requests", member}, std::move(why), {}};
  };
  if (!serves(subject.plan)) {
    return PlanFault{{"requests"},
                     concat("it has requests, which are of inference, but the schedule ",
                            subject.plan.schedule.name, " trains"),
                     {"leave \"requests\" out, or use the schedule inference"}};
  }
  if (requests.chunk < 1)
    return fault("chunk", concat("chunks of ", requests.chunk, " tokens read no prompt"));
  if (requests.memory <= 0 || requests.memory > 1) {
    return fault("memory", concat("requests take a part of the memory above 0 and up to 1, not ",
                                  requests.memory));
  }
  const std::int64_t positions =
      subject.model.transformer ? subject.model.transformer->positions : 0;
  const std::int64_t tokens = subject.plan.batch.sequence + requests.output;
  const bool has_end =
      positions > 0 && subject.model.transformer->position == Transformer::Position::learned;
  if (!has_end || tokens <= positions) return {};
  return fault("output", concat("prompts of ", subject.plan.batch.sequence, " tokens and ",
                                requests.output, " made for each are ", tokens, ", but ",
                                subject.model.name, " has ", positions, " positions"));
}

constexpr std::array structural_checks{
    check_batch,          check_stage_count,
    check_schedule_name,  check_weights,
    check_linear_has_one, check_stages_hold_layers,
    check_layers_follow,  check_last_layer,
    check_replicas_exist, check_devices_exist,
    check_rings_agree,    check_devices_once,
    check_parallelism,    check_peers_are_near,
    check_replicas_work,  check_recompute,
    check_size,           check_float8_recipe,
    check_fused_loss,     check_recompute_modules,
    check_router_fusion,  check_overlap,
    check_requests,
};

}  // namespace

Fault find_structural_fault(const Plan& plan, const Model& model, const Cluster& cluster) {
  const Subject subject{plan, model, cluster};
  for (const auto check : structural_checks) {
    if (Fault fault = check(subject)) return fault;
  }
  return {};
}

Fault find_fault(const Plan& plan, const Model& model, const Cluster& cluster) {
  if (Fault fault = find_structural_fault(plan, model, cluster)) return fault;
  return check_schedule({plan, model, cluster});
}

}  // namespace stagecraft
