#include "tests/cuda/stand_in/launches.hpp"

#include "profiles/error.hpp"
#include "tests/cuda/stand_in/machine.hpp"

namespace stagecraft::stand_in {

void launch(cudaStream_t stream, simt::Launch launch, std::function<void()> require_arguments) {
  const simt::Kernel& kernel = *launch.kernel;
  const double threads = static_cast<double>(launch.grid.x) * launch.grid.y * launch.grid.z *
                         static_cast<double>(launch.threads);
  const auto work = [launch = std::move(launch), require_arguments = std::move(require_arguments)] {
    const simt::Kernel& own = *launch.kernel;
    state().launches.push_back({own.name, launch.grid, launch.threads});
    require_arguments();
    try {
      simt::carry_out(launch);
    } catch (const Error& error) {
      complain("launch", error.what());
    }
  };
  enqueue(stream, kernel.name, work, {1000 + threads / 10});
}

std::vector<Launch> launches() {
  const std::lock_guard lock(state().mutex);
  return state().launches;
}

}  // namespace stagecraft::stand_in
