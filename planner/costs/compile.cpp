#include "planner/costs/compile.hpp"
#include "planner/costs/compile_with_norm.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "planner/costs/columns.hpp"
#include "planner/costs/cost_program.hpp"
#include "planner/costs/device_memory.hpp"
#include "planner/costs/exposed_sums.hpp"
#include "planner/costs/paired_passes.hpp"
#include "planner/plan/plan_fault.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/request_state.hpp"
#include "profiles/text.hpp"
#include "simulator/engines/repeats.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// Of `rows` samples, those that one of the replicas that split them works on.
std::int64_t share(std::int64_t rows, std::int64_t replica, std::int64_t replicas) {
  return rows * (replica + 1) / replicas - rows * replica / replicas;
}

/// A plan being compiled: lookups that everything below needs. Stages are the schedule's: those of
/// its first pipe are the plan's, and others hold the same layers.
struct Compilation {
  const Plan& plan;
  CostBook& book;
  const Schedule& schedule;
  int columns = 1;           ///< only the first of so many is compiled
  std::vector<int> devices;  ///< the lead devices compiled, by program device

  /// The layers, and whether it recomputes.
  const Stage& layout(int stage) const {
    return plan.stages[static_cast<std::size_t>(stage) % plan.stages.size()];
  }

  /// Replicas, each a list of peers. Stage r of the first pipe is on pipeline device r.
  const std::vector<std::vector<int>>& replicas(int stage) const {
    const int home = schedule.device_of_stage[static_cast<std::size_t>(stage)];
    return plan.stages[static_cast<std::size_t>(home)].devices;
  }

  const std::vector<int>& peers(int stage, int replica) const {
    return replicas(stage)[static_cast<std::size_t>(replica)];
  }

  /// In each column.
  int replica_count(int stage) const { return static_cast<int>(replicas(stage).size()) / columns; }

  int cluster_device(int stage, int replica) const { return peers(stage, replica).front(); }

  int program_device(int stage, int replica) const {
    const auto place =
        std::lower_bound(devices.begin(), devices.end(), cluster_device(stage, replica));
    return static_cast<int>(place - devices.begin());
  }

  int kind(int stage, int replica) const {
    return book.cluster().devices[static_cast<std::size_t>(cluster_device(stage, replica))];
  }

  int peer_count(int stage, int replica) const {
    return static_cast<int>(peers(stage, replica).size());
  }

  int context() const { return plan.parallelism.context; }

  /// Samples of one of the schedule's microbatches: schedules that cut the plan's have smaller
  /// ones, but pieces of sequences are of all its samples.
  std::int64_t rows() const {
    return plan.batch.microbatch * schedule.sequence_chunks / schedule.parts;
  }

  /// What a piece takes of a microbatch's time or bytes, rounded up: the mean of the pieces, of
  /// which later ones attend to more keys.
  template <class Quantity>
  Quantity piece(Quantity whole) const {
    const auto pieces = schedule.sequence_chunks;
    return (whole + Quantity{pieces - 1}) / pieces;
  }

  std::int64_t rows_of(int stage, int replica) const {
    if (plan.replicas == ReplicaPolicy::round_robin) return rows();
    return share(rows(), replica, static_cast<std::int64_t>(replicas(stage).size()));
  }

  const CostTable& table(int stage, int replica) const {
    return book.table(kind(stage, replica), plan.batch.microbatch, rows_of(stage, replica),
                      peer_count(stage, replica));
  }

  /// What a stage hands on of one of the schedule's microbatches.
  Bytes boundary(int stage) const {
    return book.crossing(kind(stage, 0), plan.batch.microbatch, rows(), peer_count(stage, 0),
                         layout(stage).layers.end);
  }
};

/// The lead devices of the first column, ascending.
std::vector<int> first_column(const Plan& plan, int columns) {
  Plan column = plan;
  for (Stage& stage : column.stages) {
    stage.devices.resize(stage.devices.size() / static_cast<std::size_t>(columns));
  }
  return lead_devices(column);
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
    ties.push_back({owner, user, tie_bytes(tie, compilation.table(owner, 0), plan.precision)});
  }
  return ties;
}

