// The event engine: what a program does where links are shared, communication blocks, memory runs
// short, devices slow down or stop.
//
// `simulate` knows none of this and is much faster; with the default environment both agree to the
// nanosecond. Each way of communicating is a few more waits between works (events/policies.cpp);
// what time alone decides (shared links, slowed compute, stops, memory) is left to the engine.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/engines/network.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// How devices wait for their messages. Below, a compute's messages are the sends of its results
/// and the receives it needs.
enum class LinkPolicy {
  async,  ///< a message starts when its data and its channel are ready; nobody waits but who
          ///< needs it
  blocking_pair,  ///< Megatron's and torch's 1F1B: after a compute the device does nothing until
                  ///< its sends, and the next compute's receives from the same peers, are through;
                  ///< then nothing until that one's other receives are. Messages need both ends
                  ///< there
  prefetch,       ///< Megatron's interleaved 1F1B: as async, but each channel has a ring of
                  ///< `Environment::buffers` at its receiver: no message starts before a buffer is
                  ///< free
  in_order,       ///< torch's runtime: all messages of a device go one at a time, in issue order,
                  ///< each starting when it is its turn at both ends
  commit_and_wait,  ///< DualPipe: all messages issued between two computes start together, and are
                    ///< through before the second
  lock_step,  ///< torch's old runtime, DeepSpeed: a step is what lies equally deep in the order
              ///< of computes; it starts when the one before, with its messages, has ended on
              ///< every device
};
/// "async", "blocking-pair", "prefetch", "in-order", "commit-and-wait", "lock-step".
std::string_view to_string(LinkPolicy policy);
LinkPolicy read_link_policy(std::string_view name);

/// What a message needs from its receiver before it starts.
enum class Protocol {
  eager,       ///< nothing
  rendezvous,  ///< the receive is posted: its turn has come (in_order), its exchange or batch has
               ///< (blocking_pair, commit_and_wait), or (else) the device has nothing to compute
               ///< before the work that needs it
  credit,      ///< one of `Environment::buffers` of the channel; the message gives it back when the
               ///< compute that needs it starts
};
std::string_view to_string(Protocol protocol);  ///< "eager", "rendezvous", "credit"
Protocol read_protocol(std::string_view name);

/// The usual one: rendezvous where both ends block, credit for prefetch, else eager.
Protocol usual_protocol(LinkPolicy policy);

/// Multiples of what costs say, in parts per million; an empty table means 1'000'000 throughout.
/// Products are rounded to whole nanoseconds (or bytes), halves up.
struct Factors {
  std::vector<int> work;     ///< by index of work; of computes and collectives
  std::vector<int> device;   ///< of all computes on it
  std::vector<int> channel;  ///< of latency, and of occupancy or bytes
  bool operator==(const Factors&) const = default;
};

/// A device that starts nothing and computes nothing in [at, at + time). What is on its way stays
/// so.
struct Stop {
  int device = 0;
  Duration at{0};
  std::optional<Duration> time;  ///< for good, if not given
  bool operator==(const Stop&) const = default;
};

/// The defaults mean: exactly as `simulate`.
struct Environment {
  LinkPolicy policy = LinkPolicy::async;
  std::optional<Protocol> protocol;  ///< default: the usual one of the policy
  int buffers = 1;                   ///< per channel, where the protocol is `credit`
  Network network;
  /// By lane (send, receive, collective): thousandths of its speed that a device's compute loses
  /// while at least one such work is under way on it; together below 1000.
  std::array<int, lanes.size()> slow_down{};
  Factors factors;
  std::vector<Stop> stops;
  /// Per device; empty: unlimited. A forward that would exceed it waits until other work has freed
  /// enough. Nothing else waits: receives may exceed the limit.
  std::vector<Bytes> memory_limits;
  /// What messages call the program's devices; empty: their own numbers.
  std::vector<int> device_names = {};
};

struct EventRun {
  Timeline timeline;                         ///< what has ended
  std::vector<Duration> waiting_for_memory;  ///< per device: time in which its next forward was
                                             ///< ready but for memory
  /// After a stop for good: per device that has not finished, what it waits for, and so on up to
  /// the device that stopped.
  std::vector<std::string> stranded;
};

/// Exact in integral nanoseconds: times that divide by a rate or a speed are rounded up, once, when
/// they are final. The same input gives the same timeline. Throws Error (check) naming the works
/// that wait for each other if the program cannot proceed though no device has stopped for good,
/// and Error (input) if the environment does not fit the program or a time exceeds what Duration
/// holds.
EventRun run_events(const Program& program, const Costs& costs, const Environment& environment,
                    const SimulateOptions& options = {});

/// Its timeline.
Timeline simulate_events(const Program& program, const Costs& costs, const Environment& environment,
                         const SimulateOptions& options = {});

}  // namespace stagecraft
