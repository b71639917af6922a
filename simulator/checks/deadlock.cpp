// Deadlock: the program runs with one compute lane and one communication lane per device, and
// channels that buffer a given number of messages, first in, first out. Without any, every send
// blocks until its receive is reached; what gets through this gets through anything more generous:
// buffered sends, more lanes.
//
// If it gets stuck, every lane that has not finished waits at its first unfinished work for another
// lane; following these waits must come back to where it has been, and that circle is the message.

#include <algorithm>
#include <optional>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/checks/rendezvous.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

/// "blocking, unbuffered sends", "1 message in flight per channel".
std::string conditions(int messages_in_flight) {
  if (messages_in_flight == 0) return "blocking, unbuffered sends";
  return concat(count(index(messages_in_flight), "message"), " in flight per channel");
}

/// `waiting` stands at the head of its lane until `awaited` is reached (a counterpart) or has ended
/// (a wait).
struct Wait {
  int waiting = 0;
  int awaited = 0;
  bool counterpart = false;
};

class Deadlock {
 public:
  Deadlock(const Facts& facts, int messages_in_flight)
      : facts_(facts), capacity_(messages_in_flight), state_(facts, messages_in_flight) {}

  Verdict run() {
    state_.run();
    if (state_.finished()) {
      verdict_.proved("no deadlock with " + conditions(capacity_));
    } else {
      report(circle());
    }
    return verdict_;
  }

 private:
  int name_of(int device) const { return facts_.name_of(device); }
  std::string name(int work) const {
    return to_string(facts_.program.work[index(work)].instruction);
  }

  // --- Who waits for whom -----------------------------------------------------------------------

  std::vector<Wait> circle() const {
    std::vector<Wait> path;
    std::vector<Place> visited;
    for (Place place = first_stuck();;) {
      const auto seen = std::find(visited.begin(), visited.end(), place);
      if (seen != visited.end()) {
        path.erase(path.begin(), path.begin() + (seen - visited.begin()));
        break;
      }
      visited.push_back(place);
      path.push_back(wait_of(*state_.head(place)));
      place = state_.place_of(path.back().awaited);
    }
    const auto first =
        std::min_element(path.begin(), path.end(), [this](const Wait& a, const Wait& b) {
          return state_.place_of(a.waiting) < state_.place_of(b.waiting);
        });
    std::rotate(path.begin(), first, path.end());
    return path;
  }

  Place first_stuck() const {
    for (int device = 0;; ++device) {
      if (state_.head({device, true})) return {device, true};
      if (state_.head({device, false})) return {device, false};
    }
  }

  Wait wait_of(int work) const {
    for (const int wait : facts_.local_waits(work)) {
      if (!state_.done(wait)) return {work, wait, false};
    }
    if (facts_.program.work[index(work)].channel) {
      if (const std::optional<int> next = state_.next_receive(work)) return {work, *next, true};
    }
    for (const int other : facts_.meetings[index(facts_.meeting_of[index(work)])]) {
      if (!state_.arrived(other)) return {work, other, true};
    }
    return {work, work, true};
  }

  /// Does a receive wait for one that comes later on its own lane?
  bool is_behind(const Wait& wait) const {
    return wait.awaited != wait.waiting &&
           state_.place_of(wait.awaited) == state_.place_of(wait.waiting);
  }

  std::string sentence(const Wait& wait) const {
    const int device = facts_.device_of(wait.waiting);
    std::string text =
        concat("device ", name_of(device), " waits at ", name(wait.waiting), " for ");
    if (wait.counterpart && is_behind(wait)) {
      return concat("device ", name_of(device), " waits at ", name(wait.waiting),
                    ", but the next message in its channel is for ", name(wait.awaited));
    }
    if (wait.counterpart) {
      return text + concat("device ", name_of(facts_.device_of(wait.awaited)), " to reach ",
                           name(wait.awaited));
    }
    text += name(wait.awaited) + " to end";
    const int head = *state_.head(state_.place_of(wait.awaited));
    return head == wait.awaited ? text : text + concat(", which comes after ", name(head));
  }