/// Weights that layers of a stage share with others of it, on one of `tensor` peers, which divide
/// the rows of a table.
Bytes shared_inside(const Model& model, const LayerRange& layers, int tensor, Precision precision) {
  const auto is_inside = [&](int layer) { return layers.first <= layer && layer < layers.end; };
  const std::int64_t rows = model.transformer ? model.transformer->vocabulary : 0;
  Bytes bytes = 0;
  for (const Tie& tie : model.ties) {
    if (!is_inside(tie.owner) || !is_inside(tie.user)) continue;
    const bool is_table = rows > 0 && tie.parameters % rows == 0;
    const std::int64_t part = is_table ? (rows + tensor - 1) / tensor * (tie.parameters / rows)
                                       : (tie.parameters + tensor - 1) / tensor;
    bytes += part * element_bytes(precision);
  }
  return bytes;
}

/// Without a backward nothing of a layer stays but keys and values of each request (`past`, which a
/// program that does not train keeps throughout), and one layer after the other has what it needs
/// while it computes: the hungriest layer's counts, and not their sum. Where prompts are longer
/// than a pass, what comes in and goes out is there a pass at a time. Nothing is updated, so that
/// tied weights of one stage are one tensor.
void serve(const Compilation& compilation, int stage, int replica, ChunkMemory& memory) {
  const LayerRange layers = compilation.layout(stage).layers;
  const CostTable& table = compilation.table(stage, replica);
  const Model& model = compilation.book.profile().model;
  const Plan& plan = compilation.plan;
  const std::int64_t sequence = plan.batch.sequence > 0 ? plan.batch.sequence : model.sequence;
  const std::int64_t kept = sequence + requests_of(plan).output;
  const std::int64_t tokens = (kept + compilation.context() - 1) / compilation.context();
  const int tensor = tensor_degree(
      plan.parallelism, static_cast<std::size_t>(compilation.peer_count(stage, replica)));
  Bytes most = 0, cache = 0;
  for (int layer = layers.first; layer < layers.end; ++layer) {
    const LayerCost& cost = table.layer(layer);
    most = std::max(most, cost.saved + cost.workspace);
    cache += compilation.rows_of(stage, replica) *
             numbers_of_request(model, layer, tokens, tensor) * element_bytes(plan.precision);
  }
  memory.forward_alone = most;
  memory.past = cache;
  memory.parameters -=
      std::min(shared_inside(model, layers, tensor, plan.precision), memory.parameters);
  const PassTokens passes = compilation.book.tokens_of_pass(
      compilation.kind(stage, replica), plan.batch.microbatch, compilation.rows_of(stage, replica),
      compilation.peer_count(stage, replica));
  for (Bytes* bytes : {&memory.input, &memory.output}) *bytes = passes.part_of(*bytes);
}

ChunkMemory memory_of(const Compilation& compilation, int stage, int replica) {
  ChunkMemory memory =
      compilation.table(stage, replica)
          .memory(compilation.layout(stage).layers, compilation.plan.optimizer.kind,
                  compilation.layout(stage).again);
  for (Bytes* bytes : {&memory.saved, &memory.saved_for_weight, &memory.input, &memory.output,
                       &memory.workspace}) {
    *bytes = compilation.piece(*bytes);
  }
  if (serves(compilation.plan)) serve(compilation, stage, replica, memory);
  return memory;
}

/// Devices with the layers of a stage, in its replicas and in those of its copies, each of which
/// keeps a shard.
Holders holders(const Compilation& compilation, int stage) {
  const int stages = stages_per_pipe(compilation.schedule);
  int replicas = 0;
  for (int copy = stage % stages; copy < compilation.schedule.stages; copy += stages) {
    replicas += static_cast<int>(compilation.replicas(copy).size());
  }
  return holders_of(compilation.plan.parallelism, replicas, compilation.peer_count(stage, 0));
}

