// Schedules of many microbatches, told by programs of few: what repeats is counted, not run.
//
// Between warm-up and drain most schedules do for microbatch k + u what they do for k. So a program
// with fewer microbatches, by a multiple of u, has the same warm-up, the same drain, and in between
// the same again less often (`shortened`: the whole order is compared with it, instruction by
// instruction). Its times are then looked at for a period of c microbatches, a multiple of u: if
// all that is done for more microbatches in a row than are in flight is shifted by t from one
// period to the next, what follows is shifted likewise, and c more microbatches take t longer (as
// in engines/steady.hpp).

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// A schedule with fewer microbatches that tells of one with more.
struct Shortened {
  ScheduleShape shape;  ///< of the shorter one
  LeftOut left_out;     ///< what its program leaves out
};

/// About `instructions` instructions of the schedule with this shape; nothing if these are not at
/// most half of all, or if the order does not repeat. `replicas` of each stage as LowerOptions has
/// them; empty: one each. Errors as the generator's.
std::optional<Shortened> shortened(const ScheduleKind& kind, const ScheduleShape& shape,
                                   std::int64_t instructions, const LowerOptions& options = {});

/// Instructions of compute up to which nothing is left out: they take a second.
inline constexpr std::int64_t most_in_full = 200'000;

/// And up to which an order is worked out that does not repeat, as GPipe's and those that are made
/// for their durations: ten seconds and half a gigabyte. Others may be four times as long.
inline constexpr std::int64_t most_without_repeat = 1'000'000;

/// Forwards and backwards of the shape, a half as one.
std::int64_t passes_of(const ScheduleShape& shape);

/// Where `shortened` has given nothing: throws Error (usage) for more than `most_without_repeat` of
/// `passes`, unless there were only too few microbatches to leave half of them out.
void require_in_reach(const ScheduleKind& kind, const ScheduleShape& shape, std::int64_t passes,
                      std::int64_t instructions, const LowerOptions& options = {});

/// The schedule's program; what repeats is left out of one of more than `most_in_full` passes, if a
/// period shows with these costs, which must not depend on the number of microbatches. Errors as
/// the generator's, `lower`'s and `require_in_reach`'s.
Program counted_program(const ScheduleKind& kind, const ScheduleShape& shape, const Costs& costs,
                        const LowerOptions& options = {});

/// Finds what repeats in the times of a program that leaves microbatches out.
class RepeatFinder {
 public:
  explicit RepeatFinder(const Program& program);

  /// `end` of each work. Nothing if no period shows that what is left out is a multiple of.
  std::optional<Repeat> find(const std::vector<Duration>& end) const;
  /// The same. Throws Error (infeasible) instead.
  Repeat get(const std::vector<Duration>& end) const;
  /// The first microbatch from which on everything comes again so, up to where the order is known
  /// to repeat.
  int repeats_from(const std::vector<Duration>& end, const Repeat& repeat) const;
  /// Throws Error (usage): `who` needs what is left out.
  [[noreturn]] void refuse(std::string_view who) const;

 private:
  /// Of all works of one kind of one chunk, by microbatch; none where there is none.
  using Row = std::vector<int>;
  std::optional<Duration> shift(const std::vector<Duration>& end, int first, int last,
                                int by) const;

  LeftOut left_out_;
  int microbatches_ = 0;
  std::vector<Row> rows_;
};

/// Whether what the program leaves out can be counted with these costs.
bool shows_period(const Program& program, const Costs& costs);

/// Throws Error (usage) if the program leaves anything out: `who` needs all of it.
void require_whole(const Program& program, std::string_view who);

}  // namespace stagecraft
