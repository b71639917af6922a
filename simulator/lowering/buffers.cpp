#include "simulator/lowering/passes.hpp"
namespace stagecraft::lowering {
void place_buffers(Draft& draft) {
  draft.program.arena.resize(index(draft.program.devices));
}
}  // namespace stagecraft::lowering
