// A transport exchanges tensors between ranks. Each rank has one, and only calls it from its own
// thread.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/backends/backend.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

/// By how much a clock is ahead, with the maximum error; both 0 on the same machine.
struct ClockOffset {
  Duration ahead{0};
  Duration error{0};
};

/// The identity of a message, by which a receiver distinguishes it from its neighbours.
struct MessageLabel {
  std::int64_t number = 0;  ///< number within its channel, from 0
  int stage = 0;            ///< stage that it was sent to
  int microbatch = 0;
  bool operator==(const MessageLabel&) const = default;
};

/// A message as it arrives.
struct Arrival {
  Tensor tensor;
  MessageLabel label;    ///< as sent
  Late<Moment> sent;     ///< time at which the sender passed it to the transport
  Late<Moment> arrived;  ///< time at which it was complete at the receiver
};

/// Tensors are in the memory of their rank's backend, which does all arithmetic on them. A
/// transport that copies bytes first finishes pending work on them (`Backend::finish`); between
/// backends of one process, a signal accompanies every tensor (`Backend::signal`), and another one
/// returns when it has been read.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Sends a tensor, whose memory belongs to the transport until it is delivered. Messages of one
  /// channel arrive in order. Blocks only while the channel is full. The message arrives no earlier
  /// than `available_at` (emulated links). The label travels with the tensor, and the receiver
  /// checks it (see labels.hpp).
  virtual void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
                    MessageLabel label = {}) = 0;

  /// Makes later work of this rank's backend wait until the first `messages` messages that the rank
  /// has sent over the channel have left its memory, which may then be reused.
  virtual void wait_for_delivery(int channel, Backend& backend, long messages) = 0;

  /// Posts memory of the right size for the channel's next message without any; does not wait. The
  /// message is copied there as soon as both sides are ready, so that the sender's memory is freed
  /// even if `receive` is called late.
  virtual void post(int channel, Backend& backend, Tensor memory) = 0;

  /// Waits for the channel's next message. Its tensor is the posted memory, or new memory of
  /// `backend`.
  virtual Arrival receive(int channel, Backend& backend) = 0;

  /// Sums the tensor in place over the group's members, in the order of the group's list (but see
  /// `Wiring::sums_in_order`); the result is bitwise equal on every member.
  virtual void all_reduce(int group, Backend& backend, Tensor& tensor) = 0;

  /// The first half of an all-reduce: afterwards the member's own shard holds the sum (`shard_of`,
  /// by its place in the list); the rest of the tensor is undefined.
  virtual void reduce_scatter(int group, Backend& backend, Tensor& tensor) = 0;
  /// The second half of an all-reduce: afterwards the tensor holds every member's own shard.
  virtual void all_gather(int group, Backend& backend, Tensor& tensor) = 0;

  /// Returns when every rank has called it.
  virtual void barrier() = 0;

  /// Returns the strings of all ranks, in their order, on rank 0; empty elsewhere. For control
  /// messages, not for speed; every rank must call it.
  virtual std::vector<std::string> gather(std::string said) = 0;
  /// Returns rank 0's string on every rank. For control messages; every rank must call it.
  virtual std::string broadcast(std::string said) = 0;

  /// Makes every rank's pending and later calls throw Error (execution) with this reason. The first
  /// reason wins; returns the one that all ranks get.
  virtual std::string abort(const std::string& reason) = 0;
  /// The reason of an abort, once this rank has received it; may be called on any thread, by code
  /// that waits for something else.
  virtual std::optional<std::string> aborted() { return {}; }

  /// Whether all ranks must call in the program's global order (`Program::work`), since one late
  /// message may block others.
  virtual bool needs_global_order() const { return false; }

  /// Offset of this rank's clock (see `now`) from rank 0's.
  virtual ClockOffset clock() const { return {}; }
};

/// The connections of the ranks: for each channel its ends and capacity, for each group its members
/// (ranks, in the order of sums).
struct ChannelEnds {
  int from = 0;
  int to = 0;
  int capacity = 1;  ///< maximum number of messages in flight
};
struct Wiring {
  int ranks = 1;
  std::vector<ChannelEnds> channels;
  std::vector<std::vector<int>> groups;
  /// False: a transport whose library has sums of its own (NCCL) may use them. Their order depends
  /// on the machine, so bits differ from those of other transports and numbers of ranks.
  bool sums_in_order = true;
};

/// Transports for ranks that are threads of this process, with tensors in its memory: bounded
/// queues and condition variables, no spinning.
std::vector<std::unique_ptr<Transport>> make_thread_transports(const Wiring& wiring);

/// The transport of this process's rank, among processes that a launcher started; collective (see
/// processes.hpp). Throws Error (execution) if they cannot connect.
std::vector<std::unique_ptr<Transport>> make_process_transports(const Wiring& wiring);

/// As `make_process_transports`, for processes with a GPU each: tensors of the CUDA backend go by
/// NCCL, control messages as above (executor/transports/nccl/). Throws Error (execution) if either
/// is missing, or if there is no GPU.
std::vector<std::unique_ptr<Transport>> make_nccl_transports(const Wiring& wiring);
/// Throws the error that `make_nccl_transports` would throw on this machine for any wiring.
void require_nccl();

/// Makes the transports of this process's ranks, in their order. To add a transport: write
/// transports/NAME.cpp, declare its maker here, add a row; the contract tests run over the rows.
struct TransportMaker {
  std::string_view name;
  std::vector<std::unique_ptr<Transport>> (*make)(const Wiring& wiring);
  std::string_view summary;
  bool several_processes = false;  ///< true: a process per rank; false: a thread per rank
  bool on_gpus = false;            ///< carries only tensors of the CUDA backend
};

inline constexpr std::array transport_makers{
    TransportMaker{"threads", make_thread_transports, "ranks are threads of one process"},
    TransportMaker{"mpi", make_process_transports, "ranks are processes, on one machine or several",
                   true},
    TransportMaker{"tcp", make_process_transports, "the same without MPI, as torchrun starts them",
                   true},
    TransportMaker{"nccl", make_nccl_transports, "ranks are processes with a GPU each", true, true},
};

}  // namespace stagecraft
