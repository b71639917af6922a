// torch.distributed.pipelining: any modules in any stage, its own schedules. Activation checkpoints
// are the caller's: around each block, or each stage.

#include <algorithm>

#include "planner/targets/rules.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

/// torch/distributed/pipelining/schedules.py: Schedule1F1B wants as many microbatches as stages;
/// ScheduleInterleaved1F1B and ScheduleInterleavedZeroBubble go through them in equal rounds.
std::string torch_refuses(const TargetPipeline& pipeline) {
  const std::string& name = pipeline.schedule.name;
  if (name == "1f1b" && pipeline.microbatches < pipeline.devices) {
    return concat("Schedule1F1B wants as many microbatches as stages: ", pipeline.microbatches,
                  " are fewer than ", pipeline.devices);
  }
  if (name != "interleaved" && name != "interleaved-zb") return {};
  const int rounds = std::max(1, pipeline.microbatches / pipeline.devices);
  if (pipeline.microbatches % rounds == 0) return {};
  return concat("its interleaved schedules take microbatches in ", rounds,
                " equal rounds, which do not divide ", pipeline.microbatches);
}

namespace {

constexpr std::array recompute_in_torch{RecomputeEverywhere::none, RecomputeEverywhere::blocks,
                                        RecomputeEverywhere::stages};

constexpr Target torch_of(std::string_view version) {
  return {.name = "torch",
          .version = version,
          .system = "torch.distributed.pipelining",
          .format = "torch",
          .schedules = torch_schedules,
          .recompute = recompute_in_torch,
          .sharding = whole_states,
          .precision = usual_precisions,
          .kernels = Framework::torch,
          .refuses = torch_refuses};
}

}  // namespace

const Target torch_target = torch_of("2.15.0");
const Target torch_2_11_target = torch_of("2.11");

}  // namespace stagecraft
