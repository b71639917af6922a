#include "planner/predict.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "planner/compile.hpp"
#include "planner/plan_fault.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules.hpp"

namespace stagecraft {

namespace {

const Stage& stage_of(const Plan& plan, int stage) {
  return plan.stages[static_cast<std::size_t>(stage)];
}

/// A plan being compiled: lookups that everything below needs.
struct Compilation {
  const Plan& plan;
  CostBook& book;
  std::vector<int> devices;  ///< the plan's lead devices, by program device

  int stages() const { return static_cast<int>(plan.stages.size()); }

  int cluster_device(int stage, int replica) const {
    return stage_of(plan, stage).devices[static_cast<std::size_t>(replica)].front();
  }

  int program_device(int stage, int replica) const {
    const auto place =
        std::lower_bound(devices.begin(), devices.end(), cluster_device(stage, replica));
    return static_cast<int>(place - devices.begin());
  }

  int kind(int stage, int replica) const {
    return book.cluster().devices[static_cast<std::size_t>(cluster_device(stage, replica))];
  }

  int degree(int stage, int replica) const {
    return static_cast<int>(
        stage_of(plan, stage).devices[static_cast<std::size_t>(replica)].size());
  }

  const CostTable& table(int stage, int replica) const {
    return book.table(kind(stage, replica), plan.batch.microbatch,
                      rows_of_replica(plan, stage, replica), degree(stage, replica));
  }

