// A place in the arena for every buffer.
//
// Best fit, in issue order: each new buffer takes the smallest free stretch that is large enough,
// or extends the arena. What counts as free is decided for all timings, not for one: lanes run side
// by side, so that a message may well arrive before a computation that stands earlier in the issue
// order. A stretch is free for a buffer only if its last use *must* have ended when the buffer's
// life begins, whatever anything costs. Hence
//
//   - reuse never delays anything: no timing was possible in which the memory was still in use;
//   - the arena is never smaller than the simulated peak, and larger by what such timings hold.
//
// "Must have ended" follows from the waits. For a device e and any work x, let known_e(x) be how
// many of e's computations have certainly ended before x starts: the most its waits know, and those
// waits themselves. A computation on the buffer's own device has ended if it is among the known. A
// send has ended if the computation that consumes its message on the other device has; the send
// itself need not be waited for. With two stages under 1F1B, for example, F0.2 may reuse the output
// buffer that SF0.0 has sent:
//
//   F0.0 → SF0.0 ⇒ RF1.0 → F1.0 → B1.0 → SB1.0 ⇒ RB0.0 → B0.0 → F0.2
//
// Reuse from one lane to another is written down as a wait, although it holds anyway: the executor
// and the checks need not repeat this reasoning.

#include <algorithm>
#include <array>

#include "profiles/error.hpp"
#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

constexpr Bytes alignment = 64;
constexpr int none = -1;

