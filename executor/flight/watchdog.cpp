#include "executor/flight/watchdog.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "executor/flight/diagnosis.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/values/cost_of.hpp"

namespace stagecraft {

namespace {

using namespace std::chrono_literals;

constexpr Duration beat_every = 200ms;
/// So often, and less often where there are many.
constexpr Duration look_at_others_every = 400ms;
constexpr int looked_at_once = 32;
/// How late the watchdog itself may be. Beyond it the whole process stood still, and nobody is to
/// blame for the time.
constexpr Duration own_delay = 1s;
/// A process that has missed beats for so long may stand still, or be about to beat again. What its
/// record says was sent may not have left it, so that nothing can be told from it until then.
constexpr Duration doubtful_silence = 3 * beat_every;
/// How long ranks that were told to stop may take.
constexpr Duration grace = 1s;
constexpr int patience = 20;

Duration simulated(const Compiled& compiled, const Work& work) {
  if (work.group) return compiled.costs.groups[index(*work.group)];
  if (!is_compute(work.instruction.op)) return Duration{0};
  return cost_of(compiled.costs.chunks[index(work.chunk)], work.instruction.op);
}

bool is_computing(const FlightSnapshot& record) {
  return record.doing == Doing::computing;
}

bool is_doubtful(const Sight& sight) {
  return sight.record.doing != Doing::ended && sight.at - sight.record.heartbeat > doubtful_silence;
}

}  // namespace

Limits limits_of(const Compiled& compiled, const Oversight& oversight) {
  Limits limits{.wait = std::max(oversight.deadline, patience * oversight.predicted_step),
                .phase = patience * oversight.deadline};
  for (const Work& work : compiled.program.work) {
    limits.work.push_back(std::max(oversight.deadline, patience * simulated(compiled, work)));
  }
  return limits;
}

class Watchdog::Watch {
 public:
  Watch(std::vector<WatchedRank> ranks, Limits limits, const Oversight& oversight)
      : ranks_(std::move(ranks)),
        limits_(std::move(limits)),
        oversight_(oversight),
        thread_([this] { watch(); }) {}

  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch() {
    while (!done_within(beat_every)) {
      const Moment at = now();
      if (at - last_beat_ > own_delay) excused_until_ = at;
      last_beat_ = at;
      for (const WatchedRank& rank : ranks_) rank.flight->beat();
      if (const auto sentence = stall(at)) {
        const std::string heard = stop(*sentence);
        if (!done_within(grace) && oversight_.on_stuck) oversight_.on_stuck(heard);
        return beat_on();
      }
    }
  }

  /// Nobody else is to take a process that ends for one that stalls.
  void beat_on() {
    while (!done_within(beat_every)) {
      for (const WatchedRank& rank : ranks_) rank.flight->beat();
    }
  }

  bool done_within(Duration time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return done_; });
  }

  std::optional<std::string> stall(Moment at) {
    const bool late = std::ranges::any_of(ranks_, [&](const WatchedRank& rank) {
      return is_late({.record = glance_at(*rank.flight), .at = at});
    });
    const int others = ranks_.front().transport->ranks() - static_cast<int>(ranks_.size());
    const bool looks = others > 0 && at >= next_look_ && !oversight_.flight_records.empty();
    if (!late && !looks) return {};
    if (looks) next_look_ = at + look_at_others_every * (1 + others / looked_at_once);
    const std::vector<Sight> all = with_others(sights_of_own(at), at);
    const bool silent = std::ranges::any_of(all, [](const Sight& s) { return s.silent; });
    if (!late && !silent) return {};
    return judge(all);
  }

  std::vector<Sight> sights_of_own(Moment at) const {
    std::vector<Sight> sights;
    for (const WatchedRank& rank : ranks_) {
      sights.push_back({.record = read_flight_record(rank.flight->bytes(), "memory"), .at = at});
    }
    return sights;
  }

  /// Records from before this run began say nothing.
  std::vector<Sight> with_others(std::vector<Sight> own, Moment at) const {
    if (oversight_.flight_records.empty()) return own;
    const int ranks = own.front().record.ranks;
    std::vector<bool> is_own(index(ranks));
    for (const Sight& sight : own) is_own[index(sight.record.rank)] = true;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto file = oversight_.flight_records / flight_file_name(rank);
      std::error_code none;
      if (is_own[index(rank)] || !std::filesystem::exists(file, none)) continue;
      try {
        Sight sight = see(read_flight_record(file), at);
        if (sight.record.heartbeat > began_) own.push_back(std::move(sight));
      } catch (const Error&) {
        continue;  // being made, or being removed
      }
    }
    return own;
  }

  Duration limit_of(const FlightSnapshot& record) const {
    if (is_computing(record) && record.work) return limits_.work[index(*record.work)];
    const bool in_program = record.phase == Doing::computing || record.phase == Doing::between;
    return in_program && record.doing != Doing::between ? limits_.wait : limits_.phase;
  }

  bool is_late(const Sight& sight) const {
    if (sight.record.doing == Doing::ended) return false;
    return sight.at - std::max(sight.record.since, excused_until_) > limit_of(sight.record);
  }

  /// Who waits for somebody that is only busy is not to blame, nor is that one before its own time
  /// is over.
  std::optional<std::string> judge(const std::vector<Sight>& all) const {
    const Diagnosis diagnosis = diagnose(all);
    if (diagnosis.verdict == Verdict::ended || diagnosis.verdict == Verdict::failed) return {};
    if (diagnosis.verdict == Verdict::silent) return diagnosis.sentence;
    if (std::ranges::any_of(all, is_doubtful)) return {};
    if (diagnosis.verdict != Verdict::held_up) return diagnosis.sentence;
    const auto root = std::ranges::find(all, *diagnosis.rank,
                                        [](const Sight& sight) { return sight.record.rank; });
    if (root == all.end()) return diagnosis.sentence;
    if (!is_late(*root)) return {};
    return concat(diagnosis.sentence, "; the deadline is ",
                  format_duration(limit_of(root->record)));
  }

  /// What all ranks hear.
  std::string stop(const std::string& sentence) {
    const std::string reason = concat("the run does not go on: ", sentence);
    std::string first = ranks_.front().transport->abort(reason);
    if (first == reason) ranks_.front().flight->fail(Cause::stalled, reason);
    for (const WatchedRank& rank : ranks_) rank.transport->abort(first);
    return first;
  }

  std::vector<WatchedRank> ranks_;
  Limits limits_;
  const Oversight& oversight_;
  const Moment began_ = now();
  Moment last_beat_ = began_;
  Moment excused_until_ = began_;
  Moment next_look_ = began_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  ///< last: it uses all of this
};

Watchdog::Watchdog(std::vector<WatchedRank> ranks, Limits limits, const Oversight& oversight)
    : watch_(std::make_unique<Watch>(std::move(ranks), std::move(limits), oversight)) {}

Watchdog::~Watchdog() = default;

}  // namespace stagecraft