  const CostTable& whole_microbatch(int stage) const {
    return book.table(kind(stage, 0), plan.batch.microbatch, plan.batch.microbatch,
                      degree(stage, 0));
  }
};

int replicas_of(const Plan& plan, int stage) {
  return static_cast<int>(stage_of(plan, stage).devices.size());
}

int stage_holding(const Plan& plan, int layer) {
  const auto holds = [&](const Stage& stage) { return layer < stage.layers.end; };
  return static_cast<int>(std::find_if(plan.stages.begin(), plan.stages.end(), holds) -
                          plan.stages.begin());
}

std::vector<StageTie> stage_ties(const Compilation& compilation) {
  const Plan& plan = compilation.plan;
  std::vector<StageTie> ties;
  for (const Tie& tie : compilation.book.profile().model.ties) {
    const int owner = stage_holding(plan, tie.owner);
    const int user = stage_holding(plan, tie.user);
    if (owner == user) continue;
    ties.push_back(
        {owner, user, tie_bytes(tie, compilation.whole_microbatch(owner), plan.precision)});
  }
  return ties;
}

LowerOptions lower_options(const Compilation& compilation) {
  const Plan& plan = compilation.plan;
  LowerOptions options;
  options.replica_policy = plan.replicas;
  options.rows = static_cast<int>(plan.batch.microbatch);
  options.ties = stage_ties(compilation);
  options.sharding = plan.optimizer.sharding;
  for (int s = 0; s < compilation.stages(); ++s) {
    auto& devices = options.replicas.emplace_back();
    auto& memory = options.memory.emplace_back();
    for (int replica = 0; replica < replicas_of(plan, s); ++replica) {
      devices.push_back(compilation.program_device(s, replica));
      memory.push_back(
          compilation.table(s, replica).memory(stage_of(plan, s).layers, plan.optimizer.kind));
    }
    options.recompute.push_back(stage_of(plan, s).recompute);
    options.boundary.push_back(
        compilation.whole_microbatch(s).crossing(stage_of(plan, s).layers.end));
  }
  return options;
}

ChunkCosts chunk_costs(const Compilation& compilation, const Chunk& chunk) {
  const Stage& stage = stage_of(compilation.plan, chunk.stage);
  ChunkCosts costs = compilation.table(chunk.stage, chunk.replica).times(stage.layers);
  costs.update = update_share(costs.update, compilation.plan.optimizer.sharding, chunk.replicas);
  return costs;
}

ChannelCosts channel_costs(const Compilation& compilation, const Program& program,
                           const Channel& channel) {
  const auto device = [&](int chunk) {
    const int place = program.chunks[static_cast<std::size_t>(chunk)].device;
    return compilation.devices[static_cast<std::size_t>(place)];
  };
  const Link link = message_link(compilation.book.profile(), compilation.book.cluster(),
                                 device(channel.from), device(channel.to));
  return {.latency = link.latency, .occupancy = transfer_time(channel.bytes, link.point_to_point)};
}

Duration group_cost(const Compilation& compilation, const Program& program, const Group& group) {
  std::vector<int> members;
  for (const int chunk : group.chunks) {
    const int place = program.chunks[static_cast<std::size_t>(chunk)].device;
    members.push_back(compilation.devices[static_cast<std::size_t>(place)]);
  }
  const Link link = group_link(compilation.book.cluster(), members);
  const int count = static_cast<int>(members.size());
  const bool shards = group.op == Op::reduce_scatter || group.op == Op::gather_parameters;
  return shards ? reduce_scatter_time(link, count, group.bytes)
                : all_reduce_time(link, count, group.bytes);
}

Costs costs_of(const Compilation& compilation, const Program& program) {
  Costs costs;
  for (const Chunk& chunk : program.chunks) {
    costs.chunks.push_back(chunk_costs(compilation, chunk));
  }
  for (const Channel& channel : program.channels) {
    costs.channels.push_back(channel_costs(compilation, program, channel));
  }
  for (const Group& group : program.groups) {
    costs.groups.push_back(group_cost(compilation, program, group));
  }
  return costs;
}

std::vector<Bytes> memory_limits(const Compilation& compilation) {
  std::vector<Bytes> limits;
  for (const int device : compilation.devices) {
    const DeviceKind& kind = kind_of(compilation.book.cluster(), device);
    limits.push_back(kind.memory_unlimited ? std::numeric_limits<Bytes>::max() : kind.memory);
  }
  return limits;
}

/// What was scaled, once per share of a microbatch.
std::vector<std::string> notes_on(const Compilation& compilation) {
  std::set<std::int64_t> shares;
  const std::int64_t microbatch = compilation.plan.batch.microbatch;
  for (int s = 0; s < compilation.stages(); ++s) {
    for (int replica = 0; replica < replicas_of(compilation.plan, s); ++replica) {
      const std::int64_t rows = rows_of_replica(compilation.plan, s, replica);
      if (compilation.book.is_scaled(compilation.kind(s, replica), microbatch, rows,
                                     compilation.degree(s, replica))) {
        shares.insert(rows);
      }
    }
  }
  std::vector<std::string> notes;
  for (const std::int64_t rows : shares) {
    notes.push_back(concat("a replica's share of ", rows, rows == 1 ? " sample" : " samples",
                           " is scaled from the measured microbatch of ", microbatch));
  }
  return notes;
}

Provenance weakest_provenance(const Compilation& compilation, const Program& program) {
  Provenance weakest = Provenance::measured;
  for (const Chunk& chunk : program.chunks) {
    weakest = std::max(weakest, compilation.table(chunk.stage, chunk.replica).provenance());
  }
  return weakest;
}

}  // namespace

std::int64_t rows_of_replica(const Plan& plan, int stage, int replica) {
  const std::int64_t rows = plan.batch.microbatch;
  if (plan.replicas == ReplicaPolicy::round_robin) return rows;
  const std::int64_t replicas = replicas_of(plan, stage);
  return rows * (replica + 1) / replicas - rows * replica / replicas;
}

Compiled compile_valid(const Plan& plan, CostBook& book) {
  const Compilation compilation{plan, book, lead_devices(plan)};
  Compiled compiled;
  compiled.schedule = find_schedule(plan.schedule.name).generate(shape_of(plan));
  compiled.program = lower(compiled.schedule, lower_options(compilation));
  compiled.costs = costs_of(compilation, compiled.program);
  compiled.devices = compilation.devices;
  compiled.memory_limits = memory_limits(compilation);
  compiled.provenance = weakest_provenance(compilation, compiled.program);
  compiled.notes = notes_on(compilation);
  return compiled;
}

Compiled compile(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  validate(plan, profile.model, cluster);
  CostBook book(profile, cluster, {.precision = plan.precision, .sequence = plan.batch.sequence});
  return compile_valid(plan, book);
}

namespace {

/// The first chunk of a stage: that of its first replica.
std::size_t first_chunk(const Program& program, int stage) {
  const auto& chunks = program.chunks;
  return static_cast<std::size_t>(
      std::find_if(chunks.begin(), chunks.end(),
                   [&](const Chunk& chunk) { return chunk.stage == stage && chunk.replica == 0; }) -
      chunks.begin());
}

/// The slowest message from the stage to the next.
Duration send_time(const Compiled& compiled, int stage) {
  Duration slowest{0};
  for (std::size_t i = 0; i < compiled.program.channels.size(); ++i) {
    const Channel& channel = compiled.program.channels[i];
    const Chunk& from = compiled.program.chunks[static_cast<std::size_t>(channel.from)];
    if (channel.cargo != Cargo::activation || from.stage != stage) continue;
    const ChannelCosts& costs = compiled.costs.channels[i];
    slowest = std::max(slowest, costs.latency + costs.occupancy);
  }
  return slowest;
}

StagePrediction predict_stage(const Plan& plan, const Compiled& compiled,
                              const Prediction& prediction, int stage) {
  const std::size_t chunk = first_chunk(compiled.program, stage);
  const ChunkCosts& costs = compiled.costs.chunks[chunk];
  const auto device = static_cast<std::size_t>(compiled.program.chunks[chunk].device);
  const double step = seconds(prediction.step);
  return {.layers = stage_of(plan, stage).layers,
          .forward = costs.forward,
          .backward = costs.backward,
          .send = send_time(compiled, stage),
          .idle = step > 0 ? 1 - seconds(prediction.busy[device]) / step : 0};
}

bool fits_limits(const Prediction& prediction) {
  for (std::size_t d = 0; d < prediction.peaks.size(); ++d) {
    if (prediction.peaks[d].bytes > prediction.memory_limits[d]) return false;
  }
  return true;
}

}  // namespace

std::vector<Bytes> device_peaks(const Plan& plan, const Prediction& prediction) {
  if (prediction.peaks.empty()) return {};
  const std::vector<int> leads = lead_devices(plan);
  std::map<int, Bytes> peaks;
  for (const Stage& stage : plan.stages) {
    for (const auto& peers : stage.devices) {
      const auto lead = std::lower_bound(leads.begin(), leads.end(), peers.front());
      for (const int peer : peers) {
        peaks[peer] = prediction.peaks[static_cast<std::size_t>(lead - leads.begin())].bytes;
      }
    }
  }
  std::vector<Bytes> list;
  for (const auto& [device, bytes] : peaks) list.push_back(bytes);
  return list;
}

Prediction predict(const Plan& plan, const Compiled& compiled) {
  return predict(plan, compiled, simulate(compiled.program, compiled.costs));
}

Prediction predict(const Plan& plan, const Compiled& compiled, const Timeline& timeline) {
  Prediction prediction;
  prediction.step = step_time(timeline);
  prediction.bubble = bubble(timeline);
  prediction.busy = busy_times(timeline);
  prediction.peaks = memory_peaks(timeline);
  prediction.memory_limits = compiled.memory_limits;
  prediction.fits = fits_limits(prediction);
  prediction.provenance = compiled.provenance;
  prediction.notes = compiled.notes;
  if (prediction.step > Duration{0}) {
    prediction.samples_per_second =
        static_cast<double>(plan.batch.global) / seconds(prediction.step);
  }
  prediction.tokens_per_second =
      prediction.samples_per_second * static_cast<double>(plan.batch.sequence);
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    prediction.stages.push_back(predict_stage(plan, compiled, prediction, s));
  }
  return prediction;
}

Prediction predict(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  return predict(plan, compile(plan, profile, cluster));
}

}  // namespace stagecraft
