// What the transport asks of NCCL and CUDA. Behind it are libnccl and a GPU (library.cpp), or, in
// tests, a stand-in that moves bytes between threads and holds everybody to NCCL's rules.

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "profiles/model.hpp"
#include "profiles/units.hpp"

namespace stagecraft::nccl {

/// ncclResult_t, with its numbers.
enum class Result : int {
  success,
  unhandled_cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress,
  timeout,  ///< since NCCL 2.30
};

/// ncclUniqueId: by which the members of a communicator find each other.
using UniqueId = std::array<char, 128>;

// Handles; null: none.
using Communicator = void*;
using Stream = void*;
using Event = void*;

/// Of one rank. Not for two threads at once. NCCL's calls do not block: where one answers
/// `in_progress`, `async_error` says when it is done. CUDA's throw Error (execution).
class Calls {
 public:
  virtual ~Calls() = default;

  virtual Result get_unique_id(UniqueId& id) = 0;
  /// Of a communicator that will not block; `place`: this rank's among its members.
  virtual Result init_rank(Communicator& communicator, int members, const UniqueId& id,
                           int place) = 0;
  /// `state`: how it stands with the communicator.
  virtual Result async_error(Communicator communicator, Result& state) = 0;
  /// What the result means, and what NCCL last complained of.
  virtual std::string describe(Result result, Communicator communicator) = 0;
  virtual Result finalize(Communicator communicator) = 0;
  /// Both return when it is gone, and nobody may ask how it is from then on; inside a group, the
  /// group's end does.
  virtual Result destroy(Communicator communicator) = 0;
  virtual Result abort(Communicator communicator) = 0;

  /// Groups are the calling thread's, and hold all that it asks for until the end of the outermost.
  /// If one of its calls has failed, the end begins with none of them, and says so.
  virtual Result group_start() = 0;
  virtual Result group_end() = 0;
  virtual Result send(const void* data, std::size_t bytes, int peer, Communicator communicator,
                      Stream stream) = 0;
  virtual Result receive(void* data, std::size_t bytes, int peer, Communicator communicator,
                         Stream stream) = 0;

  /// In place: all members' sums of so many numbers, added in an order of NCCL's own.
  virtual Result all_reduce(void* data, std::size_t elements, Precision precision,
                            Communicator communicator, Stream stream) = 0;
  /// In place: of as many equal parts as there are members, each member's own becomes the sum.
  virtual Result reduce_scatter(void* data, std::size_t elements_of_part, Precision precision,
                                int place, Communicator communicator, Stream stream) = 0;

  /// "node-1/0000:3b:00.0": two ranks that say the same share a GPU, as NCCL sees it.
  virtual std::string device() = 0;
  virtual Stream make_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  /// Of what the stream has been asked for so far.
  virtual Event record(Stream stream) = 0;
  virtual bool is_done(Event event) = 0;
  virtual void destroy_event(Event event) = 0;
  /// On the GPU, uninitialised, aligned to 256 bytes.
  virtual std::shared_ptr<void> allocate(Bytes bytes) = 0;
};

}  // namespace stagecraft::nccl
