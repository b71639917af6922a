// Deadlock: the program runs with one compute lane and one communication lane per device, and every
// send blocks until its receive is reached. What gets through this gets through anything more
// generous: buffered sends, more lanes.
//
// If it gets stuck, every lane that has not finished waits at its first unfinished work for another
// lane; following these waits must come back to where it has been, and that circle is the message.

#include <algorithm>
#include <optional>

#include "profiles/error.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// A compute or communication lane of a device.
struct Place {
  int device = 0;
  bool communication = false;
  auto operator<=>(const Place&) const = default;
};

/// The state of such an execution: copied to try out remedies from where it got stuck.
class Rendezvous {
 public:
  explicit Rendezvous(const Facts& facts) : facts_(&facts) {
    const Program& program = facts.program;
    queues_.resize(2 * at(program.devices));
    heads_.resize(queues_.size(), 0);
    place_.resize(program.work.size());
    waiting_.resize(program.work.size());
    arrived_.resize(facts.meetings.size(), 0);
    for (std::size_t device = 0; device < program.order.size(); ++device) {
      for (const int work : program.order[device]) enqueue(work);
    }
    for (std::size_t work = 0; work < program.work.size(); ++work) {
      waiting_[work] = static_cast<int>(facts.local_waits(static_cast<int>(work)).size());
    }
  }

  void run() {
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) look_at_head(queue);
    proceed();
  }

  bool finished() const {
    for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
      if (heads_[queue] < queues_[queue].size()) return false;
    }
    return true;
  }

  Place place_of(int work) const {
    return {facts_->device_of(work), facts_->program.work[at(work)].lane != Lane::compute};
  }
  /// The first unfinished work of a lane.
  std::optional<int> head(Place place) const {
    const std::size_t queue = index_of(place);
    if (heads_[queue] == queues_[queue].size()) return {};
    return queues_[queue][heads_[queue]];
  }
  bool done(int work) const { return place_[at(work)] < heads_[index_of(place_of(work))]; }
  bool at_head(int work) const { return place_[at(work)] == heads_[index_of(place_of(work))]; }
  bool arrived(int work) const { return at_head(work) && waiting_[at(work)] == 0; }
  /// Places of its lane that `work` stands behind the head.
  std::size_t distance(int work) const {
    return place_[at(work)] - heads_[index_of(place_of(work))];
  }
  int at_distance(Place place, std::size_t distance) const {
    const std::size_t queue = index_of(place);
    return queues_[queue][heads_[queue] + distance];
  }

  /// Lets `work` go before the `steps` works in front of it, then runs on.
  void advance(int work, std::size_t steps) {
    const std::size_t queue = index_of(place_of(work));
    const std::size_t old_place = place_[at(work)];
    const std::size_t new_place = old_place - steps;
    const int old_head = queues_[queue][heads_[queue]];
    const bool had_arrived = arrived(old_head);
    const auto begin = queues_[queue].begin();
    std::rotate(begin + static_cast<std::ptrdiff_t>(new_place),
                begin + static_cast<std::ptrdiff_t>(old_place),
                begin + static_cast<std::ptrdiff_t>(old_place) + 1);
    for (std::size_t i = new_place; i <= old_place; ++i) place_[at(queues_[queue][i])] = i;
    if (new_place != heads_[queue]) return;
    const int meeting = facts_->meeting_of[at(old_head)];
    if (had_arrived && meeting != none) --arrived_[at(meeting)];
    look_at_head(queue);
    proceed();
  }

 private:
  static std::size_t index_of(Place place) {
    return 2 * at(place.device) + (place.communication ? 1 : 0);
  }

  void enqueue(int work) {
    auto& queue = queues_[index_of(place_of(work))];
    place_[at(work)] = queue.size();
    queue.push_back(work);
  }

  void look_at_head(std::size_t queue) {
    if (heads_[queue] == queues_[queue].size()) return;
    const int work = queues_[queue][heads_[queue]];
    if (waiting_[at(work)] == 0) arrive(work);
  }

  void arrive(int work) {
    const int meeting = facts_->meeting_of[at(work)];
    if (meeting == none) {
      ending_.push_back(work);
    } else if (++arrived_[at(meeting)] == facts_->meetings[at(meeting)].size()) {
      const Meeting& members = facts_->meetings[at(meeting)];
      ending_.insert(ending_.end(), members.begin(), members.end());
    }
  }

  void proceed() {
    while (!ending_.empty()) {
      const int work = ending_.back();
      ending_.pop_back();
      const std::size_t queue = index_of(place_of(work));
      ++heads_[queue];
      look_at_head(queue);
      for (const int dependent : facts_->dependents(work)) {
        if (--waiting_[at(dependent)] == 0 && at_head(dependent)) arrive(dependent);
      }
    }
  }

  const Facts* facts_;
  std::vector<std::vector<int>> queues_;  // two per device: compute, communication
  std::vector<std::size_t> heads_;        // per queue
  std::vector<std::size_t> place_;        // per work, in its queue
  std::vector<int> waiting_;              // per work: local waits that have not ended
  std::vector<std::size_t> arrived_;      // per meeting: members standing at its door
  std::vector<int> ending_;
};

