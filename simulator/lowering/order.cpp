// One global order of communication, so that nothing can deadlock.
//
// Call a send with its receive, a collective with all its members, or a fused pair one *operation*.
// Take any total order < of the operations that extends the program's dependencies, and let every
// device issue its part in that order:
//
//   device 0   F0.0 ── SF0.0 ─ F0.1 ── SF0.1 ──────── RB0.0 ─ B0.0
//                        │               │              │
//   device 1           RF1.0 ─ F1.0 ── RF1.1 ── B1.0 ─ SB1.0
//                        a       <       b       <      c            three operations
//
// Then even blocking sends without any buffer, on a single communication lane per device, never
// deadlock. Proof: let x be the least operation that has not finished. All smaller ones have, so x
// is the next communication of each device that takes part in it. What x waits for is computed from
// smaller operations only, so that finishes too. Now all of x's devices are in x, and x finishes;
// hence every operation does.
//
// The order used here is by start times of a nominal run (a forward takes 100, a transfer 1), ties
// by number: every wait adds at least one to the start, so the order extends the dependencies.
// Whether real times agree does not matter for the proof; that they roughly do keeps lanes from
// idling behind an early receive.
//
// If a schedule's own order has a cycle, no such order exists. The program is numbered all the
// same, so that `check` can show the cycle: the run goes on as if the first device that is stuck
// did not need to wait.

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>

#include "simulator/lowering/passes.hpp"

namespace stagecraft {

std::int64_t nominal_time(Op op) {
  if (!is_compute(op) || op == Op::update) return 1;
  return op == Op::backward ? 200 : 100;
}

namespace lowering {

namespace {

/// Of an operation, named by its first work.
std::int64_t nominal_time(const Draft& draft, int operation) {
  const Work& work = draft.program.work[index(operation)];
  const std::int64_t time = nominal_time(work.instruction.op);
  if (!work.fused_with) return time;
  return time + nominal_time(draft.program.work[index(*work.fused_with)].instruction.op);
}

/// For each work the least number of the works that make up its operation.
std::vector<int> operations(const Draft& draft) {
  const std::vector<Work>& work = draft.program.work;
  std::vector<int> operation(work.size());
  std::iota(operation.begin(), operation.end(), 0);
  for (const Wait& wait : draft.waits) {
    if (is_message(draft, wait)) operation[index(wait.work)] = wait.on;
  }
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i].fused_with) operation[i] = std::min(operation[i], *work[i].fused_with);
  }
  std::map<std::pair<int, int>, int> first_member;  // by group and microbatch
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (!work[i].group) continue;
    const std::pair key(*work[i].group, work[i].instruction.microbatch);
    operation[i] = first_member.try_emplace(key, static_cast<int>(i)).first->second;
  }
  return operation;
}

/// The run at nominal times, operation by operation, as soon as all they wait for is done.
class NominalRun {
 public:
  NominalRun(const Draft& draft, const std::vector<int>& operation)
      : draft_(draft),
        operation_(operation),
        waiting_for_(operation.size(), 0),
        start_(operation.size(), 0),
        done_(operation.size(), 0),
        next_compute_(draft.compute.size(), 0) {
    std::vector<KeyedValue> edges;
    for (const Wait& wait : draft.waits) {
      add_edge(edges, operation[index(wait.on)], operation[index(wait.work)]);
    }
    for (const auto& order : draft.compute) {
      for (std::size_t i = 1; i < order.size(); ++i) {
        add_edge(edges, operation[index(order[i - 1])], operation[index(order[i])]);
      }
    }
    successors_ = group_by_key(edges, operation.size());
    for (std::size_t i = 0; i < operation.size(); ++i) {
      if (operation[i] != static_cast<int>(i)) continue;
      ++remaining_;
      if (waiting_for_[i] == 0) ready_.push_back(static_cast<int>(i));
    }
  }

