// Tensor-parallel peers that meet over a transport.

#pragma once

#include <memory>

#include "executor/driver/rank_map.hpp"
#include "executor/layers/layer.hpp"

namespace stagecraft {

/// The transport's rank among its peers; null where it has none. `ranks` and `transport` must
/// outlive it.
std::unique_ptr<TensorPeers> make_peers(const RankMap& ranks, Transport& transport);

/// One of `count` peers whose transport has this group for them, in their order.
std::unique_ptr<TensorPeers> make_peers(int place, int count, int group, Transport& transport);

/// A place among peers, for whoever asks about the shapes of that one's part: sums are left alone.
std::unique_ptr<TensorPeers> make_absent_peers(const RankMap& ranks, int rank);
std::unique_ptr<TensorPeers> make_absent_peers(int place, int count);

}  // namespace stagecraft
