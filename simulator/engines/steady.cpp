#include "simulator/engines/steady.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/engines/clock.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/repeats.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft {

// --- Iterations ---------------------------------------------------------------------------------

namespace {

/// The last work on each lane that carries any: its end, or for a send the end less the latency,
/// says when the lane is free. And what the next iteration waits for.
std::vector<int> last_on_lanes(const Program& program) {
  std::map<std::tuple<int, Lane, int>, int> last;
  for (int device = 0; device < program.devices; ++device) {
    for (const int i : program.order[index(device)]) {
      const Work& work = program.work[index(i)];
      if (work.lane != Lane::receive) last[{device, work.lane, work.channel.value_or(-1)}] = i;
    }
  }
  std::vector<int> works;
  for (const auto& [lane, work] : last) works.push_back(work);
  for (const CarriedWait& wait : program.carried) works.push_back(wait.on);
  return works;
}

}  // namespace

Duration SteadyIterations::step(int iterations) const {
  const auto known = static_cast<int>(ends.size());
  if (iterations <= known) return ends[index(iterations - 1)];
  const int beyond = iterations - known;
  const int periods = (beyond + period - 1) / period;
  return ends[index(iterations - periods * period - 1)] + periods * time;
}

std::optional<SteadyIterations> steady_iterations(const Program& program, const Costs& costs,
                                                  int most) {
  require_whole(program, "a run of several iterations");
  Clock clock(program, costs);
  const std::vector<int> lasts = last_on_lanes(program);
  std::map<std::vector<Duration>, std::pair<int, Duration>> seen;  // shape → iteration, moment
  SteadyIterations steady;
  for (int iteration = 0; iteration < most; ++iteration) {
    clock.run();
    Duration latest{0};
    for (const auto& order : program.order) {
      for (const int i : order) latest = std::max(latest, clock.end(i));
    }
    steady.ends.push_back(latest);
    if (lasts.empty()) return steady;
    std::vector<Duration> state;  // latencies are the same each time, so ends will do
    for (const int i : lasts) state.push_back(clock.end(i));
    const Duration moment = state.front();
    for (Duration& time : state) time -= moment;
    const auto [place, is_new] = seen.try_emplace(state, iteration, moment);
    if (is_new) continue;
    steady.period = iteration - place->second.first;
    steady.time = moment - place->second.second;
    return steady;
  }
  return {};
}

/// Of those that show no period only the moments at which lanes are free are kept.
Duration last_iteration(const Program& program, const Costs& costs, int iterations, bool barrier) {
  if (barrier) return CompiledProgram(program).step(costs);
  if (const auto steady = steady_iterations(program, costs))
    return steady->step(iterations) - steady->step(iterations - 1);
  constexpr std::size_t most_works = 1'000'000'000;
  if (program.work.size() > most_works / index(iterations)) {
    fail_usage(iterations, " iterations of ", program.work.size(),
               " instructions show no period and are more than the ", most_works,
               " that are worked out; ask for fewer");
  }
  Clock clock(program, costs);
  Duration before{0}, last{0};
  for (int iteration = 0; iteration < iterations; ++iteration) {
    clock.run();
    before = last;
    for (const auto& order : program.order) {
      for (const int i : order) last = std::max(last, clock.end(i));
    }
  }
  return last - before;
}

// --- Microbatches -------------------------------------------------------------------------------

namespace {

/// When everything ends, by what it is and microbatch.
class EndTable {
 public:
  EndTable(const Program& program, const WorkTimes& times) {
    std::map<std::tuple<int, Op, int>, std::size_t> rows;
    for (std::size_t i = 0; i < program.work.size(); ++i) {
      const Work& work = program.work[i];
      const Op op = work.instruction.op;
      if (is_collective(op) || is_about_norm(op) || op == Op::update) continue;
      const std::tuple key{work.chunk, work.instruction.op, work.channel.value_or(-1)};
      const auto [place, is_new] = rows.try_emplace(key, ends_.size());
      if (is_new) ends_.emplace_back(index(program.microbatches), absent);
      ends_[place->second][index(work.instruction.microbatch)] = times.end[i];
    }
  }

  /// How much later everything is `by` microbatches after [first, end), if it is the same for all.
  std::optional<Duration> shift(int first, int end, int by) const {
    std::optional<Duration> shift;
    for (const auto& row : ends_) {
      for (int k = first; k < end; ++k) {
        const Duration now = row[index(k)], then = row[index(k + by)];
        if ((now == absent) != (then == absent)) return {};
        if (now == absent) continue;
        if (shift.value_or(then - now) != then - now) return {};
        shift = then - now;
      }
    }
    return shift;
  }

