#include "executor/backends/cuda/places.hpp"

#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

int device_of(int rank, const CudaOptions& options, int devices) {
  if (options.gpus.empty()) return rank % devices;
  const int device = options.gpus[static_cast<std::size_t>(rank) % options.gpus.size()];
  if (device < 0 || device >= devices) {
    throw Error(ErrorKind::usage,
                concat("--gpus: there is no GPU ", device, " here; the last one is ", devices - 1));
  }
  return device;
}

}  // namespace

Place place_of(int rank, const CudaOptions& options, int devices) {
  Place place{.device = device_of(rank, options, devices)};
  if (!options.partitions) return place;
  place.parts = 0;
  std::vector<int> ranks_of(static_cast<std::size_t>(devices));
  for (int other = 0; other < options.ranks; ++other) {
    const int device = device_of(other, options, devices);
    ++ranks_of[static_cast<std::size_t>(device)];
    if (device == place.device && other < rank) ++place.part;
  }
  place.parts = ranks_of[static_cast<std::size_t>(place.device)];
  for (const int ranks : ranks_of) {
    if (ranks == 0 || ranks == place.parts) continue;
    throw Error(
        ErrorKind::usage,
        concat("--partitions: ", options.ranks, " ranks do not divide evenly among the GPUs (",
               place.parts, " on one, ", ranks,
               " on another), so their parts would differ; choose GPUs with --gpus, or "
               "leave --partitions out"));
  }
  return place;
}

std::set<int> devices_of_ranks(const CudaOptions& options, int devices) {
  std::set<int> all;
  for (int rank = 0; rank < options.ranks; ++rank) all.insert(device_of(rank, options, devices));
  return all;
}

}  // namespace stagecraft::cuda
