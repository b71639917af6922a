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

/// That --microbatches and --warmup take.
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

/// Throws Error (usage) for what is malformed, and for lists.
ScheduleShape shape_from(const ShapeOptions& options, const ScheduleKind& kind, int microbatches);

/// What all schedules of a sweep make together.
struct Sweep {
  double points = 0;
  double instructions = 0;
};

/// Every combination of what lists and ranges give, in the order stages, virtual stages,
/// microbatches, which count in `sweep`. Throws Error (usage) for what is malformed, and for more
/// points or instructions than are worked out.
std::vector<ScheduleShape> shapes_from(const ShapeOptions& options, const ScheduleKind& kind,
                                       const std::vector<int>& microbatches, Sweep& sweep);

}  // namespace stagecraft
