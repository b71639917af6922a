// A timeline: what happened when, predicted by `simulate` or measured by the executor, and the
// numbers read off it.

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

/// From `time` on, until the next sample.
struct MemorySample {
  Duration time{0};
  MemoryUse use{};
  bool operator==(const MemorySample&) const = default;
};

/// Microbatches [first, first + microbatches) come so many times more than a timeline shows them.
struct Repeat {
  int first = 0;
  int microbatches = 1;
  int times = 0;
  Duration time{0};  ///< by which each time makes all that follows later

  /// How often a microbatch's work comes.
  int count(int microbatch) const {
    return microbatch >= first && microbatch < first + microbatches ? 1 + times : 1;
  }
  Duration added() const { return times * time; }
  bool operator==(const Repeat&) const = default;
};

struct Timeline {
  int devices = 0;
  int stages = 0;
  int microbatches = 0;  ///< that are shown
  /// Counted in all figures below; nothing: the timeline shows everything.
  std::optional<Repeat> repeat = {};
  std::vector<Span> spans;                        ///< by device, then start, then lane
  std::vector<std::vector<MemorySample>> memory;  ///< per device; empty when not known
  bool operator==(const Timeline&) const = default;
};

/// First start to last end on any device.
Duration step_time(const Timeline& timeline);
/// Per device, first start to last end of its own compute.
std::vector<Duration> span_times(const Timeline& timeline);
/// Per device, time in compute (F, B, I, W, R), that of a fused pair once.
std::vector<Duration> busy_times(const Timeline& timeline);
/// 1 - mean(busy) / step.
double bubble(const Timeline& timeline);
/// 1 - busy / span of the device with the longest span: the rate of the zero-bubble papers.
double span_bubble(const Timeline& timeline);
/// Stage activations a device holds at most: taken at the start of F, released at the end of B or I
/// (`until_input`) or B or W; without backwards at the end of F. What is evicted is its partner's
/// from the start to the end of both transfers.
std::vector<int> peak_in_flight(const Timeline& timeline, bool until_input = true);
/// Messages each device sends, activations and gradients.
std::vector<int> messages_sent(const Timeline& timeline, Op op);

struct MemoryPeak {
  Bytes bytes = 0;
  Duration time{0};
  MemoryUse use{};
};
/// Throws Error (usage) if the timeline leaves anything out: `who` needs all of it.
void require_whole(const Timeline& timeline, std::string_view who);

/// Per device: the highest total, the first time it is reached, and what it consists of.
std::vector<MemoryPeak> memory_peaks(const Timeline& timeline);

}  // namespace stagecraft