  void report(const std::vector<Wait>& waits) {
    std::vector<std::string> cycle;
    std::string message = concat("deadlock with ", conditions(capacity_), ": ");
    for (const Wait& wait : waits) {
      message += (cycle.empty() ? "" : "; ") + sentence(wait);
      cycle.push_back(sentence(wait));
    }
    const int work = waits.front().waiting;
    verdict_.found({.rule = {},
                    .message = std::move(message),
                    .device = facts_.device_of(work),
                    .instruction = facts_.program.work[index(work)].instruction,
                    .cycle = std::move(cycle),
                    .fix = fix(waits)});
  }

  // --- What would help --------------------------------------------------------------------------

  /// Work that could go `steps` places earlier on its lane.
  struct Move {
    std::size_t steps = 0;
    int work = 0;
    bool operator==(const Move&) const = default;
  };

  // The lanes of the circle, and what is awaited from each: it could change places with its
  // neighbour, or go first. Short moves before long ones, communication before compute.
  std::vector<Move> moves(const std::vector<Wait>& waits) const {
    std::vector<Move> result;
    const auto add = [&](int work, std::size_t steps) {
      const Move move{steps, work};
      if (std::find(result.begin(), result.end(), move) == result.end()) result.push_back(move);
    };
    for (const Wait& wait : waits) {
      const std::size_t distance = state_.distance(wait.awaited);
      if (distance == 0) continue;
      add(state_.at_distance(state_.place_of(wait.awaited), 1), 1);
      add(wait.awaited, 1);
      add(wait.awaited, distance);
    }
    const auto key = [this](const Move& move) {
      return std::tuple(move.steps, !state_.place_of(move.work).communication);
    };
    std::stable_sort(result.begin(), result.end(),
                     [&](const Move& a, const Move& b) { return key(a) < key(b); });
    return result;
  }

  std::optional<Move> curing_move(const std::vector<Wait>& waits) const {
    constexpr std::size_t most_tries = 24;
    std::vector<Move> candidates = moves(waits);
    candidates.resize(std::min(candidates.size(), most_tries));
    for (const Move& move : candidates) {
      Rendezvous trial = state_;
      trial.advance(move.work, move.steps);
      if (trial.finished()) return move;
    }
    return {};
  }

  bool runs_with(int messages_in_flight) const {
    Rendezvous trial(facts_, messages_in_flight);
    trial.run();
    return trial.finished();
  }

  /// The fewest messages in flight that get it through; none if not even all of a channel's do.
  std::optional<int> curing_capacity() const {
    std::vector<int> messages(facts_.program.channels.size(), 0);
    int most = 0;
    for (const Work& work : facts_.program.work) {
      if (work.lane == Lane::send) most = std::max(most, ++messages[index(*work.channel)]);
    }
    if (most <= capacity_ || !runs_with(most)) return {};
    int stuck = capacity_;
    while (most - stuck > 1) {
      const int middle = stuck + (most - stuck) / 2;
      (runs_with(middle) ? most : stuck) = middle;
    }
    return most;
  }

  std::string fix(const std::vector<Wait>& waits) const {
    std::string text;
    if (const std::optional<Move> move = curing_move(waits)) text = sentence(*move);
    if (const std::optional<int> capacity = curing_capacity()) {
      text += concat(text.empty() ? "" : "; ", "safe with ", conditions(*capacity));
    }
    return text;
  }

  std::string sentence(const Move& move) const {
    const Place place = state_.place_of(move.work);
    const int before = state_.at_distance(place, state_.distance(move.work) - move.steps);
    if (move.steps > 1) {
      return concat("moving ", name(move.work), " before ", name(before), " on device ",
                    name_of(place.device), " cures it");
    }
    return concat("swapping ", name(before), " and ", name(move.work), " on device ",
                  name_of(place.device), " cures it");
  }

  const Facts& facts_;
  int capacity_;
  Rendezvous state_;
  Verdict verdict_{"deadlock"};
};

}  // namespace

Verdict deadlock(const Facts& facts, int messages_in_flight) {
  return Deadlock(facts, messages_in_flight).run();
}

}  // namespace stagecraft::checks
