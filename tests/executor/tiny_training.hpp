// Models and plans so small that hundreds of runs fit into a test.

#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "executor/driver/execute.hpp"
#include "executor/memory/traced_program.hpp"
#include "executor/values/data.hpp"
#include "planner/costs/predict.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/plan_fault.hpp"
#include "profiles/cluster.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/executor/small_network.hpp"
#include "tests/executor/stepped_models.hpp"

namespace stagecraft::tests {

enum class Style { gpt2, llama, qwen3, olmo2, opt, neox, mixtral, qwen3_moe, gemma, network };

/// Of those whose blocks have steps, or experts; else "".
inline std::string family_of(Style style) {
  switch (style) {
    case Style::qwen3: return "qwen3";
    case Style::olmo2: return "olmo2";
    case Style::opt: return "opt";
    case Style::neox: return "gpt_neox";
    case Style::mixtral: return "mixtral";
    case Style::qwen3_moe: return "qwen3_moe";
    case Style::gemma: return "gemma3_text";
    case Style::gpt2:
    case Style::llama:
    case Style::network: break;
  }
  return "";
}

inline Model tiny_model(Style style, bool tied, int heads = 2) {
  if (style == Style::network) return small_networks().front();
  if (!family_of(style).empty()) {
    return stepped_model({.family = family_of(style),
                          .hidden = 6 * heads,
                          .blocks = 6,
                          .heads = heads,
                          .key_value_heads = heads / 2,
                          .inner = 32,
                          .vocabulary = 256,
                          .tied = tied});
  }
  Transformer shape{.hidden = std::int64_t{8} * heads,
                    .heads = heads,
                    .key_value_heads = heads,
                    .head_width = 8,
                    .feed_forward = 32,
                    .vocabulary = 256,
                    .positions = 8,
                    .tied_head = tied};
  if (style == Style::llama) {
    shape.key_value_heads = heads / 2;
    shape.norm = Transformer::Norm::rms_norm;
    shape.activation = Transformer::FeedForward::swiglu;
    shape.position = Transformer::Position::rotary;
    shape.attention_bias = shape.output_bias = shape.feed_forward_bias = false;
  }
  return make_transformer("tiny", shape, 6, 8);
}

/// What a run is about. Layers are spread evenly over the stages, unless it says how.
struct Setting {
  std::string schedule = "1f1b";
  int devices = 1;  ///< pipeline devices
  int virtual_stages = 1;
  int microbatches = 4;
  int rows = 2;               ///< samples of a microbatch
  std::vector<int> replicas;  ///< of each pipeline device; empty: one
  ReplicaPolicy policy = ReplicaPolicy::split;
  Recompute recompute = Recompute::none;
  OptimizerKind optimizer = OptimizerKind::adamw;
  Precision precision = Precision::float32;
  Style style = Style::gpt2;
  bool tied = true;
  Sharding sharding = Sharding::none;
  std::optional<int> group = {};  ///< of interleaved and pipedream-2bw
  std::optional<int> pipes = {};
  std::vector<int> degrees = {};  ///< tensor-parallel, of each pipeline device; empty: one
  int heads = 2;                  ///< of a transformer
  int sequence_chunks = 1;        ///< of seq1f1b
  /// What each of the 8 layers does again by itself; empty: nothing.
  std::vector<Recomputed> again = {};
  std::vector<int> cuts = {};  ///< of the 8 layers; empty: even ones
};

/// Every choice in turn: a block of attention that is dropped, one that is kept, one done again.
inline std::vector<Recomputed> every_choice() {
  using enum Recomputed;
  return {full, selective, none, full, full, selective, none, full};
}

/// Runs end with a layer that recomputes by itself, and with their stage.
inline void end_runs(std::vector<Recomputed>& again) {
  for (std::size_t i = 0; i < again.size(); ++i) {
    if (again[i] != Recomputed::with_next) continue;
    const Recomputed next = i + 1 < again.size() ? again[i + 1] : Recomputed::none;
    if (next == Recomputed::none || next == Recomputed::selective) again[i] = Recomputed::full;
  }
}

/// Runs of layers that recompute together, beside layers that do so by themselves.
inline std::vector<Recomputed> in_runs() {
  using enum Recomputed;
  return {with_next, full, with_next, with_next, full, full, with_next, full};
}

inline std::string describe(const Setting& setting) {
  std::string text = setting.schedule + ", " + std::to_string(setting.devices) + " devices, " +
                     std::to_string(setting.microbatches) + " microbatches";
  for (const int replicas : setting.replicas) text += ", " + std::to_string(replicas) + " replicas";
  for (const int degree : setting.degrees) text += ", degree " + std::to_string(degree);
  text += setting.policy == ReplicaPolicy::split ? ", split" : ", round robin";
  if (setting.recompute == Recompute::full) text += ", recompute";
  for (const Recomputed what : setting.again) text += " " + std::string(to_string(what));
  if (setting.sharding == Sharding::zero1) text += ", zero1";
  if (setting.virtual_stages > 1) text += ", v " + std::to_string(setting.virtual_stages);
  for (const int cut : setting.cuts) text += (cut == 0 ? ", cut at " : " ") + std::to_string(cut);
  if (setting.sequence_chunks > 1) text += ", K " + std::to_string(setting.sequence_chunks);
  return text;
}

/// Devices of each pipeline device's replicas, counted up.
inline std::vector<std::vector<std::vector<int>>> devices_of(const Setting& setting) {
  std::vector<std::vector<std::vector<int>>> devices;
  int next = 0;
  for (int i = 0; i < setting.devices; ++i) {
    auto& replicas = devices.emplace_back();
    const int count = setting.replicas.empty() ? 1 : setting.replicas[static_cast<std::size_t>(i)];
    const int degree = setting.degrees.empty() ? 1 : setting.degrees[static_cast<std::size_t>(i)];
    for (int replica = 0; replica < count; ++replica) {
      auto& peers = replicas.emplace_back();
      for (int peer = 0; peer < degree; ++peer) peers.push_back(next++);
    }
  }
  return devices;
}

inline int device_count(const Setting& setting) {
  int count = 0;
  for (const auto& replicas : devices_of(setting)) {
    for (const auto& peers : replicas) count += static_cast<int>(peers.size());
  }
  return count;
}

inline Plan plan_of(const Setting& setting) {
  Plan plan{.model = "tiny",
            .cluster = std::to_string(device_count(setting)) +
                       (setting.precision == Precision::bfloat16 ? "xh100" : "xcpu"),
            .precision = setting.precision,
            .batch = {.global = std::int64_t{setting.rows} * setting.microbatches,
                      .microbatch = setting.rows,
                      .microbatches = setting.microbatches,
                      .sequence = setting.style == Style::network ? 0 : 8},
            .schedule = {.name = setting.schedule,
                         .virtual_stages = setting.virtual_stages,
                         .group = setting.group,
                         .sequence_chunks = setting.sequence_chunks,
                         .pipes = setting.pipes},
            .weights = find_schedule(setting.schedule).weights,
            .replicas = setting.policy,
            .optimizer = {.kind = setting.optimizer, .sharding = setting.sharding}};
  constexpr int layers = 8;
  const auto devices = devices_of(setting);
  const int stages = setting.devices * setting.virtual_stages;
  const StagePlacement placement = find_schedule(setting.schedule).placement;
  const auto cut = [&](int stage) {
    return setting.cuts.empty() ? layers * stage / stages
                                : setting.cuts[static_cast<std::size_t>(stage)];
  };
  for (int stage = 0; stage < stages; ++stage) {
    plan.stages.push_back(
        {.layers = {cut(stage), cut(stage + 1)},
         .devices =
             devices[static_cast<std::size_t>(device_of_stage(placement, stage, setting.devices))],
         .recompute = setting.recompute});
    Stage& added = plan.stages.back();
    if (!setting.again.empty()) {
      added.again.assign(setting.again.begin() + added.layers.first,
                         setting.again.begin() + added.layers.end);
      end_runs(added.again);
    }
  }
  return plan;
}

/// A plan with everything a run needs.
struct Prepared {
  Plan plan;
  Profile profile;
  Compiled compiled;
  Dataset dataset;
};

inline Prepared prepare(const Setting& setting) {
  Prepared prepared{.plan = plan_of(setting),
                    .profile = {.model = tiny_model(setting.style, setting.tied, setting.heads)},
                    .dataset = setting.style == Style::network ? synthetic_images({2, 4}, 5, 60, 7)
                                                               : synthetic_dataset(256, 2000, 7)};
  prepared.compiled =
      compile(prepared.plan, prepared.profile, parse_cluster(prepared.plan.cluster));
  return prepared;
}

/// Whether the plan is one: stages have layers, and the schedule accepts their number.
inline bool is_legal(const Setting& setting) {
  if (setting.cuts.empty() && setting.devices * setting.virtual_stages > 8) return false;
  const Plan plan = plan_of(setting);
  return !find_fault(plan, tiny_model(setting.style, setting.tied, setting.heads),
                     parse_cluster(plan.cluster));
}

/// With the memory that its layers ask for on CPUs.
inline TracedProgram traced(const Prepared& prepared) {
  const RunOptions options;
  const Training training =
      make_training(prepared.plan, prepared.profile, prepared.dataset, options);
  return trace_program(training, prepared.compiled,
                       ranks_of(prepared.plan, prepared.compiled.program), *make_dry_cpu_backend());
}

inline RunResult run(const Prepared& prepared, const RunOptions& options) {
  return execute(prepared.plan, prepared.profile, prepared.compiled, prepared.dataset, options);
}

inline RunResult reference(const Prepared& prepared, const RunOptions& options) {
  return run_reference(prepared.plan, prepared.profile, prepared.dataset, options);
}

}  // namespace stagecraft::tests
