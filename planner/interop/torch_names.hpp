// The schedules of torch.distributed.pipelining by the names of their classes.

#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace stagecraft {

struct TorchScheduleName {
  std::string_view torch;
  std::string_view ours;  ///< of `schedule list`
};

inline constexpr std::array torch_schedule_names{
    TorchScheduleName{"ScheduleGPipe", "gpipe"},
    TorchScheduleName{"Schedule1F1B", "1f1b"},
    TorchScheduleName{"ScheduleInterleaved1F1B", "interleaved"},
    TorchScheduleName{"ScheduleLoopedBFS", "looped-bfs"},
    TorchScheduleName{"ScheduleInterleavedZeroBubble", "interleaved-zb"},
    TorchScheduleName{"ScheduleZBVZeroBubble", "zb-v"},
    TorchScheduleName{"ScheduleDualPipeV", "dualpipev"},
};

/// Our name of "Schedule1F1B", "1F1B" or "1f1b" — torch minds neither case nor the first word —,
/// or of one of our own names and aliases. Throws Error (usage) for another.
std::string_view find_torch_schedule(std::string_view name);

/// The class that has our schedule; none if torch has none.
std::optional<std::string_view> torch_class_of(std::string_view ours);

}  // namespace stagecraft
