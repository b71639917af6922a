#include "simulator/schedules/pipes.hpp"

#include "simulator/schedules/shape.hpp"

namespace stagecraft {

Schedule empty_pipes(std::string_view name, const ScheduleShape& shape, int pipes,
                     int microbatches) {
  const int p = shape.devices;
  Schedule schedule{.name = std::string(name),
                    .stages = pipes * p,
                    .microbatches = microbatches / pipes,
                    .pipes = pipes};
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int pair = stage / p / 2;
    const int down = (stage % p + pair * 2 * p / pipes) % p;
    const bool mirrored = stage / p % 2 == 1;
    schedule.device_of_stage.push_back(mirrored ? p - 1 - down : down);
  }
  schedule.devices.resize(static_cast<std::size_t>(p));
  return schedule;
}

}  // namespace stagecraft
