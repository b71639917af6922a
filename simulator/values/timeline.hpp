// A timeline: the times of all instructions, predicted by `simulate` or measured by the executor,
// and figures computed from it.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "profiles/units.hpp"
#include "simulator/values/program.hpp"

namespace stagecraft {

struct Span {
  int device = 0;
  Lane lane = Lane::compute;
  Instruction instruction;
  std::optional<int> peer;  ///< the other device of a send or receive
  int iteration = 0;
  Duration start{0};
  Duration end{0};
  Duration time() const { return end - start; }
  bool operator==(const Span&) const = default;
};

/// Memory from `time` on, until the next sample.
struct MemorySample {
  Duration time{0};
  MemoryUse use{};
  bool operator==(const MemorySample&) const = default;
};

/// Microbatches [first, first + microbatches) occur `times` times more than the timeline shows
/// them.
struct Repeat {
  int first = 0;
  int microbatches = 1;
  int times = 0;
  Duration time{0};  ///< delay of all later work by each repetition

  /// How often a microbatch's work occurs.
  int count(int microbatch) const {
    return microbatch >= first && microbatch < first + microbatches ? 1 + times : 1;
  }
  Duration added() const { return times * time; }
  bool operator==(const Repeat&) const = default;
};

struct Timeline {
  int devices = 0;
  int stages = 0;
  int microbatches = 0;  ///< microbatches shown
  /// The repetition that is left out but counted in all figures below; nothing: the timeline is
  /// complete.
  std::optional<Repeat> repeat = {};
  std::vector<Span> spans;                        ///< by device, then start, then lane
  std::vector<std::vector<MemorySample>> memory;  ///< per device; empty if unknown
  bool operator==(const Timeline&) const = default;
};

/// Time from the first start to the last end on any device.
Duration step_time(const Timeline& timeline);
/// Per device, time from the first start to the last end of its own compute.
std::vector<Duration> span_times(const Timeline& timeline);
/// Per device, compute time (F, B, I, W, R); a fused pair counts once.
std::vector<Duration> busy_times(const Timeline& timeline);
/// 1 - mean(busy) / step.
double bubble(const Timeline& timeline);
/// 1 - busy / span of the device with the longest span: the bubble rate of the zero-bubble papers.
double span_bubble(const Timeline& timeline);
/// Maximum number of stage activations on each device: allocated at the start of F, released at the
/// end of B or I (`until_input`) or of B or W; without backwards at the end of F. An evicted
/// activation counts on the partner between the start of the eviction and the end of the load.
std::vector<int> peak_in_flight(const Timeline& timeline, bool until_input = true);
/// Number of messages that each device sends with this operation.
std::vector<int> messages_sent(const Timeline& timeline, Op op);

struct MemoryPeak {
  Bytes bytes = 0;
  Duration time{0};
  MemoryUse use{};
};
/// Throws Error (usage) if the timeline leaves anything out, since `who` needs the complete one.
void require_whole(const Timeline& timeline, std::string_view who);

/// Per device: the highest total, the first time it is reached, and its parts by category.
std::vector<MemoryPeak> memory_peaks(const Timeline& timeline);

}  // namespace stagecraft
