// Chimera with backward halving (Li and Hoefler, SC 2021, section 3.5): forward doubling without
// its memory. A forward slot carries one whole microbatch, a backward slot half of one, so that
// both are equally long when a backward takes twice as long as a forward.
//
// Instructions are about halves of microbatches: "microbatch" 2i and 2i + 1 of a pipe are the
// halves of its i-th one. Their forwards stand next to each other, as one, and the order is that of
// chimera-doubling for twice as many microbatches of half the size. With f and b for a whole
// microbatch:
//
//   step time      m(f + b) + (p - 2)(f + b) / 4             two pipes, f <= b <= 2f
//   held at most   as much as chimera: twice as many halves

#include "simulator/schedules/pipes.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

Schedule chimera_halving(const ScheduleShape& shape) {
  return in_chimera_slots("chimera-halving", shape, {.instructions = 2, .parts = 2});
}

}  // namespace stagecraft
