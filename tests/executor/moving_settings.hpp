// What moves tensors in every way there is.

#pragma once

#include "tests/executor/tiny_training.hpp"

namespace stagecraft::tests {

/// Messages whole and in parts, sums, shards, loans, versions of the weights, ties on one rank and
/// between two. All train bit for bit as one device does.
inline std::vector<Setting> settings_that_move_everything() {
  return {
      {.schedule = "1f1b", .devices = 3, .replicas = {2, 1, 2}, .style = Style::llama},
      {.schedule = "interleaved", .devices = 2, .virtual_stages = 2, .recompute = Recompute::full},
      {.schedule = "gpipe", .devices = 2, .replicas = {2, 2}, .sharding = Sharding::zero1},
      {.schedule = "zb-v", .devices = 2, .virtual_stages = 2},
      {.schedule = "bpipe", .devices = 4, .microbatches = 6},
      {.schedule = "chimera", .devices = 2},
      {.schedule = "pipedream", .devices = 3, .optimizer = OptimizerKind::sgd, .tied = false},
      {.schedule = "pipedream-2bw", .devices = 2, .tied = false},
  };
}

}  // namespace stagecraft::tests
