#include "simulator/engines/repeats.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/engines/compiled.hpp"
#include "simulator/engines/exact_times.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft {

// --- Orders -------------------------------------------------------------------------------------

namespace {

using Order = std::vector<Instruction>;

Instruction later(Instruction instruction, int by) {
  instruction.microbatch += by;
  return instruction;
}

/// Whether what stands `period` places behind each of [first, end) does the same, `by` microbatches
/// later.
bool repeats(const Order& order, std::size_t first, std::size_t end, std::size_t period, int by) {
  for (std::size_t i = first; i < end; ++i) {
    if (order[i + period] != later(order[i], by)) return false;
  }
  return true;
}

/// Instructions of each microbatch more on each device; nothing where they are not equally many.
std::optional<std::vector<std::size_t>> per_microbatch(const Schedule& longer,
                                                       const Schedule& shorter) {
  const std::size_t more = index(longer.microbatches - shorter.microbatches);
  if (longer.devices.size() != shorter.devices.size()) return {};
  std::vector<std::size_t> counts;
  for (std::size_t d = 0; d < longer.devices.size(); ++d) {
    const std::size_t all = longer.devices[d].size(), fewer = shorter.devices[d].size();
    if (all < fewer || (all - fewer) % more != 0) return {};
    counts.push_back((all - fewer) / more);
  }
  return counts;
}

/// What is compared of a short order: its middle. All that is asked of it in the end lies behind.
struct Middle {
  std::size_t first = 0, end = 0;
};
Middle middle_of(const Order& order) {
  return {order.size() / 4, order.size() - order.size() / 4};
}

/// The least number of microbatches after which the middle of every device's order repeats, up to
/// `most`; a multiple of `of`.
std::optional<int> unit_of(const Schedule& schedule, const std::vector<std::size_t>& counts, int of,
                           int most) {
  for (int unit = of; unit <= most; unit += of) {
    check_abandoned();
    bool all = true;
    for (std::size_t d = 0; d < counts.size() && all; ++d) {
      const Order& order = schedule.devices[d];
      const auto [first, end] = middle_of(order);
      const std::size_t period = counts[d] * index(unit);
      all = end - first > 2 * period && repeats(order, first, end - period, period, unit);
    }
    if (all) return unit;
  }
  return {};
}

/// Whether the longer order is the shorter one with `left_out` more microbatches in its middle,
/// each period of `unit` like the one before.
bool extends(const Order& longer, const Order& shorter, std::size_t count, int unit, int left_out) {
  const std::size_t cut = shorter.size() / 2;
  const std::size_t inserted = count * index(left_out);
  const std::size_t period = count * index(unit);
  if (longer.size() != shorter.size() + inserted) return false;
  if (!std::equal(shorter.begin(), shorter.begin() + static_cast<std::ptrdiff_t>(cut),
                  longer.begin())) {
    return false;
  }
  if (!repeats(longer, cut - period, cut - period + inserted, period, unit)) return false;
  for (std::size_t i = cut; i < shorter.size(); ++i) {
    if (longer[i + inserted] != later(shorter[i], left_out)) return false;
  }
  return true;
}

/// Fused pairs are positions in an order.
bool extends_pairs(const Schedule& longer, const Schedule& shorter,
                   const std::vector<std::size_t>& counts, int unit, int left_out) {
  if (longer.fused.size() != shorter.fused.size()) return false;
  for (std::size_t d = 0; d < longer.fused.size(); ++d) {
    const std::size_t cut = shorter.devices[d].size() / 2;
    const std::size_t inserted = counts[d] * index(left_out);
    const std::size_t period = counts[d] * index(unit);
    std::vector<char> is_first(longer.devices[d].size(), 0), expected = is_first;
    for (const int i : longer.fused[d]) is_first[index(i)] = 1;
    for (const int i : shorter.fused[d])
      expected[index(i) < cut ? index(i) : index(i) + inserted] = 1;
    for (std::size_t i = cut; i < cut + inserted; ++i) expected[i] = expected[i - period];
    if (is_first != expected) return false;
  }
  return true;
}

int largest(const std::vector<int>& numbers) {
  return *std::max_element(numbers.begin(), numbers.end());
}

/// Microbatches that every schedule of the table takes more or fewer of: a multiple of what its
/// constraints speak of.
std::int64_t step_between_shapes(const ScheduleShape& shape, std::int64_t unit) {
  return std::lcm<std::int64_t, std::int64_t>(
      2 * std::int64_t{shape.devices} * shape.virtual_stages,
      std::lcm<std::int64_t, std::int64_t>(shape.group.value_or(1), unit));
}

std::vector<int> counts_of_replicas(const LowerOptions& options) {
  std::vector<int> counts;
  for (const auto& replicas : options.replicas) counts.push_back(static_cast<int>(replicas.size()));
  return counts;
}

/// Of the replicas of a stage, if they take turns.
std::int64_t turns_of(const LowerOptions& options) {
  const std::vector<int> replicas = counts_of_replicas(options);
  const bool turns = options.replica_policy != ReplicaPolicy::split;
  return turns && !replicas.empty() ? common_multiple(replicas) : 1;
}

/// Microbatches that about `instructions` instructions are too few for.
std::int64_t most_left_out(const ScheduleShape& shape, std::int64_t instructions,
                           const LowerOptions& options) {
  const std::int64_t of_replicas = turns_of(options);
  const std::int64_t step = step_between_shapes(shape, of_replicas);
  const std::int64_t least =
      std::max(instructions / (passes_of(shape) / shape.microbatches),
               8 * std::lcm<std::int64_t, std::int64_t>(
                       std::int64_t{shape.devices} * shape.virtual_stages, of_replicas));
  // Periods of other costs divide what is left out, too, if it has many divisors.
  for (const std::int64_t factor : {2520, 420, 60, 12, 6, 2, 1}) {
    if (factor > 1 && step * factor > least) continue;
    return (shape.microbatches - least) / (step * factor) * (step * factor);
  }
  return 0;
}

bool can_leave_half_out(const ScheduleShape& shape, std::int64_t instructions,
                        const LowerOptions& options) {
  const std::int64_t left_out = most_left_out(shape, instructions, options);
  return left_out > 0 && 2 * left_out >= shape.microbatches;
}

bool reckons_with_microbatches(const ScheduleKind& kind) {
  return kind.generate == zb_auto || kind.generate == zbv_auto || kind.generate == zb_1p ||
         kind.generate == zb_2p;
}

}  // namespace

