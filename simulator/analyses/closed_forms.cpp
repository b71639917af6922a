#include "simulator/analyses/closed_forms.hpp"

#include <algorithm>
#include <array>

namespace stagecraft {

namespace {

/// The letters of the formulas.
struct Setting {
  int p, m, v, group, pipes, pieces, decode_steps;
  Duration f, b, i, w, r, c;
};

using Step = std::optional<Duration> (*)(const Setting&);
/// Of device r.
using Peak = std::optional<int> (*)(const Setting&, int r);

constexpr Duration none{0};

// --- Steps --------------------------------------------------------------------------------------

/// What a device does, and the ramps of whole stages at both ends.
Duration with_ramps(const Setting& s) {
  return (s.m * s.v + s.p - 1) * (s.f + s.b);
}

std::optional<Duration> gpipe_step(const Setting& s) {
  return with_ramps(s) + 2 * (s.p - 1) * s.c;
}

std::optional<Duration> one_f_one_b_step(const Setting& s) {
  const int rounds = s.m + s.p - 2;
  return with_ramps(s) + 2 * (rounds - rounds / s.p) * s.c;
}

std::optional<Duration> dapple_pb_step(const Setting& s) {
  if (2 * s.c > s.f + s.b) return {};
  return with_ramps(s) + 2 * (s.p - 1) * s.c;
}

std::optional<Duration> interleaved_step(const Setting& s) {
  if (s.v == 1) return one_f_one_b_step(s);
  if (s.c == none || s.p == 1) return with_ramps(s);
  if (s.group != s.p || s.c > std::min(s.f, s.b)) return {};
  return with_ramps(s) + 2 * (s.p * s.v - 1) * s.c;
}

std::optional<Duration> looped_bfs_step(const Setting& s) {
  if (s.m < s.p || s.p * s.c > (s.m - s.p) * std::min(s.f, s.b)) return {};
  return with_ramps(s) + 2 * (s.p - 1) * s.c;
}

std::optional<Duration> hanayo_step(const Setting& s) {
  if (s.f != s.b || s.m != s.p || s.c != none) return {};
  return s.m * s.v * 2 * s.f + 2 * (s.p - 1) * s.f;
}

Duration split_work(const Setting& s) {
  return s.m * s.v * (s.f + s.i + s.w);
}

std::optional<Duration> zb_h1_step(const Setting& s) {
  if (s.m < s.p || s.c != none) return {};
  return split_work(s) + (s.p - 1) * (s.f + std::max(none, s.i - s.w));
}

std::optional<Duration> zb_h2_step(const Setting& s) {
  if (s.m < 2 * s.p - 1 || s.c != none) return {};
  return split_work(s) + (s.p - 1) * std::max(s.f, s.f + s.i - 2 * s.w);
}

std::optional<Duration> interleaved_zb_step(const Setting& s) {
  if (s.v == 1) return zb_h1_step(s);
  if (s.i < s.w || s.c != none) return {};
  return split_work(s) + (s.p - 1) * (s.f + s.i - s.w);
}

bool all_equal(const Setting& s) {
  return s.f == s.i && s.i == s.w && s.c == none;
}

std::optional<Duration> zb_v_step(const Setting& s) {
  if (!all_equal(s) || s.m < 2 * s.p - 1) return {};
  return split_work(s) + (s.p - 1) * s.f;
}

std::optional<Duration> v_half_step(const Setting& s) {
  if (!all_equal(s) || s.p % 2 != 0 || s.p < 4 || s.m < 2 * s.p) return {};
  return split_work(s) + (3 * s.p - 7) * s.f;
}

std::optional<Duration> v_min_step(const Setting& s) {
  if (!all_equal(s) || s.p < 3 || s.p % 3 == 2 || s.m < s.p) return {};
  return split_work(s) + (4 * s.p - (s.p % 3 == 0 ? 7 : 5)) * s.f;
}

std::optional<Duration> bpipe_step(const Setting& s) {
  return s.c == none ? std::optional(with_ramps(s)) : std::nullopt;
}

/// The first pass drains like any forward; each further one comes a period after the one before.
std::optional<Duration> inference_step(const Setting& s) {
  if (s.p == 1) return (s.decode_steps + 1) * s.m * s.f;
  const Duration period = std::max(s.p * (s.f + s.c), s.m * s.f);
  return s.decode_steps * period + s.m * s.f + (s.p - 1) * (s.f + s.c);
}

std::optional<Duration> decoupled_recompute_step(const Setting& s) {
  if (s.p < 2 || s.r != s.f || s.f > s.b || s.c != none) return {};
  return with_ramps(s) + std::max(0, s.m - 2) * s.f;
}

std::optional<Duration> chimera_step(const Setting& s) {
  if (s.pipes != 2 || s.f > s.b || s.c != none) return {};
  return s.m * (s.f + s.b) + (s.p - 2) * (s.f + s.m / s.p * (s.b - s.f));
}

std::optional<Duration> chimera_doubling_step(const Setting& s) {
  if (s.pipes != 2 || s.f > s.b || s.b > 2 * s.f || s.c != none) return {};
  return s.m * (s.f + s.b) + (s.p - 2) / 2 * (s.f + s.b);
}

std::optional<Duration> chimera_halving_step(const Setting& s) {
  Setting halves = s;
  halves.m *= 2;
  return chimera_doubling_step(halves);
}

/// n devices from the outer end to the turn.
std::optional<Duration> overlapped_step(const Setting& s, int n) {
  if ((n - 1) * (s.i - s.f) >= s.f || s.b != s.i + s.w || s.c != none) return {};
  return split_work(s) + (n - 1) * (2 * s.f + std::max(none, s.i - s.w));
}

std::optional<Duration> dualpipe_step(const Setting& s) {
  return overlapped_step(s, s.p / 2);
}

std::optional<Duration> dualpipev_step(const Setting& s) {
  return overlapped_step(s, s.p);
}

std::optional<Duration> seq1f1b_step(const Setting& s) {
  if (s.c != none) return {};
  return (s.m * s.pieces + s.p - 1) * (s.f + s.b);
}

// --- Peaks --------------------------------------------------------------------------------------

std::optional<int> everything(const Setting& s, int) {
  return s.m * s.v;
}
std::optional<int> one_f_one_b_peak(const Setting& s, int r) {
  return std::min(s.p - r, s.m);
}
std::optional<int> dapple_pb_peak(const Setting& s, int r) {
  return std::min(2 * (s.p - r) - 1, s.m);
}
std::optional<int> interleaved_peak(const Setting& s, int r) {
  if (s.v == 1) return one_f_one_b_peak(s, r);
  return std::min(s.m * s.v, 2 * (s.p - r - 1) + (s.v - 1) * s.group + 1);
}
std::optional<int> zb_h1_peak(const Setting& s, int) {
  return s.m < s.p ? std::nullopt : std::optional(s.p);
}
std::optional<int> zb_h2_peak(const Setting& s, int) {
  return s.m < 2 * s.p - 1 ? std::nullopt : std::optional(2 * s.p - 1);
}
std::optional<int> interleaved_zb_peak(const Setting& s, int r) {
  if (s.v == 1) return zb_h1_peak(s, r);
  return s.group == s.p ? std::optional(s.p * s.v) : std::nullopt;
}
std::optional<int> zb_v_peak(const Setting& s, int) {
  return s.m < 2 * s.p - 1 ? std::nullopt : std::optional(2 * s.p);
}
std::optional<int> chimera_peak(const Setting& s, int r) {
  if (s.pipes != 2) return {};
  return s.p / 2 + 1 + std::min(r, s.p - 1 - r);
}
std::optional<int> twice_chimera_peak(const Setting& s, int r) {
  if (s.pipes != 2) return {};
  return 2 * *chimera_peak(s, r);
}
std::optional<int> dualpipe_peak(const Setting& s, int) {
  return s.p + 1;
}
std::optional<int> dualpipev_peak(const Setting& s, int) {
  return 2 * s.p + 1;
}
std::optional<int> seq1f1b_peak(const Setting& s, int r) {
  return std::min(s.m * s.pieces, s.p - r - 1 + s.pieces);
}
/// C microbatches, or one's own, and what the partner has lent.
std::optional<int> bpipe_peak(const Setting& s, int r) {
  if (s.m < 2 * s.p) return {};
  const int places = (s.p + 3) / 2;
  return r + 1 > places ? s.p + 2 - places : std::min(s.p - r, places);
}
/// What a device holds while it computes.
std::optional<int> one_peak(const Setting&, int) {
  return 1;
}
std::optional<int> unknown_peak(const Setting&, int) {
  return {};
}

// --- Messages -----------------------------------------------------------------------------------

using Messages = std::int64_t (*)(const Setting&);

/// Each microbatch crosses each edge between devices once in either direction.
std::int64_t both_ways(const Setting& s, int edges) {
  return std::int64_t{2} * s.m * edges;
}
std::int64_t chain(const Setting& s) {
  return both_ways(s, s.p - 1);
}
std::int64_t loop(const Setting& s) {
  return both_ways(s, s.p == 1 ? 0 : s.p * s.v - 1);
}
std::int64_t chain_of_halves(const Setting& s) {
  return both_ways(s, 2 * (s.p - 1));
}
std::int64_t chain_of_pieces(const Setting& s) {
  return both_ways(s, s.pieces * (s.p - 1));
}
/// Turns stay on their device.
std::int64_t legs(const Setting& s) {
  return both_ways(s, s.v * (s.p - 1));
}
/// Of m microbatches all but the first C go to the partner and come back.
std::int64_t chain_with_loans(const Setting& s) {
  const int places = (s.p + 3) / 2;
  const int lenders = std::max(0, s.p - places);
  return chain(s) + std::int64_t{2} * lenders * std::max(0, s.m - places);
}
/// Forwards only; tokens come back for each further pass.
std::int64_t passes(const Setting& s) {
  if (s.p == 1) return 0;
  return std::int64_t{s.m} * (s.p - 1 + std::int64_t{s.decode_steps} * s.p);
}

struct Row {
  std::string_view name;
  Step step;
  Peak peak;
  Messages messages;
};

constexpr std::array rows{
    Row{"gpipe", gpipe_step, everything, chain},
    Row{"1f1b", one_f_one_b_step, one_f_one_b_peak, chain},
    Row{"dapple-pb", dapple_pb_step, dapple_pb_peak, chain},
    Row{"interleaved", interleaved_step, interleaved_peak, loop},
    Row{"looped-bfs", looped_bfs_step, everything, loop},
    Row{"hanayo", hanayo_step, unknown_peak, legs},
    Row{"chimera", chimera_step, chimera_peak, chain},
    Row{"chimera-doubling", chimera_doubling_step, twice_chimera_peak, chain},
    Row{"chimera-halving", chimera_halving_step, twice_chimera_peak, chain_of_halves},
    Row{"zb-h1", zb_h1_step, zb_h1_peak, chain},
    Row{"zb-h2", zb_h2_step, zb_h2_peak, chain},
    Row{"interleaved-zb", interleaved_zb_step, interleaved_zb_peak, loop},
    Row{"zb-v", zb_v_step, zb_v_peak, legs},
    Row{"v-half", v_half_step, unknown_peak, legs},
    Row{"v-min", v_min_step, unknown_peak, legs},
    Row{"bpipe", bpipe_step, bpipe_peak, chain_with_loans},
    Row{"pipedream", one_f_one_b_step, one_f_one_b_peak, chain},
    Row{"pipedream-vertical-sync", one_f_one_b_step, one_f_one_b_peak, chain},
    Row{"pipedream-2bw", one_f_one_b_step, one_f_one_b_peak, chain},
    Row{"inference", inference_step, one_peak, passes},
    Row{"dualpipe", dualpipe_step, dualpipe_peak, chain},
    Row{"dualpipev", dualpipev_step, dualpipev_peak, legs},
    Row{"seq1f1b", seq1f1b_step, seq1f1b_peak, chain_of_pieces},
    Row{"1f1b-decoupled-recompute", decoupled_recompute_step, one_f_one_b_peak, chain},
};

const Row* find_row(std::string_view name, const ScheduleShape& shape) {
  if (!shape.warm_up.empty()) return nullptr;
  const auto* row = std::find_if(rows.begin(), rows.end(),
                                 [&](const Row& candidate) { return candidate.name == name; });
  return row == rows.end() ? nullptr : row;
}

Setting setting_of(const ScheduleShape& shape, const ChunkCosts& stage = {},
                   Duration transfer = none) {
  return {.p = shape.devices,
          .m = shape.microbatches,
          .v = shape.virtual_stages,
          .group = shape.group.value_or(shape.devices),
          .pipes = shape.pipes.value_or(2),
          .pieces = shape.sequence_chunks,
          .decode_steps = shape.decode_steps,
          .f = stage.forward,
          .b = stage.backward,
          .i = stage.backward_input,
          .w = stage.backward_weight,
          .r = stage.recompute,
          .c = transfer};
}

}  // namespace

std::optional<Duration> closed_step(std::string_view schedule, const ScheduleShape& shape,
                                    const ChunkCosts& stage, Duration transfer) {
  const Row* row = find_row(schedule, shape);
  if (row == nullptr || stage.update != none || stage.fused) return {};
  return row->step(setting_of(shape, stage, transfer));
}

std::optional<std::vector<int>> closed_peaks(std::string_view schedule,
                                             const ScheduleShape& shape) {
  const Row* row = find_row(schedule, shape);
  if (row == nullptr) return {};
  std::vector<int> peaks;
  for (int r = 0; r < shape.devices; ++r) {
    const std::optional<int> peak = row->peak(setting_of(shape), r);
    if (!peak) return {};
    peaks.push_back(*peak);
  }
  return peaks;
}

std::optional<std::int64_t> closed_messages(std::string_view schedule, const ScheduleShape& shape) {
  const Row* row = find_row(schedule, shape);
  if (row == nullptr) return {};
  return row->messages(setting_of(shape));
}

std::optional<Duration> closed_step_of_blocking_1f1b(const ScheduleShape& shape,
                                                     const ChunkCosts& stage, Duration transfer) {
  const Setting s = setting_of(shape, stage, transfer);
  if (s.p < 3 || s.m < 2 || s.c > std::min(s.f, s.b) || !shape.warm_up.empty()) return {};
  return with_ramps(s) + (2 * (s.m + s.p) - 5) * s.c;
}

Duration longest_period_of_v_min(const ChunkCosts& stage) {
  const Setting s = setting_of({}, stage);
  return std::max(2 * (s.f + s.i + s.w), 6 * std::max(s.f, s.i));
}

}  // namespace stagecraft
