// Messages and sums between ranks, again and again, timed on the ranks themselves.

#pragma once

#include "executor/transports/transport.hpp"

namespace stagecraft {

/// A way there and a way back between two ranks, as one of them sees it.
struct RoundTrip {
  int there = 0;  ///< channels of the transport
  int back = 0;
  bool begins = false;  ///< this rank sends first
};

/// Memory of `bytes`, a multiple of 4, with zeros in it by the time this returns.
Tensor zeroed_block(Backend& backend, Bytes bytes);

/// Nanoseconds of one message of `bytes`, a multiple of 4: there and back, halved; the median of
/// many. Both ranks call it; it tells the time on the one that begins.
double time_message(Transport& transport, Backend& backend, const RoundTrip& trip, Bytes bytes);

/// Nanoseconds of an all-reduce of `bytes`, a multiple of 4; the median of many. Every member of
/// the group calls it.
double time_sum(Transport& transport, Backend& backend, int group, Bytes bytes);

}  // namespace stagecraft
