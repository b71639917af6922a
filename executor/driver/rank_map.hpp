// The ranks of a program: the tensor-parallel peers of each of its devices, one after another, and
// their connections.
//
//   device    0        1        2 (alone)
//   peers     0   1    0   1    0
//   rank      0   1    2   3    4
//
// Peers do the same work on the same rows, each with its part of the layers, and hold equal
// boundary tensors. So a message goes to every peer of the receiving device, from one peer of the
// sending device (peer j receives from peer j mod the number of senders), and a sum over replicas
// is one sum per peer.

#pragma once

#include <vector>

#include "executor/transports/transport.hpp"
#include "planner/plan/plan.hpp"
#include "profiles/index.hpp"
#include "simulator/values/program.hpp"

namespace stagecraft {

class RankMap {
 public:
  /// `degrees`: the peers of each program device.
  RankMap(const Program& program, std::vector<int> degrees);

  int ranks() const { return static_cast<int>(device_of_.size()); }
  int device_of(int rank) const { return device_of_[index(rank)]; }
  int peer_of(int rank) const { return rank - first_rank_[index(device_of(rank))]; }
  /// Number of peers of the rank's device.
  int degree_of(int rank) const { return degrees_[index(device_of(rank))]; }

  /// The channels and groups of a transport for these ranks.
  const Wiring& wiring() const { return wiring_; }
  /// The transport's channels over which this rank sends the messages of the program's `channel`.
  std::vector<int> channels_from(int rank, int channel) const;
  /// The transport's channel over which this rank, of the receiving device, gets these messages.
  int channel_to(int rank, int channel) const {
    return first_channel_[index(channel)] + peer_of(rank);
  }
  /// The transport's group of this rank for a program's group.
  int group_of(int rank, int group) const { return first_group_[index(group)] + peer_of(rank); }
  /// The transport's group of a rank and its peers, if it has peers.
  int peer_group_of(int rank) const { return peer_group_[index(device_of(rank))]; }

 private:
  void connect(const Program& program);

  std::vector<int> degrees_;  ///< by program device, like the next table
  std::vector<int> first_rank_;
  std::vector<int> device_of_;      ///< by rank
  std::vector<int> first_channel_;  ///< by program channel: one for each receiving peer
  std::vector<int> senders_;        ///< by program channel: the sending device's peers
  std::vector<int> first_group_;    ///< by program group: one for each peer
  std::vector<int> peer_group_;     ///< by program device
  Wiring wiring_;
};

/// One rank for each device of the program.
RankMap one_rank_per_device(const Program& program);

/// One rank for each device of the plan. Throws Error (execution) if devices that sum gradients, or
/// keep evicted activations for each other, have different numbers of peers.
RankMap ranks_of(const Plan& plan, const Program& program);

}  // namespace stagecraft
