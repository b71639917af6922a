// Programs that `check` judges, against an executor that takes its chances.

#include <random>

#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/mutations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Runs a program in a random order of events, every lane on its own and messages buffered, and
/// notes what goes wrong: live buffers that overlap, forwards and backwards without their data.
class Gambler {
 public:
  Gambler(const Program& program, std::mt19937& random)
      : program_(program),
        random_(random),
        state_(program.work.size(), State::waiting),
        head_(index(program.devices) * lanes.size(), 0),
        queue_(head_.size()) {
    for (const auto& order : program.order) {
      for (const int work : order) queue_[queue_of(work)].push_back(work);
    }
    for (const int buffer : program.resident) live_.push_back(buffer);
  }

  bool goes_wrong() {
    for (std::vector<int> events = possible(); !events.empty() && !wrong_; events = possible()) {
      const int work = events[random_() % events.size()];
      const bool starts = state_[index(work)] == State::waiting;
      starts ? start(work) : end(work);
      // Both halves of a fused pair at once.
      if (const auto other = work_at(work).fused_with) starts ? start(*other) : end(*other);
    }
    return wrong_;
  }

 private:
  enum class State { waiting, running, ended };

  const Work& work_at(int work) const { return program_.work[index(work)]; }
  std::size_t queue_of(int work) const {
    return index(device_of(program_, work)) * lanes.size() +
           static_cast<std::size_t>(work_at(work).lane);
  }

  std::vector<int> possible() const {
    std::vector<int> events;
    for (std::size_t queue = 0; queue < queue_.size(); ++queue) {
      if (head_[queue] == queue_[queue].size()) continue;
      const int work = queue_[queue][head_[queue]];
      if (state_[index(work)] == State::waiting ? may_start(work) : may_end(work))
        events.push_back(work);
    }
    return events;
  }

  bool may_start(int work) const {
    const auto other = work_at(work).fused_with;
    return waits_over(work) && (!other || waits_over(*other));
  }

  bool waits_over(int work) const {
    const IndexRange waits = work_at(work).waits;
    for (int i = waits.first; i < waits.end; ++i) {
      const int on = program_.waits[index(i)];
      const bool remote = device_of(program_, on) != device_of(program_, work);
      if (remote ? state_[index(on)] == State::waiting : state_[index(on)] != State::ended)
        return false;
    }
    return true;
  }

  /// A receive ends after its send, a collective after all its members have started.
  bool may_end(int work) const {
    for (std::size_t other = 0; other < program_.work.size(); ++other) {
      const Work& it = program_.work[other];
      const bool same_message = it.channel && it.channel == work_at(work).channel &&
                                is_send(it.instruction.op) &&
                                it.instruction.microbatch == work_at(work).instruction.microbatch;
      if (is_receive(work_at(work).instruction.op) && same_message && state_[other] != State::ended)
        return false;
      if (it.group && it.group == work_at(work).group && state_[other] == State::waiting)
        return false;
    }
    return true;
  }

  void start(int work) {
    state_[index(work)] = State::running;
    const IndexRange range = work_at(work).allocates;
    for (int i = range.first; i < range.end; ++i) {
      const int buffer = program_.allocations[index(i)];
      for (const int other : live_)
        wrong_ = wrong_ || overlap(program_.buffers[index(buffer)], program_.buffers[index(other)]);
      live_.push_back(buffer);
    }
    wrong_ = wrong_ || !data_ready(work);
  }

  static bool overlap(const Buffer& a, const Buffer& b) {
    return a.device == b.device &&
           std::max(a.offset, b.offset) < std::min(a.offset + a.bytes, b.offset + b.bytes);
  }

  /// Everything that feeds `work`, on its own device and as messages to its chunk, has ended.
  bool data_ready(int work) const {
    for (std::size_t other = 0; other < program_.work.size(); ++other) {
      const Work& it = program_.work[other];
      if (device_of(program_, static_cast<int>(other)) != device_of(program_, work)) continue;
      if (state_[other] != State::ended && feeds(it, work_at(work))) return false;
    }
    return true;
  }

