#include "executor/flight/diagnosis.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "executor/driver/host.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

bool is_alive(int pid) {
  return kill(pid, 0) == 0 || errno == EPERM;
}

bool is_over(const FlightSnapshot& record) {
  return record.doing == Doing::ended;
}

bool waits_for_all(Doing doing) {
  return doing == Doing::barrier || doing == Doing::reporting || doing == Doing::listening;
}

std::string named(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(concat("rank ", rank));
  return join_words(names);
}

Duration since(const Sight& sight) {
  const FlightSnapshot& record = sight.record;
  return std::max(Duration{0}, sight.at - (record.work ? record.work_since : record.since));
}

/// What the ranks' records say together.
class Investigation {
 public:
  explicit Investigation(std::span<const Sight> sights) : sights_(sights) {
    for (const Sight& sight : sights) {
      of_rank_[sight.record.rank] = &sight;
      edges_[sight.record.rank] = waits_for(sight, sights);
    }
  }

  Diagnosis diagnose() const {
    if (const Sight* first = first_failure()) {
      return {.verdict = Verdict::failed,
              .rank = first->record.rank,
              .sentence = first->record.failure};
    }
    if (std::ranges::all_of(sights_, [](const Sight& sight) { return is_over(sight.record); })) {
      return {.verdict = Verdict::ended, .sentence = "all ranks have ended as planned"};
    }
    if (const Sight* silent = first_silent()) return about_silent(*silent);
    if (const auto lost = lost_message()) return *lost;
    if (const std::vector<int> ranks = cycle(); !ranks.empty()) return about_cycle(ranks);
    return about_slowest();
  }

 private:
  const Sight* first_failure() const {
    const Sight* first = nullptr;
    for (const Sight& sight : sights_) {
      if (sight.record.cause == Cause::none) continue;
      if (!first || sight.record.failed_at < first->record.failed_at) first = &sight;
    }
    return first;
  }

  /// Of those that fell silent together (one process), who was waited for most.
  const Sight* first_silent() const {
    const Sight* first = nullptr;
    const auto earlier = [&](const Sight& one, const Sight& other) {
      if (one.record.pid != other.record.pid || one.record.host != other.record.host) {
        return one.record.heartbeat < other.record.heartbeat;
      }
      const std::size_t more = waiting_for(one.record.rank).size();
      const std::size_t less = waiting_for(other.record.rank).size();
      return more != less ? more > less : one.record.since < other.record.since;
    };
    for (const Sight& sight : sights_) {
      if (!sight.silent || is_over(sight.record)) continue;
      if (!first || earlier(sight, *first)) first = &sight;
    }
    return first;
  }

  Diagnosis about_silent(const Sight& silent) const {
    const FlightSnapshot& record = silent.record;
    const Duration quiet = silent.at - record.heartbeat;
    const bool gone = host_name() == record.host && !is_alive(record.pid);
    return {.verdict = Verdict::silent,
            .rank = record.rank,
            .sentence = concat(
                record.name, gone ? " is gone: its process " : " is silent: its process ",
                record.pid, " on ", record.host,
                gone ? std::string(" ended without a word ")
                     : concat(" was stopped, or is no more, ", format_duration(quiet), " ago "),
                describe_moment(record), waiters(record.rank))};
  }

  /// A message that its sender has handed over, and its receiver waits for.
  std::optional<Diagnosis> lost_message() const {
    for (const Sight& sight : sights_) {
      const FlightSnapshot& record = sight.record;
      if (record.doing != Doing::receiving || !record.peer) continue;
      const auto sender = of_rank_.find(*record.peer);
      const auto channel = index(record.place);
      if (sender == of_rank_.end() || channel >= record.taken.size() ||
          channel >= sender->second->record.sent.size()) {
        continue;
      }
      if (sender->second->record.sent[channel] <= record.taken[channel]) continue;
      return Diagnosis{.verdict = Verdict::lost,
                       .rank = record.rank,
                       .sentence = concat(
                           record.name, " waits ", describe_moment(record), " since ",
                           format_duration(since(sight)), " for a message that rank ", *record.peer,
                           " has sent: it was lost on its way", waiters(record.rank))};
    }
    return {};
  }

