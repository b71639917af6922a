#include "tools/options/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "profiles/error.hpp"
#include "profiles/machine_memory.hpp"
#include "tools/options/shape_options.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

constexpr int most_devices_in_a_row = 1'000'000;
constexpr int most_virtual_stages = 100'000;
constexpr int most_pipes = 1'000;

std::vector<int> stages_of(const ShapeOptions& options) {
  return read_small_integers("--stages", options.stages, 1, most_devices_in_a_row);
}

std::vector<int> virtual_stages_of(const ShapeOptions& options, const ScheduleKind& kind) {
  if (options.virtual_stages.empty()) return {usual_virtual_stages(kind)};
  return read_small_integers("--virtual", options.virtual_stages, 1, most_virtual_stages);
}

/// Everything but what may be a list.
ScheduleShape common_shape(const ShapeOptions& options) {
  ScheduleShape shape{.group = options.group,
                      .in_flight = options.in_flight,
                      .sequence_chunks = options.sequence_chunks,
                      .pipes = options.pipes,
                      .decode_steps = options.decode_steps};
  if (!options.warm_up.empty()) {
    shape.warm_up = read_small_integers("--warmup", options.warm_up, 0, most_microbatches);
  }
  return shape;
}

double instructions_of(const ScheduleShape& shape) {
  constexpr double passes = 2;
  return passes * shape.devices * shape.virtual_stages * shape.microbatches *
         (1 + shape.decode_steps) * shape.sequence_chunks;
}

/// Nobody reads longer tables, nor waits for them.
constexpr double most_points = 10'000;
constexpr double most_instructions_of_sweep = 2e7;

/// Simulating so many takes half a minute; more of them tell nothing that fewer do not.
constexpr double most_instructions = 4e6;

/// Linux promises more memory than there is, and kills who believes it.
void require_room(const ScheduleShape& shape) {
  constexpr double bytes_per_instruction = 500, bytes_per_gibibyte = 1 << 30;
  const double instructions = instructions_of(shape);
  const double needed = instructions * bytes_per_instruction;
  if (instructions > most_instructions) {
    fail_usage(fmt::format(
        "a schedule of {} stages and {} microbatches has {} instructions, more than the {} "
        "that are worked out: ask for fewer of either; a step's time grows in proportion with "
        "microbatches",
        std::int64_t{shape.devices} * shape.virtual_stages, shape.microbatches,
        readable(instructions, 3), readable(most_instructions, 3)));
  }
  // All stages of a step wait for each other: time and memory grow with the square of their number.
  constexpr std::int64_t most_stages = 8192;
  const std::int64_t stages = std::int64_t{shape.devices} * shape.virtual_stages;
  if (stages > most_stages) {
    fail_usage("a schedule of ", stages, " stages is more than the ", most_stages,
               " that are worked out: ask for fewer");
  }
  const auto there = static_cast<double>(usable_memory());
  if (needed <= there) return;
  fail_usage(
      fmt::format("a schedule of {} stages and {} microbatches has {} instructions, which need "
                  "about {} "
                  "GiB of this machine's {} GiB of memory: ask for fewer of either",
                  std::int64_t{shape.devices} * shape.virtual_stages, shape.microbatches,
                  readable(instructions, 3), readable(needed / bytes_per_gibibyte, 3),
                  readable(there / bytes_per_gibibyte, 3)));
}

}  // namespace

void declare_shape(CLI::App& app, ShapeOptions& options) {
  app.add_option("--stages", options.stages, "With a schedule: number of pipeline devices")
      ->type_name("P");
  app.add_option(
         "--virtual", options.virtual_stages,
         "With a schedule: stages per device (1, or 2 where the schedule interleaves or folds)")
      ->type_name("V");
  app.add_option("--group", options.group,
                 "With interleaved: consecutive microbatches per stage; with pipedream-2bw: "
                 "microbatches per update (P)")
      ->type_name("N")
      ->check(CLI::Range(1, most_microbatches));
  app.add_option("--in-flight", options.in_flight,
                 "With zb-auto or zbv-auto: microbatches that fit in each device's memory (P)")
      ->type_name("N")
      ->check(CLI::Range(1, most_microbatches));
  app.add_option("--decode-steps", options.decode_steps,
                 "With inference: further passes of each microbatch, one per token (0)")
      ->type_name("N")
      ->check(CLI::Range(0, most_microbatches));
  app.add_option("--warmup", options.warm_up,
                 "With 1f1b, pipedream or pipedream-2bw: warm-up forwards of each device")
      ->type_name("K0,K1,...");
  app.add_option("--pipes", options.pipes, "With chimera: number of model copies, even (2)")
      ->type_name("N")
      ->check(CLI::Range(1, most_pipes));
  app.add_option("--sequence-chunks", options.sequence_chunks,
                 "With seq1f1b: pieces per sequence (1)")
      ->type_name("K")
      ->check(CLI::Range(1, most_virtual_stages));
}

ScheduleShape shape_from(const ShapeOptions& options, const ScheduleKind& kind, int microbatches) {
  Sweep sweep;
  const std::vector<ScheduleShape> shapes = shapes_from(options, kind, {microbatches}, sweep);
  if (shapes.size() > 1) fail_usage("expected one shape; lists and ranges are for simulate");
  return shapes.front();
}

std::vector<ScheduleShape> shapes_from(const ShapeOptions& options, const ScheduleKind& kind,
                                       const std::vector<int>& microbatches, Sweep& sweep) {
  const std::vector<int> virtual_stages = virtual_stages_of(options, kind);
  std::vector<ScheduleShape> shapes;
  ScheduleShape shape = common_shape(options);
  const std::vector<int> stages = stages_of(options);
  sweep.points += static_cast<double>(stages.size()) * static_cast<double>(virtual_stages.size()) *
                  static_cast<double>(microbatches.size());
  if (sweep.points > most_points) {
    fail_usage("a sweep of ", readable(sweep.points, 3), " points is more than the ", most_points,
               " that one table has: take larger steps (4..128 doubles, 4..128:4 adds 4), or fewer "
               "schedules");
  }
  for (const int devices : stages) {
    for (const int per_device : virtual_stages) {
      for (const int m : microbatches) {
        shape.devices = devices;
        shape.virtual_stages = per_device;
        shape.microbatches = m;
        require_room(shape);
        sweep.instructions += instructions_of(shape);
        if (sweep.instructions > most_instructions_of_sweep) {
          fail_usage(
              fmt::format("this sweep's schedules have more than the {} instructions that are "
                          "worked out in "
                          "one sweep: ask for fewer points, stages or microbatches",
                          readable(most_instructions_of_sweep, 3)));
        }
        shapes.push_back(shape);
      }
    }
  }
  return shapes;
}

}  // namespace stagecraft