/// `waiting` stands at the head of its lane until `awaited` is reached (a counterpart) or has ended
/// (a wait).
struct Wait {
  int waiting = 0;
  int awaited = 0;
  bool counterpart = false;
};

class Deadlock {
 public:
  explicit Deadlock(const Facts& facts) : facts_(facts), state_(facts) {}

  Verdict run() {
    state_.run();
    if (state_.finished()) {
      verdict_.proved("no deadlock with blocking, unbuffered sends");
    } else {
      report(circle());
    }
    return verdict_;
  }

 private:
  std::string name(int work) const { return to_string(facts_.program.work[at(work)].instruction); }

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
    for (const int other : facts_.meetings[at(facts_.meeting_of[at(work)])]) {
      if (!state_.arrived(other)) return {work, other, true};
    }
    return {work, work, true};
  }

  std::string sentence(const Wait& wait) const {
    const int device = facts_.device_of(wait.waiting);
    std::string text = concat("device ", device, " waits at ", name(wait.waiting), " for ");
    if (wait.counterpart) {
      return text +
             concat("device ", facts_.device_of(wait.awaited), " to reach ", name(wait.awaited));
    }
    text += name(wait.awaited) + " to end";
    const int head = *state_.head(state_.place_of(wait.awaited));
    return head == wait.awaited ? text : text + concat(", which comes after ", name(head));
  }

  void report(const std::vector<Wait>& waits) {
    std::vector<std::string> cycle;
    std::string message = "deadlock with blocking, unbuffered sends: ";
    for (const Wait& wait : waits) {
      message += (cycle.empty() ? "" : "; ") + sentence(wait);
      cycle.push_back(sentence(wait));
    }
    message += remedy(waits);
    const int work = waits.front().waiting;
    verdict_.found({.rule = {},
                    .message = std::move(message),
                    .device = facts_.device_of(work),
                    .instruction = facts_.program.work[at(work)].instruction,
                    .cycle = std::move(cycle)});
  }

  /// Work that could go `steps` places earlier on its communication lane.
  struct Move {
    std::size_t steps = 0;
    int work = 0;
  };

  // The lanes of the circle, and what is awaited from each: it could change places with its
  // neighbour, or go first.
  std::vector<Move> moves(const std::vector<Wait>& waits) const {
    std::vector<Move> result;
    const auto add = [&](int work, std::size_t steps) {
      const auto same = [&](const Move& move) { return move.work == work && move.steps == steps; };
      if (std::none_of(result.begin(), result.end(), same)) result.push_back({steps, work});
    };
    for (const Wait& wait : waits) {
      const Place place = state_.place_of(wait.awaited);
      const std::size_t distance = state_.distance(wait.awaited);
      if (!place.communication || distance == 0) continue;
      add(state_.at_distance(place, 1), 1);
      add(wait.awaited, 1);
      add(wait.awaited, distance);
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const Move& a, const Move& b) { return a.steps < b.steps; });
    return result;
  }

  std::string remedy(const std::vector<Wait>& waits) const {
    constexpr std::size_t most_tries = 24;
    std::vector<Move> candidates = moves(waits);
    candidates.resize(std::min(candidates.size(), most_tries));
    for (const Move& move : candidates) {
      Rendezvous trial = state_;
      trial.advance(move.work, move.steps);
      if (trial.finished()) return "; " + remedy_text(move);
    }
    return "";
  }

  std::string remedy_text(const Move& move) const {
    const int device = facts_.device_of(move.work);
    const int before =
        state_.at_distance(state_.place_of(move.work), state_.distance(move.work) - move.steps);
    if (move.steps > 1)
      return concat("moving ", name(move.work), " before ", name(before), " on device ", device,
                    " cures it");
    return concat("swapping ", name(before), " and ", name(move.work), " on device ", device,
                  " cures it");
  }

  const Facts& facts_;
  Rendezvous state_;
  Verdict verdict_{"deadlock"};
};

}  // namespace

Verdict deadlock(const Facts& facts) {
  return Deadlock(facts).run();
}

}  // namespace stagecraft::checks
