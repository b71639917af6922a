// The execution that carries the clocks: every lane of every device runs as far as it can, messages
// are buffered.
//
// An entry of a clock says how many works of one lane have surely ended. The clock at the start of
// a work is the largest of the clocks at the ends of the work before it on its lane and of what it
// waits for. A receive also knows what its send knew, and that the send has read its buffer: data
// arrives only after it was read. A collective's end knows all its members' starts, but not their
// ends: each writes its own copy of the result when it likes. The halves of a fused pair start
// together: the second does not know that the first has ended.

#include <algorithm>

#include "profiles/index.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

using Clock = std::vector<int>;

void join(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

class Execution {
 public:
  Execution(const Facts& facts, HappensBefore& result) : facts_(facts), result_(result) {
    const auto works = facts.program.work.size();
    pending_.resize(works);
    users_.resize(works);
    clocks_.resize(works);
    missing_.resize(facts.meetings.size());
    for (std::size_t i = 0; i < missing_.size(); ++i) missing_[i] = facts.meetings[i].size();
    number_lanes();
  }

  void run() {
    for (std::size_t i = facts_.program.work.size(); i-- > 0;) prepare(static_cast<int>(i));
    for (std::size_t i = facts_.program.work.size(); i-- > 0;) {
      if (pending_[i] == 0) ready_.push_back(static_cast<int>(i));
    }
    // Last in, first out: a message is received soon after it was sent, so few clocks are kept at a
    // time.
    while (!ready_.empty()) {
      const int work = ready_.back();
      ready_.pop_back();
      start(work);
    }
  }

 private:
  const Work& work_at(int work) const { return facts_.program.work[index(work)]; }
  bool crosses_lanes(int from, int to) const { return work_at(from).lane != work_at(to).lane; }

  /// Lanes without work get no entry.
  void number_lanes() {
    const auto devices = index(facts_.program.devices);
    entry_.resize(devices);
    int entries = 0;
    for (std::size_t device = 0; device < devices; ++device) {
      for (const Lane lane : lanes) {
        const bool used = !facts_.lane(static_cast<int>(device), lane).empty();
        entry_[device][static_cast<std::size_t>(lane)] = used ? entries++ : none;
      }
    }
    now_.assign(index(entries), Clock(index(entries), 0));
  }

  int entry_of(int work) const {
    return entry_[index(facts_.device_of(work))][static_cast<std::size_t>(work_at(work).lane)];
  }

  int send_of(int work) const {
    const int meeting = facts_.meeting_of[index(work)];
    if (meeting == none || !is_receive(work_at(work).instruction.op)) return none;
    return facts_.meetings[index(meeting)][0];
  }

  int receive_of(int work) const {
    const int meeting = facts_.meeting_of[index(work)];
    if (meeting == none || !is_send(work_at(work).instruction.op)) return none;
    return facts_.meetings[index(meeting)][1];
  }

  void prepare(int work) {
    pending_[index(work)] = static_cast<int>(facts_.local_waits(work).size()) +
                            (facts_.position[index(work)] > 0 ? 1 : 0) +
                            (send_of(work) != none ? 1 : 0);
    users_[index(work)] = receive_of(work) != none ? 1 : 0;
    for (const int dependent : facts_.dependents(work))
      users_[index(work)] += crosses_lanes(work, dependent) ? 1 : 0;
  }

  void start(int work) {
    Clock& clock = now_[index(entry_of(work))];
    for (const int wait : facts_.local_waits(work)) {
      if (crosses_lanes(wait, work)) learn(clock, wait);
    }
    if (const int send = send_of(work); send != none) learn(clock, send);
    remember(work, clock);
    if (is_collective(work_at(work).instruction.op)) return meet(work);
    end(work);
  }

  void learn(Clock& clock, int earlier) {
    join(clock, clocks_[index(earlier)]);
    if (--users_[index(earlier)] == 0) Clock().swap(clocks_[index(earlier)]);
  }

  void remember(int work, const Clock& clock) {
    auto& ended = result_.ended_[index(work)];
    const auto& entries = entry_[index(facts_.device_of(work))];
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      ended[lane] = entries[lane] == none ? 0 : clock[index(entries[lane])];
    }
    if (const auto other = work_at(work).fused_with) {
      const int first = std::min(facts_.position[index(work)], facts_.position[index(*other)]);
      ended[static_cast<std::size_t>(Lane::compute)] = first;
    }
    result_.started_.push_back(work);
  }

  void meet(int work) {
    const int meeting = facts_.meeting_of[index(work)];
    if (meeting == none) return end(work);
    if (--missing_[index(meeting)] > 0) return;
    const Meeting& members = facts_.meetings[index(meeting)];
    Clock together = now_[index(entry_of(members[0]))];
    for (const int member : members) join(together, now_[index(entry_of(member))]);
    for (const int member : members) now_[index(entry_of(member))] = together;
    for (const int member : members) end(member);
  }

  void end(int work) {
    const int entry = entry_of(work);
    Clock& clock = now_[index(entry)];
    clock[index(entry)] = facts_.position[index(work)] + 1;
    if (users_[index(work)] > 0) clocks_[index(work)] = clock;
    const auto& queue = facts_.lane(facts_.device_of(work), work_at(work).lane);
    const auto next = index(facts_.position[index(work)]) + 1;
    if (next < queue.size()) release(queue[next]);
    for (const int dependent : facts_.dependents(work)) release(dependent);
    if (const int receive = receive_of(work); receive != none) release(receive);
  }

  void release(int work) {
    if (--pending_[index(work)] == 0) ready_.push_back(work);
  }

  const Facts& facts_;
  HappensBefore& result_;
  std::vector<std::array<int, lanes.size()>> entry_;  // [device][lane] → place in a clock
  std::vector<Clock> now_;                            // per used lane
  std::vector<Clock> clocks_;         // at the end of each work, while others will ask
  std::vector<int> users_;            // how many will
  std::vector<int> pending_;          // what a work still has to wait for
  std::vector<std::size_t> missing_;  // members that have not come to a meeting
  std::vector<int> ready_;
};

HappensBefore::HappensBefore(const Facts& facts)
    : facts_(facts), ended_(facts.program.work.size()) {
  started_.reserve(facts.program.work.size());
  Execution(facts, *this).run();
}

bool HappensBefore::ended(int earlier, int later) const {
  const auto lane = static_cast<std::size_t>(facts_.program.work[index(earlier)].lane);
  return ended_[index(later)][lane] > facts_.position[index(earlier)];
}

}  // namespace stagecraft::checks
