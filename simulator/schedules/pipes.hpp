// Schedules of several copies of the model that run through the same devices in different
// directions. Internal to simulator/schedules/.

#pragma once

#include <string_view>

#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// `pipes` copies without instructions yet, each with its share of `microbatches`. Pipe 2i goes
/// down the devices from device i · 2p / pipes on, around the end; pipe 2i + 1 is its mirror image.
/// So each device holds a different stage of every pipe.
Schedule empty_pipes(std::string_view name, const ScheduleShape& shape, int pipes,
                     int microbatches);

/// The contents of one of Chimera's slots: this many instructions, each for 1/parts of a
/// microbatch.
struct ChimeraSlot {
  int instructions = 1;
  int parts = 1;
};

/// Chimera's order (see chimera.cpp). Throws Error (usage) unless p is a multiple of the pipes and
/// the microbatches fill whole units.
Schedule in_chimera_slots(std::string_view name, const ScheduleShape& shape,
                          const ChimeraSlot& slot);

}  // namespace stagecraft
