// A transport: how ranks exchange tensors. One per rank; calls come from that rank's thread only.

#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "executor/backend.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

/// A moment of the process's steady clock, in nanoseconds since the run began.
using Moment = Duration;

/// A message as it arrives.
struct Arrival {
  Tensor tensor;
  Moment sent{0};     ///< when the sender handed it over
  Moment arrived{0};  ///< when it was there to be taken
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Hands over a tensor (its memory is the transport's from now on). Messages of one channel arrive in order. Blocks only
  /// while the channel already holds its capacity of messages. `available_at`: not before this moment (emulated links).
  virtual void send(int channel, Tensor tensor, Moment available_at) = 0;

  /// Waits for the channel's next message; the tensor is in memory of `backend`.
  virtual Arrival receive(int channel, Backend& backend) = 0;

  /// In place: the sum over the group's members, added up in the order of the group's list, bitwise the same on every member.
  virtual void all_reduce(int group, Backend& backend, Tensor& tensor) = 0;

  /// Returns when every rank has called it.
  virtual void barrier() = 0;

  /// Makes every rank's pending and later calls throw Error (execution) with this reason; the first reason wins.
  virtual void abort(const std::string& reason) = 0;
};

/// What connects the ranks: for each channel its ends and capacity, for each group its members (ranks, in summing order).
struct ChannelEnds {
  int from = 0;
  int to = 0;
  int capacity = 1;  ///< messages that may be under way
};
struct Wiring {
  int ranks = 1;
  std::vector<ChannelEnds> channels;
  std::vector<std::vector<int>> groups;
};

/// Transports for ranks that are threads of this process: bounded queues and condition variables, no spinning.
std::vector<std::unique_ptr<Transport>> make_thread_transports(const Wiring& wiring);

}  // namespace stagecraft
