// Programs written work by work.

#pragma once

#include <vector>

#include "tests/simulator/support.hpp"

namespace stagecraft::tests {

/// A chain of devices with one stage each, whose work is listed in issue order.
struct Builder {
  Program program;

  explicit Builder(int devices, int microbatches) {
    program.devices = program.stages = devices;
    program.microbatches = microbatches;
    program.order.resize(index(devices));
    program.arena.resize(index(devices));
    for (int stage = 0; stage < devices; ++stage) {
      program.chunks.push_back({.stage = stage, .device = stage, .rows = {0, 1}});
    }
    for (int stage = 0; stage + 1 < devices; ++stage) {
      program.channels.push_back(
          {.from = stage, .to = stage + 1, .cargo = Cargo::activation, .rows = {0, 1}, .bytes = 8});
      program.channels.push_back(
          {.from = stage + 1, .to = stage, .cargo = Cargo::gradient, .rows = {0, 1}, .bytes = 8});
    }
  }

  int add(Op op, int stage, int microbatch, const std::vector<int>& waits = {}) {
    Work work{.instruction = {op, stage, microbatch}, .chunk = stage, .lane = lane_of(op)};
    if (op == Op::send_activation) work.channel = 2 * stage;
    if (op == Op::receive_activation) work.channel = 2 * (stage - 1);
    if (op == Op::send_gradient) work.channel = 2 * (stage - 1) + 1;
    if (op == Op::receive_gradient) work.channel = 2 * stage + 1;
    if (op == Op::update) work.weight_version = 1;
    const int first = static_cast<int>(program.waits.size());
    program.waits.insert(program.waits.end(), waits.begin(), waits.end());
    work.waits = {first, static_cast<int>(program.waits.size())};
    const int added = static_cast<int>(program.work.size());
    program.work.push_back(work);
    program.order[index(stage)].push_back(added);
    return added;
  }
};

/// One device, one microbatch: F B U.
inline Program smallest() {
  Builder builder(1, 1);
  builder.add(Op::forward, 0, 0);
  builder.add(Op::backward, 0, 0);
  builder.add(Op::update, 0, 0);
  return builder.program;
}

/// Gives a work its buffers: new entries at the end of the tables.
inline void allocate(Program& program, int work, const std::vector<int>& buffers) {
  const int first = static_cast<int>(program.allocations.size());
  program.allocations.insert(program.allocations.end(), buffers.begin(), buffers.end());
  program.work[index(work)].allocates = {first, static_cast<int>(program.allocations.size())};
}

inline void release(Program& program, int work, const std::vector<int>& buffers) {
  const int first = static_cast<int>(program.releases.size());
  program.releases.insert(program.releases.end(), buffers.begin(), buffers.end());
  program.work[index(work)].frees = {first, static_cast<int>(program.releases.size())};
}

}  // namespace stagecraft::tests
