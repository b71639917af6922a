// All schedules. To add one: write schedules/NAME.cpp, declare its function here, add a row.

#pragma once

#include <array>
#include <string>
#include <string_view>

#include "simulator/values/schedule.hpp"

namespace stagecraft {

enum class StagePlacement {
  linear,         ///< stage s on device s
  loop,           ///< s mod p
  vee,            ///< s if s < p else 2p - 1 - s
  wave,           ///< vee of s mod 2p
  bidirectional,  ///< two copies of the model: stage s on device s, its copy p + s on p - 1 - s
};
std::string_view to_string(StagePlacement placement);
/// The pipeline device of a stage.
int device_of_stage(StagePlacement placement, int stage, int devices);
/// The least that this placement makes sense for: 2 where a device holds both legs of a turn.
int fewest_virtual_stages(StagePlacement placement);

struct ScheduleKind {
  std::string_view name;
  std::string_view aliases;  ///< separated by spaces
  /// Emits each stage's backwards in ascending order of microbatches, so that every schedule sums
  /// gradients alike. Throws Error (usage) naming the violated constraint and the nearest legal
  /// value.
  Schedule (*generate)(const ScheduleShape& shape);
  StagePlacement placement;
  bool splits_backward;
  bool synchronous;
  int weight_versions;  ///< minimum number of weight versions of each stage; the number of an
                        ///< asynchronous policy depends on the device: see
                        ///< `weight_versions_in_words`
  std::string_view constraints;
  std::string_view summary;
  WeightPolicy weights = WeightPolicy::flush;
  /// A fused pair's messages between experts run beside the other half's computing.
  bool hides_messages = false;
};
/// "1", "p - r" (on device r of p), …: versions of its weights that a device keeps at once.
std::string weight_versions_in_words(const ScheduleKind& kind);

Schedule bpipe(const ScheduleShape& shape);
Schedule gpipe(const ScheduleShape& shape);
Schedule one_f_one_b(const ScheduleShape& shape);
Schedule chimera(const ScheduleShape& shape);
Schedule chimera_doubling(const ScheduleShape& shape);
Schedule chimera_halving(const ScheduleShape& shape);
Schedule decoupled_recompute(const ScheduleShape& shape);
Schedule dapple_pb(const ScheduleShape& shape);
Schedule dualpipe(const ScheduleShape& shape);
Schedule dualpipev(const ScheduleShape& shape);
Schedule hanayo(const ScheduleShape& shape);
Schedule inference(const ScheduleShape& shape);
Schedule interleaved(const ScheduleShape& shape);
Schedule interleaved_zb(const ScheduleShape& shape);
Schedule looped_bfs(const ScheduleShape& shape);
Schedule pipedream(const ScheduleShape& shape);
Schedule pipedream_2bw(const ScheduleShape& shape);
Schedule pipedream_vertical_sync(const ScheduleShape& shape);
Schedule seq1f1b(const ScheduleShape& shape);
Schedule v_half(const ScheduleShape& shape);
Schedule v_min(const ScheduleShape& shape);
Schedule zb_1p(const ScheduleShape& shape);
Schedule zb_2p(const ScheduleShape& shape);
Schedule zb_auto(const ScheduleShape& shape);
Schedule zb_h1(const ScheduleShape& shape);
Schedule zb_h2(const ScheduleShape& shape);
Schedule zb_v(const ScheduleShape& shape);
Schedule zbv_auto(const ScheduleShape& shape);

inline constexpr std::array schedule_kinds{
    ScheduleKind{"gpipe", "f-then-b fill-drain", gpipe, StagePlacement::linear, false, true, 1,
                 "virtual stages = 1",
                 "all forwards, then all backwards; keeps every microbatch's activations"},
    ScheduleKind{"1f1b", "pipedream-flush dapple-pa", one_f_one_b, StagePlacement::linear, false,
                 true, 1, "virtual stages = 1",
                 "one forward, one backward; device r keeps at most p - r microbatches"},
    ScheduleKind{"dapple-pb", "", dapple_pb, StagePlacement::linear, false, true, 1,
                 "virtual stages = 1",
                 "1f1b with 2(p - r) - 1 forwards ahead: hides transfers and jitter for memory"},
    ScheduleKind{"interleaved", "interleaved-1f1b vpp looped-1f1b looped", interleaved,
                 StagePlacement::loop, false, true, 1, "p <= group <= m; m mod group is 0 or >= p",
                 "1f1b over several stages per device; a smaller bubble, more transfers"},
    ScheduleKind{"looped-bfs", "", looped_bfs, StagePlacement::loop, false, true, 1, "none",
                 "gpipe over several stages per device; each stage works without a break"},
    ScheduleKind{"hanayo", "", hanayo, StagePlacement::wave, false, true, 1,
                 "virtual stages even: two per wave",
                 "folds the pipeline into waves; neighbours at each turn share a device"},
    ScheduleKind{"chimera", "", chimera, StagePlacement::bidirectional, false, true, 1,
                 "pipes even; p divisible by pipes; m by p",
                 "two copies of the model in opposite directions: about half of 1f1b's bubble"},
    ScheduleKind{"chimera-doubling", "", chimera_doubling, StagePlacement::bidirectional, false,
                 true, 1, "pipes even; p divisible by pipes; m by 2p",
                 "chimera with two forwards before two backwards: many microbatches, twice the "
                 "memory"},
    ScheduleKind{"chimera-halving", "", chimera_halving, StagePlacement::bidirectional, false, true,
                 1, "pipes even; p divisible by pipes; m by p",
                 "chimera-doubling with each microbatch cut in two halves: the memory of chimera"},
    ScheduleKind{"zb-h1", "zero-bubble zb", zb_h1, StagePlacement::linear, true, true, 1,
                 "virtual stages = 1",
                 "1f1b with split backwards; weight gradients fill gaps within 1f1b's memory"},
    ScheduleKind{"zb-h2", "", zb_h2, StagePlacement::linear, true, true, 1, "virtual stages = 1",
                 "no device waits once it has started, for twice 1f1b's memory"},
    ScheduleKind{"interleaved-zb", "", interleaved_zb, StagePlacement::loop, true, true, 1,
                 "p <= group <= m; m mod group is 0 or >= p",
                 "zb-h1 over several stages per device"},
    ScheduleKind{"zb-v", "zbv", zb_v, StagePlacement::vee, true, true, 1, "virtual stages = 2",
                 "folds the pipeline into a V: no device waits, within 1f1b's memory"},
    ScheduleKind{"v-half", "", v_half, StagePlacement::vee, true, true, 1, "virtual stages = 2",
                 "half of 1f1b's memory for a smaller bubble than 1f1b's; reckons with durations"},
    ScheduleKind{"v-min", "", v_min, StagePlacement::vee, true, true, 1, "virtual stages = 2",
                 "a third of 1f1b's memory; reckons with durations"},
    ScheduleKind{"zb-auto", "", zb_auto, StagePlacement::linear, true, true, 1,
                 "virtual stages = 1; microbatches in flight >= 1",
                 "the best split backwards found for given durations and memory (in flight: p)"},
    ScheduleKind{"zb-1p", "", zb_1p, StagePlacement::linear, true, true, 1, "virtual stages = 1",
                 "zb-auto with memory for p microbatches"},
    ScheduleKind{"zb-2p", "", zb_2p, StagePlacement::linear, true, true, 1, "virtual stages = 1",
                 "zb-auto with memory for 2p microbatches"},
    ScheduleKind{"zbv-auto", "", zbv_auto, StagePlacement::vee, true, true, 1,
                 "virtual stages = 2; microbatches in flight >= 1", "zb-auto on a V"},
    ScheduleKind{"dualpipe", "", dualpipe, StagePlacement::bidirectional, true, true, 1,
                 "p even; m even, m >= 2p",
                 "two copies in opposite directions; forwards overlap with backwards",
                 WeightPolicy::flush, true},
    ScheduleKind{"dualpipev", "", dualpipev, StagePlacement::vee, true, true, 1,
                 "virtual stages = 2; m >= 2p", "dualpipe cut in half: one copy, folded into a V",
                 WeightPolicy::flush, true},
    ScheduleKind{"seq1f1b", "", seq1f1b, StagePlacement::linear, false, true, 1,
                 "virtual stages = 1; sequence chunks >= 1",
                 "1f1b over pieces of each sequence: a smaller bubble and less memory"},
    ScheduleKind{"1f1b-decoupled-recompute", "mario", decoupled_recompute, StagePlacement::linear,
                 false, true, 1, "virtual stages = 1",
                 "1f1b that rebuilds activations before their gradient arrives"},
    ScheduleKind{"bpipe", "", bpipe, StagePlacement::linear, false, true, 1, "virtual stages = 1",
                 "1f1b whose first devices lend activations to the last: (p + 2)/2 on each"},
    ScheduleKind{"pipedream", "", pipedream, StagePlacement::linear, false, false, 1,
                 "virtual stages = 1",
                 "1f1b that updates after every microbatch: no bubble, old versions of the weights",
                 WeightPolicy::stashing},
    ScheduleKind{"pipedream-vertical-sync", "", pipedream_vertical_sync, StagePlacement::linear,
                 false, false, 1, "virtual stages = 1",
                 "pipedream with one version of the weights for a microbatch on all devices",
                 WeightPolicy::vertical_sync},
    ScheduleKind{"pipedream-2bw", "", pipedream_2bw, StagePlacement::linear, false, false, 2,
                 "virtual stages = 1; group >= p - 1; m is a multiple of group",
                 "updates after each group of microbatches, with two versions of the weights",
                 WeightPolicy::double_buffered},
    ScheduleKind{"inference", "", inference, StagePlacement::linear, false, true, 1,
                 "virtual stages = 1", "forwards only; each batch may come round again per token"},
};

/// Default number of stages per device: two for a schedule that interleaves, since with one it
/// would be another schedule.
int usual_virtual_stages(const ScheduleKind& kind);

/// The row of a name or alias. Throws Error (usage) with the known names and a suggestion.
const ScheduleKind& find_schedule(std::string_view name);

}  // namespace stagecraft
