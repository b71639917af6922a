// A stand-in for NCCL and CUDA: threads of this process are ranks, the process's memory is that of
// their GPUs. It really moves the bytes, and holds everybody to the rules:
//
//   - a communicator is used only when all members have connected, and not after its end
//   - after a call that goes on by itself nothing else is asked of the communicator until it is
//     done
//   - a thread that begins a group ends it, whatever comes in between; and what ends a communicator
//     is no part of a group of messages
//   - who ends communicators with messages under way ends all at once that wait for each other
//   - a send moves when its receive is there, and not before: nothing is buffered
//   - what one group holds moves side by side; the next group of a stream waits for all of it
//   - a send and its receive have as many bytes
//   - ranks that wait for each other in a circle are named, instead of waiting for ever
//   - nothing is under way on a communicator that ends in peace
//
// What it was asked for can be read afterwards.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/transports/nccl/calls.hpp"
#include "executor/transports/nccl/traffic.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft::tests {

struct NcclManner {
  /// Whether all streams of a GPU follow each other in the order of what they are asked for, as
  /// CUDA may have it.
  bool one_queue = false;
  /// Whether a broken rule makes the communicator fail; NCCL itself would wait, or do something
  /// else.
  bool tells = true;
  /// From the process's memory to the tensors' addresses (DistantBackend::distance).
  std::uintptr_t distance = 0;
  /// By rank; those that name one GPU share it.
  std::vector<std::string> devices = {};
};

/// Something a rank has asked for.
struct NcclCall {
  int rank = 0;
  std::string words;         ///< "send 64 bytes to rank 1"
  std::vector<int> members;  ///< of the communicator, by place
};

class NcclWorld {
 public:
  explicit NcclWorld(NcclManner manner = {});
  ~NcclWorld();

  /// Of one rank; keeps the world alive.
  std::unique_ptr<nccl::Calls> calls_of(int rank);

  /// In the order in which they were broken: which, where and by whom.
  std::vector<std::string> broken_rules() const;
  /// All groups' sends and receives, as they were asked for.
  std::vector<NcclCall> calls() const;

  /// From now on this rank moves nothing, and those connected with it hear that it is gone
  /// (`silent`: never).
  void lose(int rank, bool silent = false);
  /// Its communicators fail by themselves, with this result.
  void fail(int rank, nccl::Result result = nccl::Result::system_error);

 private:
  class State;
  friend class StandInCalls;
  std::shared_ptr<State> state_;
};

/// The transports of all ranks over this world, with threads of this process for control. `wrap`
/// may put something between a rank's transport and its calls.
std::vector<std::unique_ptr<Transport>> make_stand_in_transports(
    NcclWorld& world, const Wiring& wiring,
    const std::function<std::unique_ptr<nccl::Calls>(std::unique_ptr<nccl::Calls>, int)>& wrap = {},
    Duration connect_deadline = std::chrono::seconds(20));

}  // namespace stagecraft::tests