LowerOptions lower_options(const Compilation& compilation) {
  const Plan& plan = compilation.plan;
  LowerOptions options;
  options.replica_policy = plan.replicas;
  options.rows = static_cast<int>(compilation.rows()) / compilation.columns;
  options.ties = stage_ties(compilation);
  options.sharding = plan.optimizer.sharding;
  // Context-parallel peers hold the same weights, as replicas do.
  options.columns = compilation.columns * compilation.context();
  for (int s = 0; s < compilation.schedule.stages; ++s) {
    const Stage& layout = compilation.layout(s);
    auto& devices = options.replicas.emplace_back();
    auto& memory = options.memory.emplace_back();
    for (int replica = 0; replica < compilation.replica_count(s); ++replica) {
      devices.push_back(compilation.program_device(s, replica));
      memory.push_back(memory_of(compilation, s, replica));
    }
    options.expert_holders.push_back(holders(compilation, s).experts);
    options.recompute.push_back(layout.recompute);
    options.passes_on.push_back(layout.layers.size() == 0);
    options.boundary.push_back(compilation.piece(compilation.boundary(s)) / compilation.columns);
  }
  return options;
}

ChunkCosts chunk_costs(const Compilation& compilation, const Chunk& chunk) {
  const Stage& layout = compilation.layout(chunk.stage);
  const CostTable& table = compilation.table(chunk.stage, chunk.replica);
  ChunkCosts costs = table.times(layout.layers, layout.again);
  for (Duration* time : {&costs.forward, &costs.backward, &costs.backward_input,
                         &costs.backward_weight, &costs.recompute}) {
    *time = compilation.piece(*time);
  }
  costs.update = update_share(table.update(layout.layers), compilation.plan.optimizer.sharding,
                              holders(compilation, chunk.stage));
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

Duration group_cost(const Compilation& compilation, const Program& program, const Group& group,
                    ExposedSums& sums) {
  std::vector<std::vector<int>> members;  // replicas, each with its peers
  for (const int which : group.chunks) {
    const Chunk& chunk = program.chunks[static_cast<std::size_t>(which)];
    for (int column = 0; column < compilation.columns; ++column) {
      const int replica = column * compilation.replica_count(chunk.stage) + chunk.replica;
      members.push_back(compilation.peers(chunk.stage, replica));
    }
  }
  std::sort(members.begin(), members.end());
  if (group.op == Op::reduce_tied) {
    const DeviceGroup where = device_group(compilation.book.cluster(),
                                           holding_devices(compilation.plan.parallelism, members));
    return collective_time(Collective::all_reduce, where, group.bytes);
  }
  const Sharding sharding = compilation.plan.optimizer.sharding;
  const StageGroups groups =
      stage_groups(compilation.book.cluster(), compilation.plan.parallelism, members);
  const Chunk& first = program.chunks[static_cast<std::size_t>(group.chunks.front())];
  const CostTable& table = compilation.table(first.stage, first.replica);
  const LayerRange& layers = compilation.layout(first.stage).layers;
  return group.op == Op::gather_parameters
             ? collect_time(groups, sharding, table.parameters(layers))
             : sums.exposed(table, layers, groups);
}

PairedPass pass_of(const Compilation& compilation, const Program& program, int which) {
  const Chunk& chunk = program.chunks[static_cast<std::size_t>(which)];
  const Stage& layout = compilation.layout(chunk.stage);
  return {compilation.table(chunk.stage, chunk.replica), layout.layers, layout.again};
}

/// A chunk's forwards all pair with one chunk's backwards, of the other direction.
void add_fused_pairs(const Compilation& compilation, const Program& program, Costs& costs) {
  if (!find_schedule(compilation.plan.schedule.name).hides_messages) return;
  for (const Work& work : program.work) {
    if (!work.fused_with || work.instruction.op != Op::forward) continue;
    std::optional<Duration>& fused = costs.chunks[static_cast<std::size_t>(work.chunk)].fused;
    if (fused) continue;
    const int back = program.work[static_cast<std::size_t>(*work.fused_with)].chunk;
    fused =
        paired_time(pass_of(compilation, program, work.chunk), pass_of(compilation, program, back));
  }
}

Costs costs_of(const Compilation& compilation, const Program& program) {
  Costs costs;
  for (const Chunk& chunk : program.chunks) {
    costs.chunks.push_back(chunk_costs(compilation, chunk));
  }
  add_fused_pairs(compilation, program, costs);
  for (const Channel& channel : program.channels) {
    costs.channels.push_back(channel_costs(compilation, program, channel));
  }
  ExposedSums sums(compilation.plan.optimizer, compilation.plan.schedule);
  for (const Group& group : program.groups) {
    costs.groups.push_back(group_cost(compilation, program, group, sums));
  }
  return costs;
}

std::vector<Bytes> memory_limits(const Compilation& compilation) {
  std::vector<Bytes> limits;
  for (const int device : compilation.devices) {
    DeviceKind kind = kind_of(compilation.book.cluster(), device);
    if (serves(compilation.plan)) take_part_of_memory(kind, requests_of(compilation.plan).memory);
    limits.push_back(kind.memory_unlimited ? std::numeric_limits<Bytes>::max() : kind.memory);
  }
  return limits;
}

/// What the framework takes of each device; nothing where memory is unlimited.
std::vector<Bytes> reserves(const Compilation& compilation) {
  std::vector<Bytes> reserves;
  for (const int device : compilation.devices) {
    const DeviceKind& kind = kind_of(compilation.book.cluster(), device);
    reserves.push_back(kind.memory_unlimited ? 0 : kind.reserve);
  }
  const bool any = std::ranges::any_of(reserves, [](Bytes bytes) { return bytes > 0; });
  return any ? reserves : std::vector<Bytes>{};
}

/// What costs take for granted of how devices share the work.
std::vector<std::string> notes_on_parallelism(const Compilation& compilation) {
  std::vector<std::string> notes;
  const Parallelism& parallelism = compilation.plan.parallelism;
  if (parallelism.expert > 1 && parallelism.expert_load == 1) {
    notes.emplace_back(
        "every device's experts are taken to get as many tokens as any other's; --expert-load 1.2 "
        "plans for a busiest one with 20 % more");
  } else if (parallelism.expert > 1) {
    notes.push_back(concat("the busiest device's experts are taken to get ",
                           fmt::format("{:g}", parallelism.expert_load),
                           " times the mean of tokens"));
  }
  return notes;
}

/// What was scaled, once per share of a microbatch.
std::vector<std::string> notes_on(const Compilation& compilation) {
  std::set<std::int64_t> shares;
  const std::int64_t microbatch = compilation.plan.batch.microbatch;
  for (int s = 0; s < compilation.schedule.stages; ++s) {
    const int replicas = static_cast<int>(compilation.replicas(s).size());
    for (int replica = 0; replica < replicas; ++replica) {
      const std::int64_t rows = compilation.rows_of(s, replica);
      if (compilation.book.is_scaled(compilation.kind(s, replica), microbatch, rows,
                                     compilation.peer_count(s, replica))) {
        shares.insert(rows);
      }
    }
  }
  std::vector<std::string> notes = notes_on_parallelism(compilation);
  if (compilation.schedule.sequence_chunks > 1) {
    notes.push_back(
        concat("each of the ", compilation.schedule.sequence_chunks,
               " pieces of a sequence is taken for an equal part of a microbatch; later "
               "ones attend to more keys"));
  }
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

Compiled compile_columns(const Plan& plan, CostBook& book, int columns, bool to_run,
                         GradientNorm norm = GradientNorm::none) {
  Compiled compiled;
  compiled.schedule = find_schedule(plan.schedule.name).generate(shape_of(plan));
  const Compilation compilation{plan, book, compiled.schedule, columns,
                                first_column(plan, columns)};
  compiled.lowering = lower_options(compilation);
  compiled.lowering.places_buffers = to_run;
  compiled.lowering.norm = norm;
  compiled.program = lower(compiled.schedule, compiled.lowering);
  compiled.program.reserve = reserves(compilation);
  compiled.costs = costs_of(compilation, compiled.program);
  compiled.devices = compilation.devices;
  compiled.memory_limits = memory_limits(compilation);
  compiled.provenance = weakest_provenance(compilation, compiled.program);
  compiled.notes = notes_on(compilation);
  return compiled;
}

/// Forwards and backwards, a half as one, of the plan's columns that are compiled.
std::int64_t passes_of(const Plan& plan, int columns) {
  std::int64_t passes = 0;
  for (const Stage& stage : plan.stages) {
    passes += 2 * std::ssize(stage.devices) * plan.batch.microbatches;
  }
  return passes * plan.schedule.sequence_chunks / columns;
}

/// What the order of a plan's replicas depends on.
LowerOptions turns_of(const Plan& plan, int columns) {
  LowerOptions options{.replica_policy = plan.replicas};
  for (const Stage& stage : plan.stages)
    options.replicas.emplace_back(stage.devices.size() / index(columns));
  return options;
}

Plan with_microbatches(Plan plan, int microbatches) {
  plan.batch.microbatches = microbatches;
  plan.batch.global = plan.batch.microbatch * microbatches;
  return plan;
}

/// As `compile_columns`, of a plan with more instructions than are worked out in full if it can be.
/// Where stages differ it takes a while until a period shows, so more and more are tried.
Compiled compile_counted_columns(const Plan& plan, CostBook& book, int columns, bool to_run) {
  const std::int64_t passes = passes_of(plan, columns);
  const ScheduleShape shape = shape_of(plan);
  const std::int64_t pipelines = std::max<std::int64_t>(1, passes / passes_of(shape));
  const ScheduleKind& kind = find_schedule(plan.schedule.name);
  const LowerOptions turns = turns_of(plan, columns);
  for (std::int64_t some = most_in_full / 4; 4 * some < passes; some *= 4) {
    const auto shorter = shortened(kind, shape, some / pipelines, turns);
    if (!shorter) {
      if (to_run) require_in_reach(kind, shape, passes, some / pipelines, turns);
      break;
    }
    Compiled compiled = compile_columns(with_microbatches(plan, shorter->shape.microbatches), book,
                                        columns, to_run);
    compiled.program.left_out = shorter->left_out;
    if (shows_period(compiled.program, compiled.costs)) return compiled;
  }
  return compile_columns(plan, book, columns, to_run);
}

/// One column, which stands for so many.
Compiled for_all_columns(Compiled column, const Plan& plan, int columns) {
  if (columns > 1) column.stand_ins = stand_ins(plan, columns, column.devices);
  return column;
}

void note_what_is_counted(Compiled& compiled) {
  if (!compiled.program.left_out) return;
  compiled.notes.push_back(concat("the order repeats: ", compiled.program.microbatches,
                                  " microbatches are worked out, and the ",
                                  compiled.program.left_out->microbatches,
                                  " others counted, to the nanosecond"));
}

}  // namespace

Costs cost_program(const Compiled& compiled, const Plan& plan, CostBook& book) {
  const int columns = compiled.stand_ins.empty()
                          ? 1
                          : static_cast<int>(compiled.stand_ins.size() / compiled.devices.size());
  return costs_of({plan, book, compiled.schedule, columns, compiled.devices}, compiled.program);
}

Compiled compile_valid(const Plan& plan, CostBook& book) {
  return compile_columns(plan, book, 1, true);
}

Compiled compile_column(const Plan& plan, CostBook& book) {
  const int columns = columns_of(plan, book);
  return for_all_columns(compile_counted_columns(plan, book, columns, false), plan, columns);
}

Compiled compile_whole_column(const Plan& plan, CostBook& book) {
  const int columns = columns_of(plan, book);
  return for_all_columns(compile_columns(plan, book, columns, false), plan, columns);
}

Compiled compile_to_read(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  constexpr std::int64_t most_read = 100'000;
  validate(plan, profile.model, cluster);
  CostBook book(profile, cluster, book_setting(plan));
  const int columns = passes_of(plan, 1) > most_read ? columns_of(plan, book) : 1;
  Compiled compiled = compile_counted_columns(plan, book, columns, true);
  note_what_is_counted(compiled);
  if (columns == 1) return compiled;
  compiled.stand_ins = stand_ins(plan, columns, compiled.devices);
  compiled.notes.push_back(
      concat("the plan is ", columns, " alike pipelines side by side; one stands for all"));
  return compiled;
}

Compiled compile(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  validate(plan, profile.model, cluster);
  CostBook book(profile, cluster, book_setting(plan));
  return compile_valid(plan, book);
}

Compiled compile_counted(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  validate(plan, profile.model, cluster);
  CostBook book(profile, cluster, book_setting(plan));
  Compiled compiled = compile_counted_columns(plan, book, 1, true);
  note_what_is_counted(compiled);
  return compiled;
}

Compiled compile_with_norm(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  validate(plan, profile.model, cluster);
  CostBook book(
      profile, cluster,
      {.precision = plan.precision, .sequence = plan.batch.sequence, .kernels = plan.kernels});
  return compile_columns(plan, book, 1, true, GradientNorm::global);
}

}  // namespace stagecraft
