// The schedules of torch.distributed.pipelining by the names that `get_schedule_class` takes, and
// the cases in which torch's order differs from ours (torch/distributed/pipelining/schedules.py of
// 2.15).

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"

namespace stagecraft {

struct TorchScheduleName {
  std::string_view torch;  ///< name of its class without the prefix "Schedule"
  std::string_view ours;   ///< name in `schedule list`
};

inline constexpr std::array torch_schedule_names{
    TorchScheduleName{"GPipe", "gpipe"},
    TorchScheduleName{"1F1B", "1f1b"},
    TorchScheduleName{"Interleaved1F1B", "interleaved"},
    TorchScheduleName{"LoopedBFS", "looped-bfs"},
    TorchScheduleName{"InterleavedZeroBubble", "interleaved-zb"},
    TorchScheduleName{"ZBVZeroBubble", "zb-v"},
    TorchScheduleName{"DualPipeV", "dualpipev"},
};

/// torch's schedule that runs any order from a file.
inline constexpr std::string_view torch_runtime = "_PipelineScheduleRuntime";

/// Our name for "Schedule1F1B", "1F1B" or "1f1b" (torch ignores case and the prefix), or for one of
/// our own names and aliases. Throws Error (usage) for any other.
std::string_view find_torch_schedule(std::string_view name);

/// torch's name of our schedule; nothing if torch does not have it.
std::optional<std::string_view> torch_class_of(std::string_view ours);

/// Number of consecutive microbatches per stage in Interleaved1F1B and InterleavedZeroBubble, which
/// run max(1, M / P) rounds of equal length. Nothing if M is not a multiple of the rounds, which
/// torch refuses.
std::optional<int> torch_round(int devices, int microbatches);

/// The reason why torch's class for the plan's schedule would refuse the plan or run another order;
/// empty if it does neither, and for schedules without a class.
std::string torch_class_differs(const Plan& plan);

/// A note on an equivalent order that differs: LoopedBFS runs backwards from the last microbatch.
/// Empty for most schedules.
std::string torch_class_note(const Plan& plan);

}  // namespace stagecraft
