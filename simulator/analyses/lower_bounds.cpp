#include "simulator/analyses/lower_bounds.hpp"

#include <algorithm>
#include <queue>

#include "profiles/index.hpp"
#include "simulator/engines/causal_order.hpp"
#include "simulator/engines/compiled.hpp"

namespace stagecraft {

namespace {

constexpr Duration no_time{0};
constexpr Duration unreached{-1};

/// What a machine does one after the other.
struct Job {
  Duration head{0};
  Duration time{0};
  Duration tail{0};
};

/// The length of Jackson's preemptive schedule.
Duration preemptive_length(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.head < b.head; });
  const auto shorter_tail = [](const Job& a, const Job& b) { return a.tail < b.tail; };
  std::priority_queue<Job, std::vector<Job>, decltype(shorter_tail)> ready(shorter_tail);
  Duration now = no_time, length = no_time;
  for (std::size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty()) now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next) ready.push(jobs[next]);
    Job job = ready.top();
    ready.pop();
    const Duration until =
        next < jobs.size() ? std::min(now + job.time, jobs[next].head) : now + job.time;
    job.time -= until - now;
    now = until;
    if (job.time > no_time) {
      ready.push(job);
    } else {
      length = std::max(length, now + job.tail);
    }
  }
  return length;
}

class BoundFinder {
 public:
  BoundFinder(const Program& program, const Costs& costs)
      : program_(program),
        costs_(costs),
        order_(causal_order(program)),
        time_(program.work.size()),
        head_(program.work.size()),
        length_(program.work.size()),
        reached_(program.work.size(), unreached) {
    require_whole(program, "a bound of all schedules");
    const WorkTimes times = CompiledProgram(program).times(costs);
    for (std::size_t i = 0; i < time_.size(); ++i) time_[i] = times.end[i] - times.start[i];
    find_heads();
    find_lengths();
  }

  LowerBounds find() const {
    LowerBounds bounds;
    for (std::size_t i = 0; i < time_.size(); ++i) {
      bounds.path = std::max(bounds.path, head_[i] + length_[i]);
    }
    bound_machines(bounds);
    bound_windows(bounds);
    return bounds;
  }

 private:
  const Work& work(int i) const { return program_.work[index(i)]; }

  /// Calls step(on, starts) for all that a work waits for; a receive only for its send's start.
  template <class Step>
  void for_each_wait(int i, const Step& step) const {
    const bool receives = work(i).lane == Lane::receive;
    const int sent = receives ? own_send(program_, i) : -1;
    for (int w = work(i).waits.first; w < work(i).waits.end; ++w) {
      const int on = program_.waits[index(w)];
      step(on, on == sent);
    }
  }

  /// When it could start by its waits alone, if `from` says when others do.
  Duration ready(int i, const std::vector<Duration>& from) const {
    Duration ready = no_time;
    for_each_wait(i, [&](int on, bool starts) {
      ready = std::max(ready, from[index(on)] + (starts ? no_time : time_[index(on)]));
    });
    return ready;
  }

  void find_heads() {
    for (std::size_t e = 0; e < order_.size(); ++e) {
      Duration start = no_time;
      for (const int i : order_.event(e)) start = std::max(start, ready(i, head_));
      for (const int i : order_.event(e)) head_[index(i)] = start;
    }
  }

  /// From the start of each work to the end of all that waits for it, and for that, ….
  void find_lengths() {
    std::vector<Duration> behind(time_.size(), no_time);  // from its end
    for (std::size_t e = order_.size(); e-- > 0;) {
      Duration length = no_time;
      for (const int i : order_.event(e)) {
        length = std::max({length, length_[index(i)], time_[index(i)] + behind[index(i)]});
      }
      for (const int i : order_.event(e)) {
        length_[index(i)] = length;
        for_each_wait(i, [&](int on, bool starts) {
          Duration& place = starts ? length_[index(on)] : behind[index(on)];
          place = std::max(place, length);
        });
      }
    }
  }