  /// Start times by operation.
  std::vector<std::int64_t> run() {
    std::size_t next = 0;
    while (remaining_ > 0) {
      if (next == ready_.size()) ready_.push_back(first_stuck());
      finish(ready_[next++]);
    }
    return start_;
  }

 private:
  void add_edge(std::vector<KeyedValue>& edges, int from, int to) {
    if (from == to) return;
    edges.push_back({from, to});
    ++waiting_for_[index(to)];
  }

  void finish(int operation) {
    if (done_[index(operation)] != 0) return;
    done_[index(operation)] = 1;
    --remaining_;
    const std::int64_t end = start_[index(operation)] + nominal_time(draft_, operation);
    const IndexRange range = successors_.ranges[index(operation)];
    for (int i = range.first; i < range.end; ++i) {
      const std::size_t next = index(successors_.values[index(i)]);
      if (done_[next] != 0) continue;
      start_[next] = std::max(start_[next], end);
      if (--waiting_for_[next] == 0) ready_.push_back(static_cast<int>(next));
    }
  }

  /// The next compute of the first device that has any left: every cycle holds some, since messages
  /// alone form none.
  int first_stuck() {
    for (std::size_t device = 0;; ++device) {
      const std::vector<int>& order = draft_.compute[device];
      std::size_t& next = next_compute_[device];
      while (next < order.size() && done_[index(operation_[index(order[next])])] != 0) ++next;
      if (next < order.size()) return operation_[index(order[next])];
    }
  }

  const Draft& draft_;
  const std::vector<int>& operation_;
  Grouped successors_;
  std::vector<int> waiting_for_;
  std::vector<std::int64_t> start_;
  std::vector<char> done_;
  std::vector<std::size_t> next_compute_;
  std::vector<int> ready_;
  int remaining_ = 0;
};

/// All work by start, then operation, then number: a send stands right before its receive. At equal
/// starts communication comes first, so that whoever issues instructions one by one starts it
/// before the next long computation.
std::vector<int> global_order(const std::vector<Work>& work, const std::vector<int>& operation,
                              const std::vector<std::int64_t>& start) {
  std::vector<int> order(work.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int i) {
    const int first = operation[index(i)];
    return std::tuple(start[index(first)], work[index(i)].lane == Lane::compute, first, i);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  return order;
}

void renumber(std::optional<int>& work, const std::vector<int>& number) {
  if (work) work = number[index(*work)];
}

void renumber(Draft& draft, const std::vector<int>& order) {
  std::vector<int> number(order.size());
  std::vector<Work> work;
  work.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    number[index(order[i])] = static_cast<int>(i);
    work.push_back(draft.program.work[index(order[i])]);
  }
  draft.program.work = std::move(work);
  for (Work& item : draft.program.work) renumber(item.fused_with, number);
  for (Wait& wait : draft.waits) wait = {number[index(wait.work)], number[index(wait.on)]};
  for (auto& list : draft.compute) {
    for (int& item : list) item = number[index(item)];
  }
  for (Passage& passage : draft.passages) {
    renumber(passage.forward, number);
    renumber(passage.recompute, number);
    renumber(passage.backward, number);
    renumber(passage.weight, number);
  }
  std::vector<CarriedWait>& carried = draft.program.carried;
  for (CarriedWait& wait : carried) wait = {number[index(wait.work)], number[index(wait.on)]};
  std::sort(carried.begin(), carried.end(), [](const CarriedWait& a, const CarriedWait& b) {
    return std::tie(a.work, a.on) < std::tie(b.work, b.on);
  });
}

}  // namespace

void order_communication(Draft& draft) {
  const std::vector<int> operation = operations(draft);
  const std::vector<std::int64_t> start = NominalRun(draft, operation).run();
  renumber(draft, global_order(draft.program.work, operation, start));
  Program& program = draft.program;
  program.order.resize(index(program.devices));
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    const int device = program.chunks[index(program.work[i].chunk)].device;
    program.order[index(device)].push_back(static_cast<int>(i));
  }
}

}  // namespace lowering

}  // namespace stagecraft