Bytes aligned(Bytes bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// The device's compute at this position of its order has ended.
struct Condition {
  int device = 0;
  int position = 0;
};

// --- What must have ended -----------------------------------------------------------------------

/// known_e(x) for the works that begin lives, and for the devices e that matter to them.
class Certainty {
 public:
  explicit Certainty(const Draft& draft)
      : draft_(draft),
        position_(draft.program.work.size(), none),
        consumer_(draft.program.work.size(), none),
        row_(draft.program.work.size(), none),
        beginners_(draft.compute.size()),
        peers_(draft.compute.size()) {
    for (const auto& order : draft.compute) {
      for (std::size_t i = 0; i < order.size(); ++i)
        position_[index(order[i])] = static_cast<int>(i);
    }
    find_consumers();
    find_beginners();
    find_peers();
    collect();
  }

  int device_of(int work) const {
    return draft_.program.chunks[index(draft_.program.work[index(work)].chunk)].device;
  }

  /// When it holds, this work (compute or a send) has ended.
  Condition ended(int work) const {
    const int compute = consumer_[index(work)] == none ? work : consumer_[index(work)];
    return {device_of(compute), position_[index(compute)]};
  }

  /// Whether the condition must hold when `work` begins; its device must be the work's own or a
  /// peer of it.
  bool holds(const Condition& condition, int work) const {
    for (const Peer& peer : peers_[index(device_of(work))]) {
      if (peer.device != condition.device) continue;
      return peer.known[index(row_[index(work)])] >= condition.position;
    }
    return false;
  }

 private:
  struct Peer {
    int device = 0;
    std::vector<int> known;  ///< by row: the last position of the peer that must have ended
  };

  /// For each send the first compute that waits for its receive.
  void find_consumers() {
    const std::vector<Work>& work = draft_.program.work;
    std::vector<int> send_of(work.size(), none);
    for (const Wait& wait : draft_.waits) {
      if (work[index(wait.work)].lane == Lane::receive) send_of[index(wait.work)] = wait.on;
    }
    for (const Wait& wait : draft_.waits) {
      if (work[index(wait.on)].lane != Lane::receive) continue;
      int& consumer = consumer_[index(send_of[index(wait.on)])];
      if (consumer == none || wait.work < consumer) consumer = wait.work;
    }
  }

  void find_beginners() {
    for (const KeyedValue& begin : draft_.begins) {
      if (row_[index(begin.value)] != none) continue;
      auto& beginners = beginners_[index(device_of(begin.value))];
      row_[index(begin.value)] = static_cast<int>(beginners.size());
      beginners.push_back(begin.value);
    }
  }

  void add_peer(int device, int peer) {
    auto& peers = peers_[index(device)];
    const auto same = [&](const Peer& known) { return known.device == peer; };
    if (std::none_of(peers.begin(), peers.end(), same))
      peers.push_back({.device = peer, .known = {}});
  }

  void find_peers() {
    for (std::size_t device = 0; device < peers_.size(); ++device) {
      add_peer(static_cast<int>(device), static_cast<int>(device));
    }
    for (const Channel& channel : draft_.program.channels) {
      add_peer(draft_.program.chunks[index(channel.from)].device,
               draft_.program.chunks[index(channel.to)].device);
    }
  }

  void collect() {
    std::vector<KeyedValue> rows;
    for (const Wait& wait : draft_.waits) rows.push_back({wait.work, wait.on});
    const Grouped waits = group_by_key(rows, draft_.program.work.size());
    for (std::size_t device = 0; device < draft_.compute.size(); ++device) {
      const std::vector<int> known = known_of(static_cast<int>(device), waits);
      for (std::size_t other = 0; other < peers_.size(); ++other) {
        for (Peer& peer : peers_[other]) {
          if (peer.device != static_cast<int>(device)) continue;
          for (const int work : beginners_[other]) peer.known.push_back(known[index(work)]);
        }
      }
    }
  }

  /// known_e for all work, in one pass along the global order.
  std::vector<int> known_of(int device, const Grouped& waits) const {
    const std::vector<Work>& work = draft_.program.work;
    std::vector<int> known(work.size(), none);
    std::vector<int> last_compute(draft_.compute.size(), none);
    const auto after = [&](int i) {
      const bool own = work[index(i)].lane == Lane::compute && device_of(i) == device;
      return own ? position_[index(i)] : known[index(i)];
    };
    for (std::size_t i = 0; i < work.size(); ++i) {
      const bool receives = work[i].lane == Lane::receive;
      for (int w = waits.ranges[i].first; w < waits.ranges[i].end; ++w) {
        const int on = waits.values[index(w)];
        known[i] = std::max(known[i], receives ? known[index(on)] : after(on));
      }
      if (work[i].lane != Lane::compute) continue;
      int& last = last_compute[index(device_of(static_cast<int>(i)))];
      if (last != none) known[i] = std::max(known[i], after(last));
      last = static_cast<int>(i);
    }
    return known;
  }

  const Draft& draft_;
  std::vector<int> position_;  ///< of compute in its device's order
  std::vector<int> consumer_;  ///< of sends
  std::vector<int> row_;       ///< of work that begins a life, among its device's
  std::vector<std::vector<int>> beginners_;
  std::vector<std::vector<Peer>> peers_;
};

// --- Best fit -----------------------------------------------------------------------------------

/// A stretch of the arena and the buffer that used it last.
struct Segment {
  Bytes first = 0;
  Bytes end = 0;
  int buffer = 0;
};

/// The works at either end of each buffer's life.
struct Lives {
  Grouped begins;
  Grouped ends;
};

class Arena {
 public:
  Arena(Draft& draft, const Certainty& certainty, const Lives& lives)
      : draft_(draft), certainty_(certainty), lives_(lives) {}

  void place(int buffer) {
    Buffer& what = draft_.program.buffers[index(buffer)];
    const Bytes size = aligned(what.bytes);
    what.offset = best_fit(buffer, size);
    if (what.offset > INT64_MAX - size)
      fail("lower: device ", what.device, " needs too much memory");
    occupy({.first = what.offset, .end = what.offset + size, .buffer = buffer});
  }

  Bytes extent() const { return segments_.empty() ? 0 : segments_.back().end; }

 private:
  template <class Visit>
  void visit(const Grouped& grouped, int buffer, Visit visit) const {
    const IndexRange range = grouped.ranges[index(buffer)];
    for (int i = range.first; i < range.end; ++i) visit(grouped.values[index(i)]);
  }

  /// Whether the former buffer's life must have ended before the later one's begins. Resident
  /// buffers never end.
  bool is_free(int former, int later) const {
    if (lives_.ends.ranges[index(former)].size() == 0) return false;
    bool free = true;
    visit(lives_.ends, former, [&](int end) {
      const Condition ended = certainty_.ended(end);
      visit(lives_.begins, later,
            [&](int begin) { free = free && certainty_.holds(ended, begin); });
    });
    return free;
  }

  /// The offset of the smallest free stretch that is large enough. The last one may grow.
  Bytes best_fit(int buffer, Bytes size) const {
    std::optional<Segment> best;
    Bytes first = 0;
    const auto offer = [&](Bytes end) {
      const bool smaller = !best || end - first < best->end - best->first;
      if (end - first >= size && smaller) best = {first, end, buffer};
    };
    for (const Segment& segment : segments_) {
      if (is_free(segment.buffer, buffer)) continue;
      offer(segment.first);
      first = segment.end;
    }
    offer(extent());
    return best ? best->first : first;
  }

  /// Replaces whatever was in these bytes.
  void occupy(const Segment& taken) {
    std::vector<Segment> segments;
    segments.reserve(segments_.size() + 2);
    for (const Segment& old : segments_) {
      if (old.first < taken.first) {
        segments.push_back({old.first, std::min(old.end, taken.first), old.buffer});
      }
    }
    segments.push_back(taken);
    for (const Segment& old : segments_) {
      if (old.end > taken.end) {
        segments.push_back({std::max(old.first, taken.end), old.end, old.buffer});
      }
      if (old.first < taken.end && taken.first < old.end) wait_for(old.buffer, taken.buffer);
    }
    segments_ = std::move(segments);
  }

  /// Writes reuse down as waits, except from compute to compute, which the lane's order implies.
  void wait_for(int former, int later) {
    visit(lives_.begins, later, [&](int begin) {
      const bool computes = lane(begin) == Lane::compute;
      visit(lives_.ends, former, [&](int end) {
        if (!computes || lane(end) != Lane::compute) add_wait(draft_, begin, end);
      });
    });
  }

  Lane lane(int work) const { return draft_.program.work[index(work)].lane; }

  Draft& draft_;
  const Certainty& certainty_;
  const Lives& lives_;
  std::vector<Segment> segments_;  ///< without gaps
};

}  // namespace

void place_buffers(Draft& draft) {
  Program& program = draft.program;
  program.arena.assign(index(program.devices), 0);
  if (program.buffers.empty()) return;
  const Certainty certainty(draft);
  const Lives lives{.begins = group_by_key(draft.begins, program.buffers.size()),
                    .ends = group_by_key(draft.ends, program.buffers.size())};
  std::vector<Arena> arenas(index(program.devices), Arena(draft, certainty, lives));
  const auto place = [&](int buffer) {
    arenas[index(program.buffers[index(buffer)].device)].place(buffer);
  };
  for (const int buffer : program.resident) place(buffer);
  for (const Work& work : program.work) {
    for (int i = work.allocates.first; i < work.allocates.end; ++i) {
      place(program.allocations[index(i)]);
    }
  }
  for (std::size_t device = 0; device < arenas.size(); ++device) {
    program.arena[device] = arenas[device].extent();
  }
}

}  // namespace stagecraft::lowering
