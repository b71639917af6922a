// A transport: how ranks exchange tensors. One per rank; calls come from that rank's thread only.

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

/// How far a clock is ahead, and how far off that may be at most; both 0 on the same machine.
struct ClockOffset {
  Duration ahead{0};
  Duration error{0};
};

/// What a message says of itself, so that a receiver knows it from the one before or behind it.
struct MessageLabel {
  std::int64_t number = 0;  ///< within its channel, from 0
  int stage = 0;            ///< that it was sent to
  int microbatch = 0;
  bool operator==(const MessageLabel&) const = default;
};

/// A message as it arrives.
struct Arrival {
  Tensor tensor;
  MessageLabel label;    ///< as sent
  Late<Moment> sent;     ///< when the sender handed it over
  Late<Moment> arrived;  ///< when it was there to be taken
};

/// Tensors lie in their rank's backend; what is done to them here is done by it. Whoever carries
/// bytes finishes them first (`Backend::finish`); between backends of one process a signal goes
/// with every tensor (`Backend::signal`), and one back when it has been read.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Hands over a tensor (its memory is the transport's until it is delivered). Messages of one
  /// channel arrive in order. Blocks only while the channel already holds its capacity of messages.
  /// `available_at`: not before this moment (emulated links). The label travels with the tensor;
  /// whoever receives compares it (see labels.hpp).
  virtual void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
                    MessageLabel label = {}) = 0;

  /// What this rank's backend is asked for from now on comes when the first `messages` of those
  /// that the rank has sent over the channel have left its memory, which may then be used again.
  virtual void wait_for_delivery(int channel, Backend& backend, long messages) = 0;

  /// Offers memory for the channel's next message that has none yet, as large as that message; does
  /// not wait. The message is copied there as soon as both sides have come, so that the sender's
  /// memory is free however late `receive` is called.
  virtual void post(int channel, Backend& backend, Tensor memory) = 0;

  /// Waits for the channel's next message; the tensor is the posted one, or else new memory of
  /// `backend`.
  virtual Arrival receive(int channel, Backend& backend) = 0;

  /// In place: the sum over the group's members, added up in the order of the group's list (but see
  /// `Wiring::sums_in_order`), bitwise the same on every member.
  virtual void all_reduce(int group, Backend& backend, Tensor& tensor) = 0;

  /// The first half of that: afterwards the member's own shard holds the sum (`shard_of`, by its
  /// place in the list); what else the tensor holds means nothing.
  virtual void reduce_scatter(int group, Backend& backend, Tensor& tensor) = 0;
  /// The second half: afterwards the tensor holds every member's own shard.
  virtual void all_gather(int group, Backend& backend, Tensor& tensor) = 0;

  /// Returns when every rank has called it.
  virtual void barrier() = 0;

  /// What all ranks say, in their order, on rank 0; nothing elsewhere. For control, not for speed;
  /// every rank calls it.
  virtual std::vector<std::string> gather(std::string said) = 0;
  /// What rank 0 says, on every rank. For control; every rank calls it.
  virtual std::string broadcast(std::string said) = 0;

  /// Makes every rank's pending and later calls throw Error (execution) with this reason. The first
  /// reason wins: returns the one that all ranks hear.
  virtual std::string abort(const std::string& reason) = 0;
  /// That reason, once this rank has heard it; for whoever waits for something else meanwhile, on
  /// any thread.
  virtual std::optional<std::string> aborted() { return {}; }

  /// Whether all ranks must call in the program's one global order (`Program::work`), for one
  /// message that is late may keep others waiting.
  virtual bool needs_global_order() const { return false; }

  /// Of this rank's clock (see `now`) against rank 0's.
  virtual ClockOffset clock() const { return {}; }
};

/// What connects the ranks: for each channel its ends and capacity, for each group its members
/// (ranks, in summing order).
struct ChannelEnds {
  int from = 0;
  int to = 0;
  int capacity = 1;  ///< messages that may be under way
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

/// The transport of this process's rank among those that a launcher started, which meet as it
/// allows; collective, see processes.hpp. Throws Error (execution) if they cannot.
std::vector<std::unique_ptr<Transport>> make_process_transports(const Wiring& wiring);

/// The same among processes with a GPU each: tensors of the CUDA backend go by NCCL, what ranks say
/// to each other goes as among those (executor/transports/nccl/). Throws Error (execution) without
/// either, and where there is no GPU.
std::vector<std::unique_ptr<Transport>> make_nccl_transports(const Wiring& wiring);
/// Throws what `make_nccl_transports` would throw on this machine whatever the wiring.
void require_nccl();

/// Makes the transports of the ranks that live in this process, in their order. To add one: write
/// transports/NAME.cpp, declare its maker here, add a row; the contract tests run over the rows.
struct TransportMaker {
  std::string_view name;
  std::vector<std::unique_ptr<Transport>> (*make)(const Wiring& wiring);
  std::string_view summary;
  bool several_processes = false;  ///< a rank each, else a thread each
  bool on_gpus = false;            ///< carries tensors of the CUDA backend, and no others
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
