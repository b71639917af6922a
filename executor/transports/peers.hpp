// Tensor-parallel peers that communicate over a transport.

#pragma once

#include <memory>

#include "executor/driver/rank_map.hpp"
#include "executor/layers/layer.hpp"

namespace stagecraft {

/// The peers of the transport's rank; null if it has none. `ranks` and `transport` must outlive
/// them.
std::unique_ptr<TensorPeers> make_peers(const RankMap& ranks, Transport& transport);

/// The peers of place `place` among `count`, which the transport's group lists in order.
std::unique_ptr<TensorPeers> make_peers(int place, int count, int group, Transport& transport);

/// Peers for a dry run of shapes at this rank's place: sums do nothing.
std::unique_ptr<TensorPeers> make_absent_peers(const RankMap& ranks, int rank);
std::unique_ptr<TensorPeers> make_absent_peers(int place, int count);

}  // namespace stagecraft
