// Inference: forwards only, as vLLM's pipeline parallelism and DeepSpeed's InferenceSchedule.
//
//   device 0   F0 F1 F2 .  F3 F4 F5 .        p = 4 devices, m = 3 batches: one comes round every
//   device 1   .  F0 F1 F2 .  F3 F4 F5       p forwards, as there are too few to fill the pipeline
//   device 2   .  .  F0 F1 F2 .  F3 F4
//   device 3   .  .  .  F0 F1 F2 .  F3
//
// After the first pass (the prompts), each of the m batches goes round `decode_steps` more times:
// pass s of batch k is microbatch s m + k, and its first forward needs the last one of the pass
// before, whose token it continues.
//
//   prefill        (m + p - 1) t
//   token period   max(p t + p c, m t) for p >= 2, with a latency c between devices, also from the
//                  last one to the first

#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view inference_name = "inference";
constexpr int most_passes = 10'000'000;

/// Microbatches of all passes together.
int all_passes(const ScheduleShape& shape) {
  if (shape.decode_steps < 0) {
    fail_usage(inference_name, ": the number of decode steps must be at least 0, not ",
               shape.decode_steps);
  }
  const std::int64_t passes = (std::int64_t{shape.decode_steps} + 1) * shape.microbatches;
  if (passes > most_passes) {
    fail_usage(inference_name, ": ", shape.microbatches, " microbatches and ", shape.decode_steps,
               " decode steps make ", passes, " passes; expected at most ", most_passes);
  }
  return static_cast<int>(passes);
}

}  // namespace

Schedule inference(const ScheduleShape& shape) {
  require_counts(inference_name, shape);
  refuse_virtual_stages(inference_name, shape);
  refuse_group(inference_name, shape);
  refuse_warm_up(inference_name, shape);
  refuse_in_flight(inference_name, shape);

  Schedule schedule = empty_schedule(inference_name, shape);
  schedule.microbatches = all_passes(shape);
  schedule.trains = false;
  schedule.feedback = shape.decode_steps > 0 ? shape.microbatches : 0;
  for (int r = 0; r < shape.devices; ++r) {
    auto& order = schedule.devices[static_cast<std::size_t>(r)];
    for (int k = 0; k < schedule.microbatches; ++k) order.push_back({Op::forward, r, k});
  }
  return schedule;
}

}  // namespace stagecraft
