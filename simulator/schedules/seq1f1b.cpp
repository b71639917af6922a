// Seq1F1B (Sun et al., 2024): 1F1B whose units are pieces of sequences. A causal model can send the
// first K-th of a sequence on before it starts the second: a piece's forward needs the keys and
// values of the pieces before it, and its backward their gradients from the pieces behind. So
// the pieces of a microbatch come back in reverse.
//
//   device 0   F0 F1 F2 B1 F3 B0 F4 B3 F5 B2 B5 B4      p = 2, m = 3, K = 2: 0 and 1 are the
//   device 1   F0 F1 B1 F2 B0 F3 B3 F4 B2 F5 B5 B4      first microbatch's pieces
//
// Device r runs p - r - 2 + K forwards ahead. With f and b for a whole microbatch and equal pieces:
//
//   step time      (mK + p - 1)(f + b) / K
//   held at most   min(mK, p - r - 1 + K) pieces

#include <algorithm>
#include <cstdint>

#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/schedules/shape.hpp"

namespace stagecraft {

Schedule seq1f1b(const ScheduleShape& shape) {
  require_positive_counts("seq1f1b", shape);
  refuse_pipes("seq1f1b", shape);
  refuse_virtual_stages("seq1f1b", shape);
  refuse_group("seq1f1b", shape);
  refuse_warm_up("seq1f1b", shape);
  refuse_in_flight("seq1f1b", shape);
  const int chunks = shape.sequence_chunks;
  if (chunks < 1) {
    fail_usage("seq1f1b: the number of sequence chunks must be at least 1, not ", chunks);
  }
  if (chunks > INT32_MAX / shape.microbatches) {
    fail_usage("seq1f1b: ", shape.microbatches, " microbatches of ", chunks,
               " sequence chunks are too many pieces to count");
  }

  Schedule schedule = empty_schedule("seq1f1b", shape);
  schedule.microbatches = shape.microbatches * chunks;
  schedule.sequence_chunks = chunks;
  schedule.parts = chunks;
  for (int r = 0; r < shape.devices; ++r) {
    auto& order = schedule.devices[static_cast<std::size_t>(r)];
    const int warm_up = std::min(shape.devices - r - 2 + chunks, schedule.microbatches);
    int forwards = 0;
    while (forwards < warm_up) order.push_back({Op::forward, r, forwards++});
    for (int unit = 0; unit < schedule.microbatches; ++unit) {
      if (forwards < schedule.microbatches) order.push_back({Op::forward, r, forwards++});
      const int piece = unit % chunks;
      order.push_back({Op::backward, r, unit - piece + chunks - 1 - piece});
    }
  }
  return schedule;
}

}  // namespace stagecraft
