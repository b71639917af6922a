// Repeated messages and sums between ranks, timed on the ranks themselves.

#pragma once

#include "executor/transports/transport.hpp"

namespace stagecraft {

/// A round trip between two ranks, from the view of one of them.
struct RoundTrip {
  int there = 0;  ///< channels of the transport
  int back = 0;
  bool begins = false;  ///< this rank sends first
};

/// A tensor of `bytes` zero bytes, a multiple of 4; the zeros are written when this returns.
Tensor zeroed_block(Backend& backend, Bytes bytes);

/// Nanoseconds of one message of `bytes`, a multiple of 4: half of a round trip, the median of
/// many. Both ranks must call it; the result is valid on the one that begins.
double time_message(Transport& transport, Backend& backend, const RoundTrip& trip, Bytes bytes);

/// Nanoseconds of an all-reduce of `bytes`, a multiple of 4; the median of many. Every member of
/// the group must call it.
double time_sum(Transport& transport, Backend& backend, int group, Bytes bytes);

}  // namespace stagecraft
