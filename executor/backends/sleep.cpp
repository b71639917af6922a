// The clock of each rank is its own: an instruction starts at the later of two moments, the end of
// the one before and the arrival of what it waits for, and the rank sleeps until that moment plus
// the predicted time. Waking up late therefore delays what other ranks see, but never adds up on
// the rank itself.
//
// Messages say when they may arrive: sent + occupancy + latency, after the message before has left
// the channel. Reductions happen when something waits for them, as the collective lane works beside
// the compute lane; members tell each other when they were ready, in a sum to which each
// contributes one number, and the last one counts.

#include "executor/backends/sleep.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <deque>
#include <numeric>
#include <utility>

#include "executor/driver/driver.hpp"
#include "executor/driver/ranks.hpp"
#include "executor/transports/labels.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/values/cost_of.hpp"

namespace stagecraft {

namespace {

/// The steady clock is the system's monotonic one. A signal may end a sleep early.
void sleep_until(Moment moment) {
  const std::timespec until{.tv_sec = moment.count() / 1'000'000'000,
                            .tv_nsec = moment.count() % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) continue;
}

/// The kernel may otherwise delay each wake-up of this thread by 50 microseconds.
void wake_up_precisely() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

/// What the program's buffers would take, had they been allocated.
class MemoryCount {
 public:
  MemoryCount(const Program& program, int device) : program_(program) {
    for (const int buffer : program.resident) {
      if (program.buffers[index(buffer)].device == device) now_ += bytes(buffer);
    }
    peak_ = now_;
  }
  void begin(const Work& work) {
    for (int i = work.allocates.first; i < work.allocates.end; ++i) {
      now_ += bytes(program_.allocations[index(i)]);
    }
    peak_ = std::max(peak_, now_);
  }
  void end(const Work& work) {
    for (int i = work.frees.first; i < work.frees.end; ++i) {
      now_ -= bytes(program_.releases[index(i)]);
    }
  }
  Bytes peak() const { return peak_; }

 private:
  Bytes bytes(int buffer) const { return program_.buffers[index(buffer)].bytes; }

  const Program& program_;
  Bytes now_ = 0;
  Bytes peak_ = 0;
};

class Sleeper final : public Worker {
 public:
  Sleeper(const Compiled& compiled, const RankMap& ranks, Backend& backend, Transport& transport)
      : program_(compiled.program),
        costs_(compiled.costs),
        backend_(backend),
        transport_(transport),
        order_(order_of_device(compiled.program, transport.rank())),
        memory_(compiled.program, transport.rank()),
        sent_(compiled.program, ranks),
        received_(compiled.program, ranks),
        end_(compiled.program.work.size()),
        channel_free_(compiled.program.channels.size()),
        posted_(compiled.program.channels.size()) {
    wake_up_precisely();
  }

  void step(int, StepRecord& record) override {
    record_ = &record;
    Stamp& whole = record.ranks[index(transport_.rank())];
    whole.start = now();
    compute_free_ = collective_free_ = whole.start;
    std::ranges::fill(channel_free_, whole.start);
    std::ranges::fill(end_, unknown);
    for (const int i : order_) {
      begin(i);
      carry_out(i);
    }
    while (!reductions_.empty()) finish_reduction();
    sleep_until(collective_free_);
    whole.end = now();
  }

  std::vector<ChunkLoss> losses() override { return {}; }
  std::vector<HeldWeight> weights() override { return {}; }
  Bytes peak_memory() const override { return memory_.peak(); }

 private:
  static constexpr Moment unknown{-1};

  const Work& work(int i) const { return program_.work[index(i)]; }

  void carry_out(int i) {
    memory_.begin(work(i));
    switch (work(i).lane) {
      case Lane::compute: compute(i); break;
      case Lane::send: send(i); break;
      case Lane::receive: posted_[index(*work(i).channel)].push_back(i); break;
      case Lane::collective: reductions_.push_back(i); break;
    }
    memory_.end(work(i));
  }

  /// When all that it waits for on this rank has ended; takes messages and finishes reductions on
  /// the way.
  Moment ready(int i, Moment earliest) {
    for (int w = work(i).waits.first; w < work(i).waits.end; ++w) {
      const int on = program_.waits[index(w)];
      if (program_.chunks[index(work(on).chunk)].device != transport_.rank()) continue;
      while (work(on).lane == Lane::receive && end_[index(on)] == unknown) {
        take_message(*work(on).channel);
      }
      while (work(on).lane == Lane::collective && end_[index(on)] == unknown) finish_reduction();
      earliest = std::max(earliest, end_[index(on)]);
    }
    return earliest;
  }

