// Programs with few microbatches that stand for schedules with many: the repetition is
// extrapolated, not run.
//
// Between warm-up and drain, most schedules run microbatch k + u like microbatch k. So a program
// with fewer microbatches, by a multiple of u, has the same warm-up and drain, and fewer
// repetitions between them (`shortened` compares the whole order with it, instruction by
// instruction). Its times are then searched for a period of c microbatches, a multiple of u: if the
// times of more consecutive microbatches than are in flight are shifted by t from one period to the
// next, all later ones are, and c more microbatches take t longer (as in engines/steady.hpp).

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// A schedule with fewer microbatches that stands for one with more.
struct Shortened {
  ScheduleShape shape;  ///< shape of the shorter schedule
  LeftOut left_out;     ///< what its program leaves out
};

/// A shortened schedule of about `instructions` instructions; nothing if that would be more than
/// half of all, or if the order does not repeat. `replicas`: the numbers of replicas of the stages;
/// empty: one each. Errors as the generator's.
std::optional<Shortened> shortened(const ScheduleKind& kind, const ScheduleShape& shape,
                                   std::int64_t instructions, const LowerOptions& options = {});

/// Number of compute instructions up to which nothing is left out; they take a second.
inline constexpr std::int64_t most_in_full = 200'000;

/// Number up to which a non-repeating order is generated, such as GPipe's and those generated for
/// given durations: ten seconds and half a gigabyte. Other orders may be four times as long.
inline constexpr std::int64_t most_without_repeat = 1'000'000;

/// Number of forwards and backwards of the shape; half a pass counts as one.
std::int64_t passes_of(const ScheduleShape& shape);

/// Called if `shortened` has returned nothing. Throws Error (usage) for more than
/// `most_without_repeat` passes, unless the only reason is that half of the microbatches could not
/// be left out.
void require_in_reach(const ScheduleKind& kind, const ScheduleShape& shape, std::int64_t passes,
                      std::int64_t instructions, const LowerOptions& options = {});

/// The schedule's program. With more than `most_in_full` passes, the repetition is left out if
/// these costs have a period; the costs must not depend on the number of microbatches. Errors as
/// the generator's, `lower`'s and `require_in_reach`'s.
Program counted_program(const ScheduleKind& kind, const ScheduleShape& shape, const Costs& costs,
                        const LowerOptions& options = {});

/// Finds the period in the times of a program that leaves microbatches out.
class RepeatFinder {
 public:
  explicit RepeatFinder(const Program& program);

  /// `end` has the end of each work. Nothing if there is no period of which the left-out
  /// microbatches are a multiple.
  std::optional<Repeat> find(const std::vector<Duration>& end) const;
  /// As `find`, but throws Error (infeasible) if there is no period.
  Repeat get(const std::vector<Duration>& end) const;
  /// The first microbatch from which on all times repeat with this period, as far as the order is
  /// known to repeat.
  int repeats_from(const std::vector<Duration>& end, const Repeat& repeat) const;
  /// Throws Error (usage), since `who` needs the whole program.
  [[noreturn]] void refuse(std::string_view who) const;

 private:
  /// The works of one kind of one chunk, by microbatch; `none` if a microbatch has none.
  using Row = std::vector<int>;
  std::optional<Duration> shift(const std::vector<Duration>& end, int first, int last,
                                int by) const;

  LeftOut left_out_;
  int microbatches_ = 0;
  std::vector<Row> rows_;
};

/// Whether the left-out repetition can be extrapolated with these costs.
bool shows_period(const Program& program, const Costs& costs);

/// Throws Error (usage) if the program leaves anything out, since `who` needs the whole program.
void require_whole(const Program& program, std::string_view who);

}  // namespace stagecraft
