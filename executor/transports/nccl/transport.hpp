// Ranks with a GPU each: tensors go by NCCL, and what ranks say to each other through another
// transport, which needs no GPU.
//
//   send      envelope (shape, moment) ─ control channel ─→ receive     back pressure, clocks,
//   aborts
//             bytes ───────────────────── NCCL link ──────→ post        starts when both have
//             called
//
// A link goes one way from one rank to another; each group has one. So opposite messages do not
// wait for each other, unless CUDA makes streams wait, and then the program's global order keeps
// ranks from waiting in a circle (`needs_global_order`).
//
// Unless NCCL's own are asked for, sums give the bits of the other transports: each member owns a
// shard, gets the others' parts, adds them up in the order of the list, and hands the sum round, by
// sends and receives of one group.

#pragma once

#include <memory>

#include "executor/transports/nccl/traffic.hpp"

namespace stagecraft::nccl {

/// All ranks call it; `control` connects them by the same wiring. Throws Error (execution) if they
/// cannot be connected.
std::unique_ptr<Transport> make_transport(std::unique_ptr<Calls> calls,
                                          std::unique_ptr<Transport> control, const Wiring& wiring,
                                          const Settings& settings = {});

}  // namespace stagecraft::nccl
