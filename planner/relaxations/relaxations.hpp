// The relaxations that lower bounds come from, in words. Each ignores something, to which an open
// gap can be attributed.

#pragma once

#include <string_view>

namespace stagecraft {

namespace relaxation {
inline constexpr std::string_view formula =
    "work, memory on average and the ramps of the pipeline, as if layers could be divided";
inline constexpr std::string_view blocks =
    "how many whole blocks each device has room and time for, as if none waited for another";
inline constexpr std::string_view paths =
    "weighted critical paths of the schedule, which see a mean over layouts";
inline constexpr std::string_view paths_of_blocks =
    "weighted critical paths over whole blocks, which see a mean of uneven stages";
inline constexpr std::string_view neighbours =
    "what a few neighbouring stages make each other wait";
inline constexpr std::string_view no_memory =
    "plans without limits of memory: what recomputation costs is not counted";
inline constexpr std::string_view walk =
    "the layouts that were walked through before the effort was spent";
inline constexpr std::string_view fastest_links =
    "stages on any devices, as if all links were the fastest and had no latency";
inline constexpr std::string_view degrees_of_their_own =
    "stages with tensor-parallel degrees of their own, as far as these were searched";
inline constexpr std::string_view work_of_any_plan =
    "plans of every kind: the layers' work alone, spread over all devices, without waits, messages "
    "or memory";
}  // namespace relaxation

}  // namespace stagecraft
