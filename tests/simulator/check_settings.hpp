// Small programs with every kind of memory, for tests that break them.

#pragma once

#include <string>
#include <vector>

#include "tests/simulator/support.hpp"

namespace stagecraft::tests {

inline constexpr Bytes kibi = 1024;

/// Every kind of memory, so that every kind of buffer is made; another size for every stage.
inline ChunkMemory memory_of(int stage) {
  const Bytes unit = kibi * (stage + 1);
  return {.parameters = 8 * unit,
          .gradients = 8 * unit,
          .optimizer = 16 * unit,
          .saved = 4 * unit,
          .saved_for_weight = 2 * unit,
          .input = kibi,
          .output = kibi,
          .workspace = unit};
}

struct Setting {
  std::string schedule = "1f1b";
  int devices = 4;
  int microbatches = 8;
  int virtual_stages = 1;
  int sequence_chunks = 1;
  std::vector<int> replicas;  ///< per stage; empty: one each
  ReplicaPolicy policy = ReplicaPolicy::split;
  int rows = 1;
  Recompute recompute = Recompute::none;
  std::vector<StageTie> ties;
  Sharding sharding = Sharding::none;
  GradientNorm norm = GradientNorm::none;
};

inline Schedule schedule_of(const Setting& setting) {
  return find_schedule(setting.schedule)
      .generate({.devices = setting.devices,
                 .microbatches = setting.microbatches,
                 .virtual_stages = setting.virtual_stages,
                 .sequence_chunks = setting.sequence_chunks});
}

inline Program lowered(const Setting& setting, const Schedule& schedule) {
  LowerOptions options{.replica_policy = setting.policy,
                       .rows = setting.rows,
                       .ties = setting.ties,
                       .sharding = setting.sharding,
                       .norm = setting.norm};
  int device = 0;
  for (const int count : setting.replicas) {
    auto& stage = options.replicas.emplace_back();
    for (int replica = 0; replica < count; ++replica) stage.push_back(device++);
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int count = setting.replicas.empty() ? 1 : setting.replicas[index(stage)];
    options.memory.emplace_back(index(count), memory_of(stage));
    options.boundary.push_back(6 * kibi * (stage + 1));
    options.recompute.push_back(setting.recompute);
  }
  return lower(schedule, options);
}

inline Program lowered(const Setting& setting) {
  return lowered(setting, schedule_of(setting));
}

}  // namespace stagecraft::tests
