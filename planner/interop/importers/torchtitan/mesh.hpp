// The degrees of a torchtitan job on a number of devices, and its batch.

#pragma once

#include <cstdint>

#include "planner/interop/importers/torchtitan/settings.hpp"

namespace stagecraft {

/// Degrees of its mesh, in which experts borrow from the others.
struct TitanMesh {
  int replicate = 1, shard = 1, context = 1, tensor = 1, pipeline = 1, expert = 1;
  int replicas() const { return replicate * shard; }
  bool has_fsdp() const { return shard > 1 || context > 1; }
};

/// With what torchtitan leaves to the devices. Throws Error (input) for degrees that do not
/// multiply to them.
TitanMesh read_titan_mesh(const TitanSettings& settings, int devices);

struct TitanBatch {
  std::int64_t global = 0;
  std::int64_t microbatch = 1;  ///< on each replica
  std::int64_t steps = 1;       ///< of accumulation
};

/// Throws Error (input) for batches that do not divide.
TitanBatch read_titan_batch(const TitanSettings& settings, const TitanMesh& mesh);

}  // namespace stagecraft