std::optional<Shortened> shortened(const ScheduleKind& kind, const ScheduleShape& shape,
                                   std::int64_t instructions, const LowerOptions& options) {
  // These take long to make, and no two of them need be alike.
  if (reckons_with_microbatches(kind)) return {};
  if (!can_leave_half_out(shape, instructions, options)) return {};
  ScheduleShape fewer = shape;
  fewer.microbatches -= static_cast<int>(most_left_out(shape, instructions, options));
  const Schedule shorter = kind.generate(fewer);
  const Schedule longer = kind.generate(shape);
  // Pieces of sequences and copies of the model count by themselves.
  const std::int64_t missing = std::int64_t{longer.microbatches} - shorter.microbatches;
  if (missing <= 0) return {};
  const auto counts = per_microbatch(longer, shorter);
  if (!counts) return {};
  std::vector<int> all = counts_of_replicas(options);
  all.resize(index(shorter.stages), 1);
  const bool turns = options.replica_policy != ReplicaPolicy::split;
  const int of = std::lcm(std::lcm(turns ? common_multiple(all) : 1, shorter.sequence_chunks),
                          common_interval(shorter, options.replica_policy, all));
  const auto unit = unit_of(shorter, *counts, of, shorter.microbatches / 8);
  if (!unit || missing % *unit != 0) return {};
  for (std::size_t d = 0; d < counts->size(); ++d) {
    check_abandoned();
    if (!extends(longer.devices[d], shorter.devices[d], (*counts)[d], *unit,
                 static_cast<int>(missing))) {
      return {};
    }
  }
  if (!extends_pairs(longer, shorter, *counts, *unit, static_cast<int>(missing))) return {};
  const int in_flight =
      largest(peak_in_flight(shorter, false)) + (turns ? largest(all) - 1 : 0) + shorter.feedback;
  return Shortened{.shape = fewer,
                   .left_out = {.microbatches = static_cast<int>(missing),
                                .unit = *unit,
                                .first = shorter.microbatches / 4 + in_flight,
                                .end = shorter.microbatches * 3 / 4 - in_flight,
                                .in_flight = in_flight}};
}

std::int64_t passes_of(const ScheduleShape& shape) {
  return 2 * std::int64_t{shape.devices} * shape.virtual_stages * shape.microbatches *
         shape.sequence_chunks * (1 + std::int64_t{shape.decode_steps});
}

