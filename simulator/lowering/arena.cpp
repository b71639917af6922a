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
// The evicts and loads of a device have an order of their own, as each waits for the one before:
// for them the same holds, with the transfers of device e in place of its computations. An evict
// has ended if it is among those known, a give-back if its load is.
//
// Reuse from one lane to another is written down as a wait, although it holds anyway: the executor
// and the checks need not repeat this reasoning.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "profiles/error.hpp"
#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

constexpr Bytes alignment = 64;
constexpr int none = -1;

Bytes aligned(Bytes bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// --- What must have ended -----------------------------------------------------------------------

/// The work at this position of a sequence has ended: of a device's compute, or of its evicts and
/// loads. The sequence is one of those that matter to the device where the question arises: the
/// number `peer` of its peers.
struct Condition {
  int peer = 0;
  int position = 0;
};

/// known_e(x) for the works x that begin lives, and for the sequences e that matter to them: the
/// compute of the work's own device (its peer 0) and of those it sends to, and the transfers that
/// its device takes part in.
class Certainty {
 public:
  explicit Certainty(const Draft& draft)
      : draft_(draft),
        device_(draft.program.work.size(), none),
        sequence_(draft.program.work.size(), none),
        position_(draft.program.work.size(), none),
        consumer_(draft.program.work.size(), none),
        row_(draft.program.work.size(), none),
        length_(2 * draft.compute.size(), 0),
        beginners_(draft.compute.size()),
        peers_(draft.compute.size()) {
    for (std::size_t i = 0; i < device_.size(); ++i) {
      device_[i] = draft.program.chunks[index(draft.program.work[i].chunk)].device;
    }
    for (std::size_t device = 0; device < draft.compute.size(); ++device) {
      for (const int item : draft.compute[device]) append(item, static_cast<int>(device));
    }
    for (std::size_t i = 0; i < device_.size(); ++i) {
      const Op op = draft.program.work[i].instruction.op;
      if (op == Op::evict || op == Op::load) append(static_cast<int>(i), transfers_of(device_[i]));
    }
    find_consumers();
    find_beginners();
    find_peers();
    find_known();
  }

  std::size_t peers(int device) const { return peers_[index(device)].size(); }

  /// What must hold so that this work, compute or a send, has ended.
  Condition ended(int work) const {
    const int consumer = consumer_[index(work)];
    const int known_by = consumer == none ? work : consumer;
    return {peer_number(device_[index(work)], sequence_[index(known_by)]),
            position_[index(known_by)]};
  }

  /// The last position of the peer that must have ended when `work` begins.
  int known(int work, std::size_t peer) const {
    return peers_[index(device_[index(work)])][peer].known[index(row_[index(work)])];
  }

 private:
  struct Peer {
    int sequence = 0;
    std::vector<int> known;  ///< by row
  };

  /// Sequences are numbered: the compute of each device, then the transfers of each.
  int transfers_of(int device) const { return static_cast<int>(draft_.compute.size()) + device; }

  void append(int work, int sequence) {
    sequence_[index(work)] = sequence;
    position_[index(work)] = length_[index(sequence)]++;
  }

  /// For each send the first compute that waits for its receive; for a give-back its load. An evict
  /// speaks for itself.
  void find_consumers() {
    const std::vector<Work>& work = draft_.program.work;
    std::vector<int> send_of(work.size(), none);
    for (const Wait& wait : draft_.waits) {
      if (!is_message(draft_, wait)) continue;
      send_of[index(wait.work)] = wait.on;
      if (work[index(wait.work)].instruction.op == Op::load) consumer_[index(wait.on)] = wait.work;
    }
    for (const Wait& wait : draft_.waits) {
      if (work[index(wait.work)].lane != Lane::compute) continue;
      if (work[index(wait.on)].lane != Lane::receive) continue;
      if (work[index(wait.on)].instruction.op == Op::load) continue;
      int& consumer = consumer_[index(send_of[index(wait.on)])];
      if (consumer == none || wait.work < consumer) consumer = wait.work;
    }
  }

  void find_beginners() {
    for (const KeyedValue& begin : draft_.begins) {
      if (row_[index(begin.value)] != none) continue;
      auto& beginners = beginners_[index(device_[index(begin.value)])];
      row_[index(begin.value)] = static_cast<int>(beginners.size());
      beginners.push_back(begin.value);
    }
  }

  int peer_number(int device, int sequence) const {
    const auto& peers = peers_[index(device)];
    const auto found = std::find_if(peers.begin(), peers.end(),
                                    [&](const Peer& peer) { return peer.sequence == sequence; });
    return static_cast<int>(found - peers.begin());
  }

  void find_peers() {
    const auto add = [&](int device, int sequence) {
      auto& peers = peers_[index(device)];
      if (index(peer_number(device, sequence)) == peers.size()) peers.push_back({sequence, {}});
    };
    for (int device = 0; device < draft_.program.devices; ++device) add(device, device);
    for (const Channel& channel : draft_.program.channels) {
      const int from = draft_.program.chunks[index(channel.from)].device;
      const int to = draft_.program.chunks[index(channel.to)].device;
      add(from, to);
      if (channel.cargo != Cargo::evicted) continue;
      const int lender = length_[index(transfers_of(from))] > 0 ? from : to;
      add(from, transfers_of(lender));
    }
  }

  void find_known() {
    std::vector<KeyedValue> rows;
    rows.reserve(draft_.waits.size());
    for (const Wait& wait : draft_.waits) rows.push_back({wait.work, wait.on});
    const Grouped waits = group_by_key(rows, draft_.program.work.size());
    for (std::size_t sequence = 0; sequence < length_.size(); ++sequence) {
      if (length_[sequence] == 0 && sequence >= draft_.compute.size()) continue;
      const std::vector<int> known = known_of(static_cast<int>(sequence), waits);
      for (std::size_t other = 0; other < peers_.size(); ++other) {
        const int number = peer_number(static_cast<int>(other), static_cast<int>(sequence));
        if (index(number) == peers_[other].size()) continue;
        for (const int work : beginners_[other]) {
          peers_[other][index(number)].known.push_back(known[index(work)]);
        }
      }
    }
  }

  /// known_e for all work, in one pass along the global order.
  std::vector<int> known_of(int sequence, const Grouped& waits) const {
    const std::vector<Work>& work = draft_.program.work;
    std::vector<int> known(work.size(), none);
    std::vector<int> last_compute(draft_.compute.size(), none);
    const auto after = [&](int i) {
      return sequence_[index(i)] == sequence ? position_[index(i)] : known[index(i)];
    };
    for (std::size_t i = 0; i < work.size(); ++i) {
      for (int w = waits.ranges[i].first; w < waits.ranges[i].end; ++w) {
        const Wait wait{static_cast<int>(i), waits.values[index(w)]};
        const bool message = is_message(draft_, wait);
        known[i] = std::max(known[i], message ? known[index(wait.on)] : after(wait.on));
      }
      if (work[i].lane != Lane::compute) continue;
      int& last = last_compute[index(device_[i])];
      const std::optional<int> pair = work[i].fused_with;
      if (pair && index(*pair) < i) {
        known[i] = std::max(known[i], known[index(*pair)]);  // they start together
      } else if (last != none) {
        known[i] = std::max(known[i], after(last));
      }
      last = static_cast<int>(i);
    }
    return known;
  }

  const Draft& draft_;
  std::vector<int> device_;    ///< of each work
  std::vector<int> sequence_;  ///< of compute and of transfers
  std::vector<int> position_;  ///< there
  std::vector<int> consumer_;  ///< of sends
  std::vector<int> row_;       ///< of work that begins a life, among its device's
  std::vector<int> length_;    ///< of each sequence
  std::vector<std::vector<int>> beginners_;
  std::vector<std::vector<Peer>> peers_;  ///< per device
};

/// The works at either end of each buffer's life.
struct Lives {
  Grouped begins;
  Grouped ends;
  std::vector<Condition> ended;  ///< parallel to ends.values
};

Lives lives_of(const Draft& draft, const Certainty& certainty) {
  Lives lives{.begins = group_by_key(draft.begins, draft.program.buffers.size()),
              .ends = group_by_key(draft.ends, draft.program.buffers.size()),
              .ended = {}};
  for (const int work : lives.ends.values) lives.ended.push_back(certainty.ended(work));
  return lives;
}

// --- Best fit -----------------------------------------------------------------------------------

/// A stretch of the arena and the buffer that used it last.
struct Segment {
  Bytes first = 0;
  Bytes end = 0;
  int buffer = 0;
};

class Arena {
 public:
  Arena(Draft& draft, const Certainty& certainty, const Lives& lives, int device)
      : draft_(draft), certainty_(certainty), lives_(lives), known_(certainty.peers(device)) {}

  void place(int buffer) {
    Buffer& what = draft_.program.buffers[index(buffer)];
    const Bytes size = aligned(what.bytes);
    look_from(buffer);
    const Segment taken = best_fit(buffer, size);
    what.offset = taken.first;
    occupy(taken);
  }

  Bytes extent() const { return segments_.empty() ? 0 : segments_.back().end; }

 private:
  /// Notes how much of each peer must have ended when this buffer's life begins, whichever work
  /// begins it.
  void look_from(int buffer) {
    std::fill(known_.begin(), known_.end(), std::numeric_limits<int>::max());
    const IndexRange range = lives_.begins.ranges[index(buffer)];
    for (int i = range.first; i < range.end; ++i) {
      for (std::size_t peer = 0; peer < known_.size(); ++peer) {
        const int known = certainty_.known(lives_.begins.values[index(i)], peer);
        known_[peer] = std::min(known_[peer], known);
      }
    }
  }

  /// Whether the former buffer's life must have ended by then. Resident buffers never end.
  bool is_free(int former) const {
    const IndexRange range = lives_.ends.ranges[index(former)];
    for (int i = range.first; i < range.end; ++i) {
      const Condition& ended = lives_.ended[index(i)];
      if (known_[index(ended.peer)] < ended.position) return false;
    }
    return range.size() > 0;
  }

  /// The beginning of the smallest free stretch that is large enough; the last stretch may grow.
  Segment best_fit(int buffer, Bytes size) const {
    std::optional<Segment> best;
    Bytes first = 0;
    const auto offer = [&](Bytes end) {
      const bool smaller = !best || end - first < best->end - best->first;
      if (end - first >= size && smaller) best = {first, end, buffer};
    };
    for (const Segment& segment : segments_) {
      if (is_free(segment.buffer)) continue;
      offer(segment.first);
      first = segment.end;
    }
    offer(extent());
    if (best) first = best->first;
    if (first > std::numeric_limits<Bytes>::max() - size) fail("lower: needs too much memory");
    return {first, first + size, buffer};
  }

  /// Replaces whatever was in these bytes.
  void occupy(const Segment& taken) {
    rebuilt_.clear();
    for (const Segment& old : segments_) {
      if (old.first < taken.first) {
        rebuilt_.push_back({old.first, std::min(old.end, taken.first), old.buffer});
      }
    }
    rebuilt_.push_back(taken);
    for (const Segment& old : segments_) {
      if (old.end > taken.end) {
        rebuilt_.push_back({std::max(old.first, taken.end), old.end, old.buffer});
      }
      if (old.first < taken.end && taken.first < old.end) wait_for(old.buffer, taken.buffer);
    }
    std::swap(segments_, rebuilt_);
  }

  /// Writes reuse down as waits, except from compute to compute, which the lane's order implies.
  void wait_for(int former, int later) {
    const IndexRange ends = lives_.ends.ranges[index(former)];
    const IndexRange begins = lives_.begins.ranges[index(later)];
    for (int b = begins.first; b < begins.end; ++b) {
      const int begin = lives_.begins.values[index(b)];
      for (int e = ends.first; e < ends.end; ++e) {
        const int end = lives_.ends.values[index(e)];
        if (!computes(begin) || !computes(end)) add_wait(draft_, begin, end);
      }
    }
  }

  bool computes(int work) const { return draft_.program.work[index(work)].lane == Lane::compute; }

  Draft& draft_;
  const Certainty& certainty_;
  const Lives& lives_;
  std::vector<int> known_;         ///< by peer, see `look_from`
  std::vector<Segment> segments_;  ///< without gaps
  std::vector<Segment> rebuilt_;   ///< spare room
};

/// Each new buffer is held against all that are there. Some seconds are enough for a device that
/// holds ten thousand microbatches at once, and no device holds more.
void require_few_at_once(const Program& program) {
  constexpr std::int64_t most_looked_at = 400'000'000;
  struct Held {
    std::int64_t now = 0, looked_at = 0;
  };
  std::vector<Held> held(index(program.devices));
  const auto on_device_of = [&](int buffer) -> Held& {
    return held[index(program.buffers[index(buffer)].device)];
  };
  for (const Work& work : program.work) {
    for (int i = work.allocates.first; i < work.allocates.end; ++i) {
      Held& there = on_device_of(program.allocations[index(i)]);
      there.looked_at += there.now++;
      if (there.looked_at <= most_looked_at) continue;
      fail_usage("device ", &there - held.data(), " would hold ", there.now,
                 " buffers at once and more, and looking for a place for each takes too long: ask "
                 "for fewer microbatches, or for a schedule that holds fewer");
    }
    for (int i = work.frees.first; i < work.frees.end; ++i)
      --on_device_of(program.releases[index(i)]).now;
  }
}

}  // namespace

void place_buffers(Draft& draft) {
  Program& program = draft.program;
  program.arena.assign(index(program.devices), 0);
  if (program.buffers.empty()) return;
  require_few_at_once(program);
  const Certainty certainty(draft);
  const Lives lives = lives_of(draft, certainty);
  std::vector<Arena> arenas;
  for (int device = 0; device < program.devices; ++device) {
    arenas.emplace_back(draft, certainty, lives, device);
  }
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
