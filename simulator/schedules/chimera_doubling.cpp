// Chimera with forward doubling (Li and Hoefler, SC 2021, section 3.5): for m > p, and a backward
// that takes twice as long as a forward. Each forward slot of Chimera carries two microbatches, so
// that it is as long as the backward of one, and units follow each other without a bubble in
// between.
//
//   device 0   F0 F1 F2 F3 f0 f1 b0 b1 f2 f3 b2 b3 B0 B1 B2 B3      p = 4, m = 8: capitals for the
//   device 1   F0 F1 f0 f1 F2 F3 f2 f3 b0 b1 B0 B1 b2 b3 B2 B3      pipe that goes down
//
// The order is chimera's for pairs of microbatches, each pair's two forwards, and its two
// backwards, next to each other. The two forwards stay two instructions, each sent on as soon as it
// is done. That is a little better than the paper's, where both leave together and the last term
// below is (p - 2)b at b = 2f:
//
//   step time      m(f + b) + (p - 2)(f + b) / 2             two pipes, f <= b <= 2f
//   held at most   twice as much as chimera

#include "simulator/schedules/pipes.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

Schedule chimera_doubling(const ScheduleShape& shape) {
  return in_chimera_slots("chimera-doubling", shape, {.instructions = 2});
}

}  // namespace stagecraft
