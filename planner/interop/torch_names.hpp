// The schedules of torch.distributed.pipelining by the names that `get_schedule_class` takes, and
// where torch's order is another than ours (torch/distributed/pipelining/schedules.py of 2.15).

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"

namespace stagecraft {

struct TorchScheduleName {
  std::string_view torch;  ///< its class is "Schedule" and this
  std::string_view ours;   ///< of `schedule list`
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

/// Runs any order that it reads from a file.
inline constexpr std::string_view torch_runtime = "_PipelineScheduleRuntime";

/// Our name of "Schedule1F1B", "1F1B" or "1f1b" — torch minds neither case nor the first word —,
/// or of one of our own names and aliases. Throws Error (usage) for another.
std::string_view find_torch_schedule(std::string_view name);

/// The name that has our schedule; none if torch has none.
std::optional<std::string_view> torch_class_of(std::string_view ours);

/// Microbatches that Interleaved1F1B and InterleavedZeroBubble take through a stage in a row: in
/// max(1, M / P) rounds of equal length. None where M is no multiple of the rounds, which torch
/// refuses.
std::optional<int> torch_round(int devices, int microbatches);

/// Why the class of the plan's schedule would refuse the plan, or compute in another order; empty
/// if it does neither, and for schedules without a class.
std::string torch_class_differs(const Plan& plan);

/// What is otherwise in an order that is as good: LoopedBFS goes back from the last microbatch.
/// Empty for most.
std::string torch_class_note(const Plan& plan);

}  // namespace stagecraft