  /// Of compute and sends; a fused pair is one job.
  void bound_machines(LowerBounds& bounds) const {
    std::vector<std::vector<Job>> devices(index(program_.devices));
    std::vector<std::vector<Job>> channels(program_.channels.size());
    for (std::size_t e = 0; e < order_.size(); ++e) {
      const int i = order_.event(e).front();
      const Work& item = work(i);
      const bool sends = item.lane == Lane::send;
      if (!sends && item.lane != Lane::compute) continue;
      const Duration time =
          sends ? costs_.channels[index(*item.channel)].occupancy : time_[index(i)];
      auto& machine = sends ? channels[index(*item.channel)]
                            : devices[index(program_.chunks[index(item.chunk)].device)];
      machine.push_back({head_[index(i)], time, length_[index(i)] - time});
    }
    for (const auto& jobs : devices) {
      Duration load = no_time;
      for (const Job& job : jobs) load += job.time;
      bounds.load = std::max(bounds.load, load);
      bounds.device = std::max(bounds.device, preemptive_length(jobs));
    }
    for (const auto& jobs : channels) bounds.link = std::max(bounds.link, preemptive_length(jobs));
  }

  // --- Memory -----------------------------------------------------------------------------------

  /// One microbatch on one chunk.
  struct Stay {
    int forward = -1;
    int backward = -1;  ///< B or I
    bool complete() const { return forward >= 0 && backward >= 0; }
  };
  /// All of one chunk, and how many of them there are at a time.
  struct Window {
    std::vector<Stay> stays;
    int most = 0;
    int now = 0;
  };

  void bound_windows(LowerBounds& bounds) const {
    const std::vector<std::vector<int>> of_microbatch = works_by_microbatch();
    for (const Window& window : windows()) {
      Duration trips = no_time;
      Duration before = Duration::max(), after = Duration::max();
      for (const Stay& stay : window.stays) {
        if (!stay.complete()) continue;
        trips += round_trip(stay, of_microbatch[index(work(stay.forward).instruction.microbatch)]);
        before = std::min(before, head_[index(stay.forward)]);
        after = std::min(after, length_[index(stay.backward)] - time_[index(stay.backward)]);
      }
      if (trips == no_time) continue;
      const Duration inside = (trips + Duration{window.most - 1}) / window.most;
      bounds.window = std::max(bounds.window, before + inside + after);
    }
  }

  std::vector<Window> windows() const {
    std::vector<Window> windows(program_.chunks.size());
    for (Window& window : windows) window.stays.resize(index(program_.microbatches));
    for (const auto& order : program_.order) {
      for (const int i : order) {
        Window& window = windows[index(work(i).chunk)];
        const auto [op, stage, microbatch] = work(i).instruction;
        Stay& stay = window.stays[index(microbatch)];
        if (op == Op::forward) {
          stay.forward = i;
          window.most = std::max(window.most, ++window.now);
        } else if (op == Op::backward || op == Op::backward_input) {
          stay.backward = i;
          --window.now;
        }
      }
    }
    return windows;
  }

  /// In causal order.
  std::vector<std::vector<int>> works_by_microbatch() const {
    std::vector<std::vector<int>> works(index(program_.microbatches));
    for (const int i : order_.works) {
      if (!is_collective(work(i).instruction.op)) {
        works[index(work(i).instruction.microbatch)].push_back(i);
      }
    }
    return works;
  }

  /// The longest chain of waits from the start of F to the end of B, among works of the microbatch.
  Duration round_trip(const Stay& stay, const std::vector<int>& works) const {
    for (const int i : works) {
      Duration start = i == stay.forward ? no_time : unreached;
      for_each_wait(i, [&](int on, bool begins) {
        if (reached_[index(on)] == unreached) return;
        start = std::max(start, reached_[index(on)] + (begins ? no_time : time_[index(on)]));
      });
      reached_[index(i)] = start;
    }
    const Duration trip = reached_[index(stay.backward)] + time_[index(stay.backward)];
    for (const int i : works) reached_[index(i)] = unreached;
    return trip;
  }

  const Program& program_;
  const Costs& costs_;
  CausalOrder order_;
  std::vector<Duration> time_;
  std::vector<Duration> head_;
  std::vector<Duration> length_;
  mutable std::vector<Duration> reached_;  // starts after an F; otherwise unreached
};

}  // namespace

Duration LowerBounds::best() const {
  return std::max({load, path, device, link, window});
}

LowerBounds lower_bounds(const Program& program, const Costs& costs) {
  return BoundFinder(program, costs).find();
}

}  // namespace stagecraft
