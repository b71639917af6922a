#include "executor/backends/cuda/ranges.hpp"

#include <nvtx3/nvToolsExt.h>

namespace stagecraft::cuda {

void open_range(const Instruction& instruction) {
  nvtxRangePushA(to_string(instruction).c_str());
}

void close_range() {
  nvtxRangePop();
}

}  // namespace stagecraft::cuda