void require_in_reach(const ScheduleKind& kind, const ScheduleShape& shape, std::int64_t passes,
                      std::int64_t instructions, const LowerOptions& options) {
  if (passes <= most_without_repeat) return;
  if (!reckons_with_microbatches(kind) && !can_leave_half_out(shape, instructions, options)) return;
  fail_usage("this order of ", kind.name, " does not repeat, so that each of its ", passes,
             " instructions would be worked out, and that is done for ", most_without_repeat,
             " at most: ask for fewer microbatches");
}

Program counted_program(const ScheduleKind& kind, const ScheduleShape& shape, const Costs& costs,
                        const LowerOptions& options) {
  const std::int64_t passes = passes_of(shape);
  for (std::int64_t some = most_in_full / 4; 4 * some < passes; some *= 4) {
    const auto shorter = shortened(kind, shape, some, options);
    if (!shorter) {
      require_in_reach(kind, shape, passes, some, options);
      break;
    }
    Program program = lower(kind.generate(shorter->shape), options);
    program.left_out = shorter->left_out;
    if (shows_period(program, costs)) return program;
  }
  return lower(kind.generate(shape), options);
}

// --- Times --------------------------------------------------------------------------------------

namespace {

constexpr int nobody = -1;

}  // namespace

RepeatFinder::RepeatFinder(const Program& program)
    : left_out_(program.left_out.value()), microbatches_(program.microbatches) {
  std::map<std::tuple<int, Op, int>, std::size_t> places;
  for (std::size_t i = 0; i < program.work.size(); ++i) {
    const Work& work = program.work[i];
    const Op op = work.instruction.op;
    if (is_collective(op) || is_about_norm(op) || op == Op::update) continue;
    const std::tuple key{work.chunk, op, work.channel.value_or(nobody)};
    const auto [place, is_new] = places.try_emplace(key, rows_.size());
    if (is_new) rows_.emplace_back(index(program.microbatches), nobody);
    rows_[place->second][index(work.instruction.microbatch)] = static_cast<int>(i);
  }
}

/// How much later everything is `by` microbatches after [first, last), if it is the same for all.
std::optional<Duration> RepeatFinder::shift(const std::vector<Duration>& end, int first, int last,
                                            int by) const {
  std::optional<Duration> shift;
  for (const Row& row : rows_) {
    for (int k = first; k < last; ++k) {
      const int now = row[index(k)], then = row[index(k + by)];
      if ((now == nobody) != (then == nobody)) return {};
      if (now == nobody) continue;
      const Duration later = end[index(then)] - end[index(now)];
      if (shift.value_or(later) != later) return {};
      shift = later;
    }
  }
  return shift;
}

/// A period ends with the part of the order that is known to repeat. Before it lie twice as many
/// microbatches as are in flight, shifted alike: those on whom what follows depends, and those
/// whose memory comes again.
std::optional<Repeat> RepeatFinder::find(const std::vector<Duration>& end) const {
  const int last = left_out_.end;
  const int zone = 2 * left_out_.in_flight;
  for (int by = left_out_.unit; last - by - zone >= left_out_.first; by += left_out_.unit) {
    if (left_out_.microbatches % by != 0) continue;
    const auto time = shift(end, last - by - zone, last - by, by);
    if (!time) continue;
    exact_sum(std::ranges::max(end).count(),
              exact_product(left_out_.microbatches / by, time->count()));
    return Repeat{.first = last - by,
                  .microbatches = by,
                  .times = left_out_.microbatches / by,
                  .time = *time};
  }
  return {};
}

Repeat RepeatFinder::get(const std::vector<Duration>& end) const {
  if (const auto repeat = find(end)) return *repeat;
  throw Error(ErrorKind::infeasible,
              concat("a schedule of ", microbatches_ + left_out_.microbatches,
                     " microbatches is longer than what is worked out in full, and with these "
                     "times its first ",
                     microbatches_, " show no period that the rest could be counted by"),
              {}, {"ask for fewer microbatches"});
}

int RepeatFinder::repeats_from(const std::vector<Duration>& end, const Repeat& repeat) const {
  int from = repeat.first;
  while (from > left_out_.first &&
         shift(end, from - 1, from, repeat.microbatches).value_or(repeat.time) == repeat.time) {
    --from;
  }
  return from;
}

void RepeatFinder::refuse(std::string_view who) const {
  fail_usage(who, " needs every microbatch of the step, and ", left_out_.microbatches,
             " of them are counted by what repeats: ask for fewer microbatches");
}

bool shows_period(const Program& program, const Costs& costs) {
  return RepeatFinder(program).find(CompiledProgram(program).times(costs).end).has_value();
}

void require_whole(const Program& program, std::string_view who) {
  if (program.left_out) RepeatFinder(program).refuse(who);
}

}  // namespace stagecraft
