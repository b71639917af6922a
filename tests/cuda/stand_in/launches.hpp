// Launches of the CUDA module's own kernels: queued like all that a stream is asked for, and
// carried out thread by thread (tests/cuda/simt).

#pragma once

#include "tests/cuda/simt/simt.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace stagecraft::stand_in {

/// `require_arguments` is called before, as work of the stream. What the kernel does wrong becomes
/// a complaint.
void launch(cudaStream_t stream, simt::Launch launch, std::function<void()> require_arguments);

/// Of a kernel: complains unless what its addresses point to may be used now.
template <class Argument>
void require_argument(Argument argument) {
  __builtin_clear_padding(&argument);  // what lies between members is no address
  require_addresses(&argument, sizeof argument);
}

}  // namespace stagecraft::stand_in