  bool feeds(const Work& from, const Work& to) const {
    const auto [op, stage, microbatch] = from.instruction;
    const int pipe = program_.stages / program_.pipes;
    if (stage / pipe != to.instruction.stage / pipe) return false;
    const bool same = from.chunk == to.chunk && microbatch == to.instruction.microbatch;
    const bool piece = from.chunk == to.chunk && op == to.instruction.op &&
                       microbatch / program_.sequence_chunks ==
                           to.instruction.microbatch / program_.sequence_chunks;
    const int distance = microbatch - to.instruction.microbatch;
    if (piece && distance == (op == Op::forward ? -1 : 1) && op <= Op::backward) return true;
    switch (to.instruction.op) {
      case Op::forward:
        return (op == Op::receive_activation && same) ||
               (op == Op::forward && microbatch == to.instruction.microbatch &&
                stage + 1 == to.instruction.stage);
      case Op::recompute: return op == Op::forward && same;
      case Op::backward:
        return ((op == Op::receive_gradient || op == Op::forward || op == Op::recompute) && same) ||
               (op == Op::backward && microbatch == to.instruction.microbatch &&
                stage == to.instruction.stage + 1);
      case Op::send_activation: return op == Op::forward && same;
      case Op::send_gradient: return op == Op::backward && same;
      case Op::reduce_gradient:
      case Op::reduce_scatter: return op == Op::backward && from.chunk == to.chunk;
      case Op::gather_parameters: return op == Op::update && from.chunk == to.chunk;
      case Op::send_norm: return op == Op::receive_norm || op == Op::backward;
      case Op::reduce_norm:
        return op == Op::backward || op == Op::reduce_gradient || op == Op::reduce_scatter;
      case Op::update:
        return (op == Op::backward || op == Op::reduce_gradient || op == Op::reduce_scatter ||
                op == Op::reduce_norm || op == Op::receive_norm) &&
               from.chunk == to.chunk;
      default: return false;
    }
  }

  void end(int work) {
    state_[index(work)] = State::ended;
    ++head_[queue_of(work)];
    const IndexRange range = work_at(work).frees;
    for (int i = range.first; i < range.end; ++i) {
      live_.erase(std::remove(live_.begin(), live_.end(), program_.releases[index(i)]),
                  live_.end());
    }
  }

  const Program& program_;
  std::mt19937& random_;
  std::vector<State> state_;
  std::vector<std::size_t> head_;
  std::vector<std::vector<int>> queue_;  // per device and lane
  std::vector<int> live_;
  bool wrong_ = false;
};

void mutate(Program& program, std::mt19937& random) {
  const auto pick = [&](std::size_t size) { return static_cast<std::size_t>(random() % size); };
  switch (pick(3)) {
    case 0: {
      auto& order = program.order[pick(program.order.size())];
      const std::size_t place = pick(order.size() - 1);
      return std::swap(order[place], order[place + 1]);
    }
    case 1: {
      const int work = static_cast<int>(pick(program.work.size()));
      const IndexRange waits = program.work[index(work)].waits;
      if (waits.size() > 0)
        drop_wait(program, work, program.waits[index(waits.first) + pick(index(waits.size()))]);
      return;
    }
    default: {
      Buffer& buffer = program.buffers[pick(program.buffers.size())];
      buffer.offset = program.buffers[pick(program.buffers.size())].offset;
      return;
    }
  }
}

}  // namespace

TEST_CASE("check: no random execution of a program called safe goes wrong, and most others do",
          "[seconds]") {
  std::mt19937 random(3);
  const std::vector<Setting> settings{
      {.schedule = "1f1b", .devices = 3, .microbatches = 3},
      {.schedule = "gpipe", .devices = 2, .microbatches = 3, .recompute = Recompute::full},
      {.schedule = "interleaved", .devices = 2, .microbatches = 2, .virtual_stages = 2},
      {.schedule = "1f1b", .devices = 2, .microbatches = 2, .replicas = {2, 1}, .rows = 2},
      {.schedule = "chimera", .devices = 2, .microbatches = 4},
      {.schedule = "dualpipe", .devices = 2, .microbatches = 4},
      {.schedule = "dualpipev", .devices = 2, .microbatches = 4, .virtual_stages = 2},
      {.schedule = "seq1f1b", .devices = 2, .microbatches = 2, .sequence_chunks = 2},
      {.devices = 2,
       .microbatches = 2,
       .replicas = {2, 1},
       .rows = 2,
       .sharding = Sharding::zero1,
       .norm = GradientNorm::global},
      {.devices = 3, .microbatches = 2, .norm = GradientNorm::post_validated},
  };
  int safe = 0, unsafe = 0, confirmed = 0;
  for (int round = 0; round < 600; ++round) {
    const Program original = lowered(settings[static_cast<std::size_t>(round) % settings.size()]);
    Program mutant = original;
    mutate(mutant, random);
    const CheckReport report = check(mutant);
    report.safe() ? ++safe : ++unsafe;
    bool wrong = false;
    for (int run = 0; run < 12 && !wrong; ++run) wrong = Gambler(mutant, random).goes_wrong();
    INFO("round " << round << "\n" << all_messages(report));
    if (report.safe()) REQUIRE_FALSE(wrong);
    if (wrong) ++confirmed;
  }
  CHECK(safe > 40);
  CHECK(unsafe > 100);
  CHECK(confirmed > 60);
}