  /// All that can be reached from a rank by waiting.
  std::set<int> reach(int rank) const {
    std::set<int> seen;
    std::vector<int> next = edges_.at(rank);
    while (!next.empty()) {
      const int here = next.back();
      next.pop_back();
      if (!seen.insert(here).second) continue;
      if (const auto found = edges_.find(here); found != edges_.end()) {
        next.insert(next.end(), found->second.begin(), found->second.end());
      }
    }
    return seen;
  }

  /// Whoever waits for the rank, directly or through others.
  std::vector<int> waiting_for(int rank) const {
    std::vector<int> all;
    for (const auto& [other, on] : edges_) {
      if (other != rank && reach(other).contains(rank)) all.push_back(other);
    }
    return all;
  }

  std::string waiters(int rank) const {
    std::vector<int> direct;
    for (const auto& [other, on] : edges_) {
      if (other != rank && std::ranges::find(on, rank) != on.end()) direct.push_back(other);
    }
    if (direct.empty()) return "";
    const std::size_t others = waiting_for(rank).size() - direct.size();
    return concat("; ", named(direct), direct.size() == 1 ? " waits for it" : " wait for it",
                  others == 0 ? ""
                              : concat(", and ", others, " more through ",
                                       direct.size() == 1 ? "that one" : "them"));
  }

  bool is_free(int rank) const {
    const auto found = edges_.find(rank);
    return found == edges_.end() || found->second.empty();
  }

  /// Ranks from which waiting leads to nobody who could end it; one round of them.
  std::vector<int> cycle() const {
    for (const auto& [rank, on] : edges_) {
      if (on.empty()) continue;
      const std::set<int> reached = reach(rank);
      if (std::ranges::any_of(reached, [&](int other) { return is_free(other); })) continue;
      std::vector<int> path{rank};
      while (true) {
        const int next = edges_.at(path.back()).front();
        const auto before = std::ranges::find(path, next);
        if (before != path.end()) return {before, path.end()};
        path.push_back(next);
      }
    }
    return {};
  }

  Diagnosis about_cycle(const std::vector<int>& ranks) const {
    std::vector<std::string> words;
    for (const int rank : ranks) {
      const Sight& sight = *of_rank_.at(rank);
      words.push_back(concat(sight.record.name, " ", describe_doing(sight, sights_)));
    }
    return {.verdict = Verdict::cycle,
            .cycle = ranks,
            .sentence = concat("ranks wait for each other: ", join_words(words))};
  }

  /// Whom most wait for; of several, who has been at it longest.
  Diagnosis about_slowest() const {
    const Sight* slowest = nullptr;
    std::size_t most = 0;
    for (const Sight& sight : sights_) {
      if (!is_free(sight.record.rank) || is_over(sight.record)) continue;
      const std::size_t waiting = waiting_for(sight.record.rank).size();
      const bool longer = slowest && waiting == most && since(sight) > since(*slowest);
      if (slowest && waiting <= most && !longer) continue;
      slowest = &sight;
      most = waiting;
    }
    if (!slowest) return about_absent();
    const FlightSnapshot& record = slowest->record;
    return {
        .verdict = Verdict::held_up,
        .rank = record.rank,
        .sentence = concat(
            record.name, " ", describe_doing(*slowest, sights_), " ",
            record.work && record.step ? concat("in step ", *record.step + 1, " ") : std::string(),
            "since ", format_duration(since(*slowest)),
            most == 0 ? "; nobody waits for it" : waiters(record.rank))};
  }

