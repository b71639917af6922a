// Messages on their way across shared links. Internal to the simulator.

#pragma once

#include <cstdint>
#include <vector>

#include "simulator/engines/events/time.hpp"
#include "simulator/engines/network.hpp"

namespace stagecraft::events {

/// Flows in progress. Whole numbers only: a rate is in bytes per second, so that a flow moves on by
/// `rate` billionths of a byte in each nanosecond. What a division leaves over is not given to
/// anybody (below one byte per second for each flow of a link); a flow's last nanosecond may be
/// used in part.
class Traffic {
 public:
  /// Throws Error (input) for a link without bandwidth.
  explicit Traffic(const Network& network);

  /// A flow starts; it gets its rate by `share`. Of those that start at the same instant, the lower
  /// rank comes first.
  void begin(int flow, int rank, const Route& route, Bytes bytes, Time now);
  /// A flow whose last byte is through leaves its links.
  void end(int flow);
  /// When a flow will be through at the present rates.
  Time due(int flow) const;
  /// Bytes per second since the last `share`; zero for a flow that waits for its turn.
  std::int64_t rate(int flow) const;
  /// Whether flows have begun or ended since the last `share`.
  bool changed() const { return !changed_.empty() || !arrivals_.empty(); }

  struct Due {
    int flow = 0;
    Time time = 0;
  };
  /// Gives every flow its rate from now on; the answer lists those whose end has moved, until the
  /// next call. To be called when all that begins and ends now has done so.
  const std::vector<Due>& share(Time now);

 private:
  struct Flow {
    int name = 0;
    int rank = 0;
    const Route* route = nullptr;
    Wide left = 0;  ///< billionths of a byte, at `since`
    Time since = 0;
    std::int64_t rate = 0;
    Time due = never;
    bool affected = false;
  };
  struct LinkState {
    std::int64_t bandwidth = 0;
    std::vector<int> flows;  ///< slots; under fifo in order of arrival
    bool affected = false;
    int open = 0;            ///< while shares are worked out: flows without a rate, …
    std::int64_t spare = 0;  ///< … bandwidth for them, …
    std::int64_t share = 0;  ///< … and for each of them
  };
  static constexpr Time never = INT64_MAX;

  void share_fairly(Time now);
  void gather_affected();
  void find_tightest();
  void fix_tightest(Time now);
  void fix_flows(const LinkState& link, Time now);
  void serve_in_order(Time now);
  static Wide moved_on(const Flow& flow, Time now);
  static Time time_through(Wide left, std::int64_t rate, Time now);
  void set_rate(Flow& flow, std::int64_t rate, Time now);

  Sharing sharing_;
  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<int> free_slots_;
  std::vector<int> slot_of_;         // by name
  std::vector<int> changed_;         // links
  std::vector<int> arrivals_;        // slots, of fifo
  std::vector<int> affected_links_;  // while shares are worked out
  std::vector<int> tightest_;        // likewise
  std::vector<Due> moved_;
};

}  // namespace stagecraft::events
