// Closed forms of schedules: step, memory and messages as formulas.
//
// Costs are those of one stage (of v on each device) and one microbatch (of chimera-halving, half
// of one; of seq1f1b, a piece): f forward, b backward, i and w its two halves; c is the latency of
// every edge between devices, which occupies nothing. Updates and collectives take no time. Every
// form is exact under its condition.
//
//   schedule        step, less the work of a device     where
//   gpipe           (p-1)(f+b) + 2(p-1)c                always
//   1f1b            (p-1)(f+b) + 2c(N - floor(N/p))     N = m+p-2; its own warm-up
//   dapple-pb       (p-1)(f+b) + 2(p-1)c                2c <= f+b
//   interleaved     (p-1)(f+b)                          c = 0; as 1f1b if v = 1
//                   (p-1)(f+b) + 2(pv-1)c               c <= f, b; group p
//   looped-bfs      (p-1)(f+b) + 2(p-1)c                m >= p, pc <= (m-p) min(f, b)
//   hanayo          2(p-1)f                             f = b, m = p, c = 0
//   chimera         (p-2)(f + k(b-f))                   k = m/p, 2 pipes, f <= b, c = 0
//   chimera-doubling, chimera-halving
//                   (p-2)(f+b)/2                        2 pipes, f <= b <= 2f, c = 0
//   zb-h1           (p-1)(f + max(0, i-w))              m >= p, c = 0
//   zb-h2           (p-1) max(f, f+i-2w)                m >= 2p-1, c = 0
//   interleaved-zb  (p-1)(f+i-w)                        i >= w, c = 0; as zb-h1 if v = 1
//   zb-v            (p-1)f                              f = i = w, m >= 2p-1, c = 0
//   v-half          (3p-7)f                             f = i = w, m >= 2p, p even >= 4, c = 0
//   v-min           (4p-7)f                             f = i = w, m >= p, 3 divides p, c = 0
//                   (4p-5)f                             f = i = w, m >= p, 3 divides p-1, p > 1, c
//                   = 0
//   dualpipe        (p/2-1)(2f + max(0, i-w))           (p/2-1)(i-f) < f, c = 0
//   dualpipev       (p-1)(2f + max(0, i-w))             (p-1)(i-f) < f, c = 0
//   seq1f1b         (p-1)(f+b)                          c = 0
//   1f1b-decoupled-recompute
//                   (p-1)(f+b) + max(0, m-2)f           p >= 2, r = f <= b, c = 0
//   bpipe           (p-1)(f+b)                          c = 0
//   pipedream, pipedream-vertical-sync, pipedream-2bw
//                   as 1f1b: one more microbatch takes f+b and no ramp
//   inference       (p-1)(f+c) + n max(0, p(f+c) - mf)  n decode steps; n = 0 or p >= 2
//                   0                                   p = 1
//
// GPipe: Huang et al. 2019. 1F1B: Narayanan et al. 2021; its latency term and DAPPLE-PB's (Fan et
// al. 2021) are derived in this project: a warm-up of p - r is the least that hides nothing but
// compute. Interleaved: Narayanan et al., "Efficient large-scale language model training", 2021.
// Looped BFS: Lamy-Poirier 2023. ZB: Qi et al. 2024; what their formulas say for w > i is too low.
// DualPipe: pairs take f + b; what DeepSeek's report says is too low or too high unless f = i >= w.
// Recomputation right before B, after its gradient has arrived, is a longer b. V-Min's constants
// are those of this project's search; where 3 divides p - 2 its memory leaves it a choice, and they
// are smaller.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "simulator/simulate.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// The step of this row of `schedule_kinds` without updates; nothing if no form is known.
std::optional<Duration> closed_step(std::string_view schedule, const ScheduleShape& shape,
                                    const ChunkCosts& stage, Duration transfer = Duration{0});

/// Maximum number of stage activations on each device, released by B or W; nothing if no form is
/// known.
std::optional<std::vector<int>> closed_peaks(std::string_view schedule, const ScheduleShape& shape);

/// Messages between devices, of all microbatches in both directions; nothing for unknown schedules.
std::optional<std::int64_t> closed_messages(std::string_view schedule, const ScheduleShape& shape);

/// 1F1B whose neighbours exchange in blocking pairs (Megatron's send_forward_recv_backward):
/// (m + p - 1)(f + b) + c(2(m + p) - 5), for p >= 3, m >= 2 and c <= f, b.
std::optional<Duration> closed_step_of_blocking_1f1b(const ScheduleShape& shape,
                                                     const ChunkCosts& stage, Duration transfer);

/// V-Min: upper bound on the time per additional microbatch in the long run: max(2(f + i + w), 6
/// max(f, i)). The paper's two thirds of 1F1B's bubble and a constant hold for f = i = w. With a
/// third of 1F1B's memory, six stages of F or I pass per microbatch, and a longer W fills the time
/// between them (equality if 3 divides p - 1 and p >= 7).
Duration longest_period_of_v_min(const ChunkCosts& stage);

}  // namespace stagecraft
