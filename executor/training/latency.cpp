#include "executor/training/latency.hpp"

#include <algorithm>
#include <optional>

namespace stagecraft {

std::vector<Duration> request_latencies(const Timeline& timeline) {
  struct Stay {
    std::optional<Duration> start;
    Duration end{0};
  };
  std::vector<Stay> stays(static_cast<std::size_t>(timeline.microbatches));
  for (const Span& span : timeline.spans) {
    if (span.instruction.op != Op::forward) continue;
    Stay& stay = stays[static_cast<std::size_t>(span.instruction.microbatch)];
    stay.start = std::min(stay.start.value_or(span.start), span.start);
    stay.end = std::max(stay.end, span.end);
  }
  std::vector<Duration> latencies;
  for (const Stay& stay : stays) {
    if (stay.start) latencies.push_back(stay.end - *stay.start);
  }
  return latencies;
}

}  // namespace stagecraft
