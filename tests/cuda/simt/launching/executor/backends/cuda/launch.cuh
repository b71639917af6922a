// What the .cu files find in place of executor/backends/cuda/launch.cuh where tests compile them for
// the CPU: the stand-in's stream is asked for the launch, which is carried out thread by thread.

#pragma once

#include <tuple>

#include "tests/cuda/stand_in/launches.hpp"

namespace stagecraft::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, cudaStream_t stream,
            const Arguments&... arguments) {
  const std::tuple<Parameters...> given(static_cast<Parameters>(arguments)...);
  stand_in::launch(stream,
                   {.kernel = &simt::kernel_at(reinterpret_cast<const void*>(kernel)),
                    .grid = grid,
                    .threads = threads,
                    .work = [kernel, given] { std::apply(kernel, given); }},
                   [given] {
                     std::apply([](const auto&... each) { (stand_in::require_argument(each), ...); },
                                given);
                   });
}

}  // namespace stagecraft::cuda
