// Which matrix kernels this machine computes with.

#pragma once

#include <string>

namespace stagecraft {

/// What OpenBLAS has chosen for this processor, or was told to use (OPENBLAS_CORETYPE): "Haswell",
/// "SkylakeX". Bits are equal only between machines that use the same.
std::string chosen_matmul_kernels();

}  // namespace stagecraft