  /// Those who are left wait for ranks whose records are not here, or that have ended.
  Diagnosis about_absent() const {
    std::set<int> free;
    for (const auto& [rank, on] : edges_) {
      for (const int other : reach(rank)) {
        if (is_free(other)) free.insert(other);
      }
    }
    const int rank = *free.begin();
    const auto found = of_rank_.find(rank);
    return {.verdict = Verdict::held_up,
            .rank = rank,
            .sentence =
                concat(found == of_rank_.end() ? concat("rank ", rank, " has left no flight record")
                                               : concat(found->second->record.name, " has ended"),
                       waiters(rank))};
  }

  std::span<const Sight> sights_;
  std::map<int, const Sight*> of_rank_;
  std::map<int, std::vector<int>> edges_;  ///< whom each waits for
};

}  // namespace

Sight see(FlightSnapshot record, Moment at) {
  Sight sight{.record = std::move(record)};
  const FlightSnapshot& seen = sight.record;
  sight.at = std::max(seen.heartbeat, seen.since);
  if (is_over(seen) || host_name() != seen.host) return sight;
  const bool alive = is_alive(seen.pid);
  if (alive) sight.at = std::max(at, sight.at);
  sight.silent = !alive || at - seen.heartbeat > longest_silence;
  return sight;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::ended: return "ended";
    case Verdict::failed: return "failed";
    case Verdict::silent: return "silent";
    case Verdict::lost: return "lost";
    case Verdict::held_up: return "held-up";
    case Verdict::cycle: return "cycle";
    case Verdict::unknown: return "unknown";
  }
  return "";
}

Diagnosis diagnose(std::span<const Sight> sights) {
  return Investigation(sights).diagnose();
}

std::vector<int> waits_for(const Sight& sight, std::span<const Sight> all) {
  const FlightSnapshot& record = sight.record;
  if (record.doing == Doing::receiving || record.doing == Doing::sending) {
    return record.peer ? std::vector<int>{*record.peer} : std::vector<int>();
  }
  std::set<int> behind;
  if (waits_for_all(record.doing)) {
    for (const Sight& other : all) {
      if (other.record.control_calls < record.control_calls) behind.insert(other.record.rank);
    }
  }
  const auto group = index(record.place);
  if (record.doing == Doing::meeting && group < record.groups.size()) {
    for (const Sight& other : all) {
      const auto& members = record.groups[group];
      if (std::ranges::find(members, other.record.rank) == members.end()) continue;
      if (group < other.record.met.size() && other.record.met[group] < record.met[group]) {
        behind.insert(other.record.rank);
      }
    }
  }
  behind.erase(record.rank);
  return {behind.begin(), behind.end()};
}

std::string describe_doing(const Sight& sight, std::span<const Sight> all) {
  const FlightSnapshot& record = sight.record;
  const std::string within =
      record.instruction ? concat(" in ", to_string(*record.instruction)) : std::string();
  const std::vector<int> ranks = waits_for(sight, all);
  const std::string whom = ranks.empty() ? " for the others" : concat(" for ", named(ranks));
  switch (record.doing) {
    case Doing::starting: return "starts";
    case Doing::computing:
      return concat("computes ", record.instruction ? to_string(*record.instruction) : "");
    case Doing::sending:
      return concat("waits", within, " until ", named(ranks), " takes a message");
    case Doing::receiving: return concat("waits", within, " for a message from ", named(ranks));
    case Doing::meeting: return concat("waits", within, whom);
    case Doing::barrier: return concat("waits", whom, " to begin the step");
    case Doing::reporting: return concat("waits", whom, " to report");
    case Doing::listening: return concat("waits", whom, " to hear what comes next");
    case Doing::between: return "is between two steps";
    case Doing::checkpointing: return "writes a checkpoint";
    case Doing::finishing: return "hands in its results";
    case Doing::ended: return "has ended";
  }
  return "";
}

std::string describe_moment(const FlightSnapshot& record) {
  if (!record.step) return "before its first step";
  const std::string step = concat("in step ", *record.step + 1);
  return record.instruction ? concat("during ", to_string(*record.instruction), " ", step)
                            : concat(step, ", outside of its program");
}

}  // namespace stagecraft
