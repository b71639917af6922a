// Ranges that profilers show (NVTX): one for each instruction, while the rank asks for it.

#pragma once

#include "simulator/values/instruction.hpp"

namespace stagecraft::cuda {

void open_range(const Instruction& instruction);
void close_range();

}  // namespace stagecraft::cuda
