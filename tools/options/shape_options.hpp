// The flags that give a schedule its shape, the same for every verb that takes a schedule by name.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/schedules/schedules.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Maximum of --microbatches and --warmup.
inline constexpr int most_microbatches = 10'000'000;

/// Flags as they were given.
struct ShapeOptions {
  std::string stages = "4";    ///< pipeline devices; a list or range makes a sweep, …
  std::string virtual_stages;  ///< … here too; empty: the fewest the schedule takes
  std::optional<int> group, in_flight, pipes;
  int sequence_chunks = 1;
  int decode_steps = 0;
  std::string warm_up;
};

/// --stages --virtual --group --in-flight --decode-steps --warmup --pipes --sequence-chunks.
void declare_shape(CLI::App& app, ShapeOptions& options);

/// Throws Error (usage) for malformed values and lists.
ScheduleShape shape_from(const ShapeOptions& options, const ScheduleKind& kind, int microbatches);

/// Totals over all schedules of a sweep.
struct Sweep {
  double points = 0;
  double instructions = 0;
};

/// All combinations of the values in lists and ranges, in the order stages, virtual stages,
/// microbatches, added to the totals in `sweep`. Throws Error (usage) for malformed values, and for
/// more points or instructions than the limits.
std::vector<ScheduleShape> shapes_from(const ShapeOptions& options, const ScheduleKind& kind,
                                       const std::vector<int>& microbatches, Sweep& sweep);

}  // namespace stagecraft