 private:
  static constexpr Duration absent{-1};
  std::vector<std::vector<Duration>> ends_;
};

std::vector<int> replica_counts(const Schedule& schedule, const LowerOptions& options) {
  std::vector<int> counts;
  for (const auto& replicas : options.replicas) counts.push_back(static_cast<int>(replicas.size()));
  counts.resize(index(schedule.stages), 1);
  return counts;
}

/// Microbatches in flight on the first device.
int window_of(const ScheduleShape& shape) {
  return shape.warm_up.empty() ? shape.devices : shape.warm_up.front();
}

/// Microbatches from one update of all stages to the next, and the schedule's own for one.
struct Intervals {
  int common = 1;
  int own = 1;
};

Intervals intervals_of(const ScheduleKind& kind, ScheduleShape shape, const LowerOptions& options) {
  if (kind.weights == WeightPolicy::flush) return {};
  shape.microbatches = shape.group.value_or(window_of(shape));
  const Schedule schedule = kind.generate(shape);
  return {common_interval(schedule, options.replica_policy, replica_counts(schedule, options)),
          schedule.update_every};
}

/// Microbatches in flight at once, at most. The update behind a replica's turn also waits for the
/// rest of the round.
int most_in_flight(const Schedule& schedule, const LowerOptions& options) {
  const std::vector<int> peaks = peak_in_flight(schedule, false);
  const int peak = *std::max_element(peaks.begin(), peaks.end());
  if (options.replica_policy == ReplicaPolicy::split) return peak;
  const std::vector<int> counts = replica_counts(schedule, options);
  return peak + *std::max_element(counts.begin(), counts.end()) - 1;
}

/// A run with fewer microbatches.
struct ShortRun {
  Duration step{0};
  std::optional<SteadyMicrobatches> period;
};

/// Before the drain, `in_flight` microbatches and the shift must still fit; orders repeat after
/// `unit` microbatches.
std::optional<SteadyMicrobatches> find_period(const EndTable& ends, int microbatches, int in_flight,
                                              int unit, int longest) {
  const int end = microbatches - in_flight;
  for (int by = unit; by <= longest; by += unit) {
    const int first = end - in_flight - by;
    if (first < 0) return {};
    if (const auto time = ends.shift(first, first + in_flight, by))
      return SteadyMicrobatches{by, *time};
  }
  return {};
}

ShortRun run_short(const ScheduleKind& kind, const ScheduleShape& shape, const Costs& costs,
                   const LowerOptions& options, int unit) {
  const Schedule schedule = kind.generate(shape);
  const Program program = lower(schedule, options);
  const WorkTimes times = CompiledProgram(program).times(costs);
  ShortRun run;
  for (const Duration end : times.end) run.step = std::max(run.step, end);
  const int in_flight = most_in_flight(schedule, options);
  run.period = find_period(EndTable(program, times), shape.microbatches, in_flight, unit,
                           std::max(2 * in_flight, unit));
  return run;
}

}  // namespace

/// A window of K microbatches in flight may give a period of K, and with orders that repeat after
/// u microbatches one of K u.
std::optional<SteadyMicrobatches> steady_microbatches(const ScheduleKind& kind,
                                                      const ScheduleShape& shape,
                                                      const Costs& costs,
                                                      const LowerOptions& options, int most) {
  const auto [unit, own] = intervals_of(kind, shape, options);
  if (unit > most) return {};
  ScheduleShape longer = shape;
  for (longer.microbatches = (8 * window_of(shape) * own + unit - 1) / unit * unit;
       longer.microbatches <= most; longer.microbatches *= 2) {
    const Schedule schedule = kind.generate(longer);
    const Program program = lower(schedule, options);
    const EndTable ends(program, CompiledProgram(program).times(costs));
    const int in_flight = most_in_flight(schedule, options);
    const auto period =
        find_period(ends, longer.microbatches, in_flight, unit, 2 * in_flight * unit);
    if (period) return period;
  }
  return {};
}

LongStep long_step(const ScheduleKind& kind, const ScheduleShape& shape, const Costs& costs,
                   const LowerOptions& options) {
  ScheduleShape shorter = shape;
  const int unit =
      std::lcm(shape.group.value_or(shape.devices), intervals_of(kind, shape, options).common);
  shorter.microbatches = 8 * shape.virtual_stages * unit + shape.microbatches % unit;
  for (; shorter.microbatches < shape.microbatches; shorter.microbatches += shorter.microbatches) {
    const ShortRun run = run_short(kind, shorter, costs, options, unit);
    if (!run.period) continue;
    const int missing = shape.microbatches - shorter.microbatches;
    const int rest = missing % run.period->microbatches;
    ScheduleShape fitting = shorter;
    fitting.microbatches += rest;
    const ShortRun fitted = rest == 0 ? run : run_short(kind, fitting, costs, options, unit);
    const int periods = (missing - rest) / run.period->microbatches;
    return {fitted.step + periods * run.period->time, fitting.microbatches};
  }
  return {run_short(kind, shape, costs, options, unit).step, shape.microbatches};
}

}  // namespace stagecraft
