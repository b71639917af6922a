// The flags that give a schedule its shape, the same for every verb that takes a schedule by name.

#pragma once

#include <optional>
#include <string>

#include "simulator/schedules.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

struct ShapeOptions {
  int stages = 4;  ///< pipeline devices
  std::optional<int> virtual_stages, group, in_flight, pipes;
  int sequence_chunks = 1;
  int decode_steps = 0;
  std::string warm_up;
};

/// --stages --virtual --group --in-flight --decode-steps --warmup --pipes --sequence-chunks.
void declare_shape(CLI::App& app, ShapeOptions& options);

/// With the fewest virtual stages the schedule takes unless they were given. Throws Error (usage)
/// for a malformed list.
ScheduleShape shape_from(const ShapeOptions& options, const ScheduleKind& kind, int microbatches);

}  // namespace stagecraft
