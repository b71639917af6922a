// What one rank has under way on its GPU: links to other ranks, operations on them, and an
// attendant that sees them end, or fail.
//
//   rank's thread   start ──→ group of sends and receives on the link's stream ──→ event
//                   await ←── done ─┐                                                │
//   attendant       every 20..200 µs: events done? communicators well? others aborted?
//
// A link is a communicator of its own on a stream of its own. Operations of one link follow each
// other. Whether those of different links wait for each other is up to CUDA, which promises
// nothing; so whoever starts them on all ranks in one global order (simulator/lowering/order.cpp)
// need not know.

#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "executor/transports/nccl/calls.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft::nccl {

struct Settings {
  /// With the other members of a link, from when they know of each other.
  Duration connect_deadline = std::chrono::seconds(60);
  /// Whether the others close their traffic at the same time, as processes do.
  bool closes_together = true;
};

/// Ranks that are to be connected, in the order of their places in the communicator.
struct LinkPlan {
  std::string name;  ///< "from rank 0 to rank 1", "among ranks 0, 2 and 4"
  std::vector<int> members;
  bool is_one_way = false;  ///< from the first to the second
  bool adds_up = false;     ///< by NCCL's own sums
};

/// One tensor of an operation, or a part of it.
struct Piece {
  bool is_sent = false;
  int place = 0;  ///< the other one's, among the link's members
  std::shared_ptr<void> data;
  std::size_t bytes = 0;
};

/// A sum by NCCL itself, in place.
struct NativeSum {
  std::shared_ptr<void> data;
  std::size_t elements = 0;
  Precision precision = Precision::float32;
  bool is_scattered = false;  ///< each member gets its own of as many equal parts
};

/// Pieces that go at the same time. Shared with the attendant: read it through `Traffic`.
struct Operation {
  Event event = nullptr;
  std::vector<Piece> pieces;  ///< kept alive while they are under way, as is the next
  std::shared_ptr<void> summed;
  std::optional<Moment> done;
};

class Traffic {
 public:
  /// Connects this rank with the members of each link that it belongs to, and tries them all. All
  /// ranks call it, with the same plans. Throws Error (execution) if that fails or takes too long,
  /// and if two ranks share a GPU. `control` must outlive it.
  Traffic(Calls& calls, Transport& control, std::vector<LinkPlan> plans, const Settings& settings);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  /// Returns as soon as NCCL has taken it. Pieces without bytes are left out.
  std::shared_ptr<Operation> start(int link, std::vector<Piece> pieces);
  /// All members of the link start the same sum.
  std::shared_ptr<Operation> start(int link, const NativeSum& sum);
  /// When it was done; throws Error (execution) if the ranks stop before.
  Moment await(const Operation& operation);
  bool is_done(const Operation& operation);
  /// Ends all that is under way here, and throws Error (execution) with this reason from now on.
  void stop(const std::string& reason);

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Link {
    LinkPlan plan;
    Communicator communicator = nullptr;
    Stream stream = nullptr;
  };

  template <class Ask>
  void start_group(Lock& lock, const Link& link, const std::shared_ptr<Operation>& operation,
                   const Ask& ask);
  std::vector<UniqueId> exchange_ids(const std::vector<int>& leaders);
  void connect(Link& link, const UniqueId& id);
  void try_out(int link);
  void try_messages(int link);
  void try_sums(int link);
  void await_trial(int link, const Operation& operation);
  void attend();
  bool look_around(Lock& lock);
  bool collect();
  std::optional<std::string> failure();
  void stop_all(const std::string& reason);
  bool abort_links();
  void finish();
  void close();
  void leave_behind();

  /// Until NCCL has done what it said `in_progress` to. The lock is open while this thread sleeps.
  void settle(Lock& lock, const Link& link, Result result, const char* what,
              std::optional<Moment> deadline);
  void require(const Link& link, Result result, const char* what);
  [[noreturn]] void fail_late(const Link& link);
  void throw_if_stopped();

  Calls& calls_;
  Transport& control_;
  Settings settings_;

  std::mutex mutex_;  ///< guards all below, and the use of `calls_`
  std::condition_variable changed_;
  std::map<int, Link> links_;                      ///< of this rank, by their places in the plans
  std::vector<std::shared_ptr<Operation>> asked_;  ///< that NCCL has not said yes to
  std::vector<std::shared_ptr<Operation>> under_way_;
  std::optional<std::string> stopped_;  ///< why
  bool is_over_ = true;                 ///< whether NCCL has let go of what was under way
  bool closing_ = false;
  std::jthread attendant_;  ///< last: it uses all the others
};

}  // namespace stagecraft::nccl
