// The event engine: simulates shared links, blocking communication, memory limits, and slow or
// stopped devices.
//
// `simulate` supports none of these and is much faster; with the default environment both agree to
// the nanosecond. Each link policy adds waits between works (events/policies.cpp); effects that
// depend on time (shared links, slowed compute, stops, memory) are handled by the engine.

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
  async,  ///< a message starts when its data and its channel are ready; only works that need it
          ///< wait
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

/// The condition at the receiver under which a message can start.
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

/// Factors of the costs, in parts per million; an empty table means 1'000'000 everywhere. Products
/// are rounded to whole nanoseconds (or bytes), halves up.
struct Factors {
  std::vector<int> work;     ///< by index of work; for computes and collectives
  std::vector<int> device;   ///< by device; for all its computes
  std::vector<int> channel;  ///< by channel; for latency, and occupancy or bytes
  bool operator==(const Factors&) const = default;
};

/// A device that starts and computes nothing in [at, at + time). Messages in flight continue.
struct Stop {
  int device = 0;
  Duration at{0};
  std::optional<Duration> time;  ///< nothing: permanently
  bool operator==(const Stop&) const = default;
};

/// Conditions of a run. With the defaults, the result equals that of `simulate`.
struct Environment {
  LinkPolicy policy = LinkPolicy::async;
  std::optional<Protocol> protocol;  ///< nothing: the usual one of the policy
  int buffers = 1;                   ///< per channel, under the protocol `credit`
  Network network;
  /// By lane (send, receive, collective): thousandths of its speed that a device's compute loses
  /// while such work is in progress on it; the sum must be below 1000.
  std::array<int, lanes.size()> slow_down{};
  Factors factors;
  std::vector<Stop> stops;
  /// Per device; empty: unlimited. A forward that would exceed the limit waits until other work has
  /// freed enough memory. Only forwards wait: receives may exceed the limit.
  std::vector<Bytes> memory_limits;
  /// Names of the program's devices in messages; empty: their own numbers.
  std::vector<int> device_names = {};
};

struct EventRun {
  Timeline timeline;                         ///< the works that have ended
  std::vector<Duration> waiting_for_memory;  ///< per device: time in which its next forward only
                                             ///< lacked memory
  /// After a permanent stop: for each unfinished device, the chain of waits up to the stopped
  /// device.
  std::vector<std::string> stranded;
};

/// Exact in whole nanoseconds: quotients by a rate or a speed are rounded up once, when they are
/// final. The same input gives the same timeline. Throws Error (check), naming the works that wait
/// for each other, if the program deadlocks without a permanently stopped device; Error (input) if
/// the environment does not fit the program or a time exceeds the range of Duration.
EventRun run_events(const Program& program, const Costs& costs, const Environment& environment,
                    const SimulateOptions& options = {});

/// The timeline of `run_events`.
Timeline simulate_events(const Program& program, const Costs& costs, const Environment& environment,
                         const SimulateOptions& options = {});

}  // namespace stagecraft