  void set(int i, Moment start, Moment end) {
    record_->work[index(i)] = {.start = start, .end = end};
    end_[index(i)] = end;
  }

  void compute(int i) {
    if (work(i).fused_with) return compute_pair(i, *work(i).fused_with);
    const Moment start = ready(i, compute_free_);
    compute_free_ = start + cost_of(costs_.chunks[index(work(i).chunk)], work(i).instruction.op);
    set(i, start, compute_free_);
    sleep_until(compute_free_);
  }

  /// Both halves start when both are ready, and end together; the one that comes first does both.
  void compute_pair(int i, int other) {
    if (end_[index(i)] != unknown) return;
    const Moment start = ready(other, ready(i, compute_free_));
    const ChunkCosts& own = costs_.chunks[index(work(i).chunk)];
    const ChunkCosts& others = costs_.chunks[index(work(other).chunk)];
    const bool is_forward = work(i).instruction.op == Op::forward;
    const Duration one_by_one =
        cost_of(own, work(i).instruction.op) + cost_of(others, work(other).instruction.op);
    compute_free_ = start + (is_forward ? own : others).fused.value_or(one_by_one);
    set(i, start, compute_free_);
    set(other, start, compute_free_);
    sleep_until(compute_free_);
  }

  void send(int i) {
    const int channel = *work(i).channel;
    const ChannelCosts& costs = costs_.channels[index(channel)];
    const Moment start = ready(i, channel_free_[index(channel)]);
    channel_free_[index(channel)] = start + costs.occupancy;
    set(i, start, start + costs.occupancy + costs.latency);
    Tensor nothing = backend_.allocate({1}, Precision::float32);
    backend_.zero(nothing);
    transport_.send(channel, backend_, std::move(nothing), end_[index(i)],
                    sent_.next(channel, work(i)));
  }

  void take_message(int channel) {
    const int receive = posted_[index(channel)].front();
    posted_[index(channel)].pop_front();
    const Arrival arrival = transport_.receive(channel, backend_);
    received_.check(channel, work(receive), arrival.label);
    // What is asked for starts when there is room for it.
    const ChannelCosts& costs = costs_.channels[index(channel)];
    const Moment room = ready(receive, Moment{0});
    set(receive, arrival.sent,
        std::max(arrival.arrived.get(), room + costs.occupancy + costs.latency));
  }

  void finish_reduction() {
    const int i = reductions_.front();
    reductions_.pop_front();
    const int group = *work(i).group;
    const Moment start = last_ready(group, ready(i, collective_free_));
    collective_free_ = start + costs_.groups[index(group)];
    set(i, start, collective_free_);
  }

  /// The moment at which the last member of the group was ready.
  Moment last_ready(int group, Moment own) {
    const Duration ahead = transport_.clock().ahead;  // they tell each other rank 0's time
    const std::vector<int>& chunks = program_.groups[index(group)].chunks;
    Tensor moments =
        backend_.allocate({static_cast<std::int64_t>(chunks.size())}, Precision::float64);
    backend_.zero(moments);
    for (std::size_t place = 0; place < chunks.size(); ++place) {
      if (program_.chunks[index(chunks[place])].device != transport_.rank()) continue;
      moments.data<double>()[place] = static_cast<double>((own - ahead).count());
    }
    transport_.all_reduce(group, backend_, moments);
    const double* first = moments.data<double>();
    return std::max(
        own,
        ahead + Moment{static_cast<Moment::rep>(*std::max_element(first, first + chunks.size()))});
  }

  const Program& program_;
  const Costs& costs_;
  Backend& backend_;
  Transport& transport_;
  std::vector<int> order_;
  MemoryCount memory_;
  MessageLabels sent_, received_;

  // Of the current step:
  StepRecord* record_ = nullptr;
  Moment compute_free_{0};
  Moment collective_free_{0};
  std::vector<Moment> end_;  ///< parallel to the program's work
  std::vector<Moment> channel_free_;
  std::vector<std::deque<int>> posted_;  ///< per channel: receives whose message has not been taken
  std::deque<int> reductions_;           ///< issued, and nothing has needed them yet
};

}  // namespace

RunResult sleep_through(const Compiled& compiled, const RunOptions& options,
                        const Machinery& machinery) {
  const RankMap ranks = one_rank_per_device(compiled.program);
  return conduct(compiled, ranks, 1, options, machinery,
                 [&](Backend& backend, Transport& transport) {
                   return std::make_unique<Sleeper>(compiled, ranks, backend, transport);
                 });
}

}  // namespace stagecraft
