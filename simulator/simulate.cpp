#include "simulator/simulate.hpp"

#include <utility>

#include "profiles/error.hpp"
#include "simulator/engines/clock.hpp"
#include "simulator/engines/recording.hpp"
#include "simulator/engines/repeats.hpp"

namespace stagecraft {

namespace {

void note_iteration(Recording& recording, const Program& program, const Clock& clock,
                    int iteration) {
  for (int device = 0; device < program.devices; ++device) {
    for (const int work : program.order[static_cast<std::size_t>(device)]) {
      recording.note(device, {.start = clock.start(work),
                              .end = clock.end(work),
                              .work = work,
                              .iteration = iteration});
    }
  }
}

std::vector<Duration> ends_of(const Program& program, const Clock& clock) {
  std::vector<Duration> ends(program.work.size(), Duration{0});
  for (const std::vector<int>& order : program.order) {
    for (const int work : order) ends[static_cast<std::size_t>(work)] = clock.end(work);
  }
  return ends;
}

}  // namespace

Costs uniform(const Program& program, const ChunkCosts& chunk, Duration transfer) {
  const ChannelCosts channel{.latency = transfer, .occupancy = Duration{0}};
  return {.chunks = std::vector<ChunkCosts>(program.chunks.size(), chunk),
          .channels = std::vector<ChannelCosts>(program.channels.size(), channel),
          .groups = std::vector<Duration>(program.groups.size(), Duration{0})};
}

Timeline simulate(const Program& program, const Costs& costs, const SimulateOptions& options) {
  if (options.iterations < 1) {
    fail("simulate: needs at least one iteration, not ", options.iterations);
  }
  if (options.iterations > 1) require_whole(program, "a run of several iterations");
  Clock clock(program, costs);
  Recording recording(program);
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (iteration > 0 && options.barrier) clock.barrier();
    clock.run();
    note_iteration(recording, program, clock, iteration);
  }
  Timeline timeline = std::move(recording).timeline();
  if (program.left_out) timeline.repeat = RepeatFinder(program).get(ends_of(program, clock));
  return timeline;
}

}  // namespace stagecraft
