#include "planner/analysis/shadow_prices.hpp"

#include <algorithm>
#include <array>
#include <iomanip>

#include "planner/search/exact.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "planner/space/workers.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

std::string percent_of(double part) {
  return concat(std::fixed, std::setprecision(1), 100 * part, " %");
}

Duration scaled(Duration time, double factor) {
  return Duration{static_cast<std::int64_t>(static_cast<double>(time.count()) * factor)};
}

namespace {

/// Enough for a fraction of a second each; the plan itself under the changed conditions is always
/// looked at.
constexpr std::int64_t small_effort = 5'000'000;
/// Where all plans are new ones.
constexpr std::int64_t larger_effort = 25'000'000;

/// More settings, times devices, take too long to be prepared for a search.
constexpr std::size_t most_prepared = 512;

bool has_many_settings(const Problem& problem) {
  const Space space(problem);
  std::size_t count = 0;
  for (const Setting& setting : space.settings()) {
    count += static_cast<std::size_t>(space.devices(setting));
  }
  return count > most_prepared;
}

/// The microbatch size asked for that is the plan's, or that of each of its copies of a pipeline.
std::int64_t asked_microbatch(const Problem& problem, const Plan& plan) {
  const auto& sizes = problem.microbatches;
  const std::int64_t whole = plan.batch.microbatch;
  if (!problem.microbatch_per_copy || std::ranges::find(sizes, whole) != sizes.end()) return whole;
  return whole / static_cast<std::int64_t>(plan.stages.front().devices.size());
}

/// The question about plans with the schedule, the microbatch and the tensor-parallel degree of
/// this one, where they are still asked for.
Problem near(Problem problem, const Plan& plan) {
  const auto keep = [](auto& choices, const auto& is_own) {
    if (std::any_of(choices.begin(), choices.end(), is_own)) {
      std::erase_if(choices, [&](const auto& choice) { return !is_own(choice); });
    }
  };
  const int degree = tensor_degree(plan.parallelism, plan.stages.front().devices.front().size());
  keep(problem.schedules, [&](const ScheduleChoice& choice) {
    return choice.name == plan.schedule.name &&
           choice.virtual_stages == plan.schedule.virtual_stages;
  });
  const std::int64_t microbatch = asked_microbatch(problem, plan);
  keep(problem.microbatches, [&](std::int64_t size) { return size == microbatch; });
  keep(problem.tensor_parallel, [&](int choice) { return choice == degree; });
  return with_choices_of(std::move(problem), plan);
}

/// What a changed question would save, at the least.
struct Saving {
  Duration time{0};
  bool is_all = false;      ///< proved: no plan saves more
  ScheduleChoice schedule;  ///< of the plan that was found
};

/// Time for as many samples as the plan's batch, with the question changed.
class Again {
 public:
  Again(const Problem& problem, const Candidate& best, const std::stop_token& stop)
      : problem_(problem), best_(best), stop_(stop), is_large_(has_many_settings(problem)) {}

  /// How much shorter an iteration of as many samples would be; never negative. Where devices cost,
  /// on the same ones.
  Saving saved_by(Problem changed, std::int64_t effort = small_effort) const {
    if (changed.objective == ObjectiveKind::cost) {
      changed.devices.reset();
      changed.excluded = devices_other_than(used_devices(best_.plan), problem_.cluster);
      changed.use_fewer_devices = false;
    }
    const Duration now = pace(*best_.prediction);
    Duration least = std::min(now, with_same_plan(changed));
    SearchControl control;
    control.stop = stop_;
    control.effort = effort;
    if (changed.global_batch == problem_.global_batch) control.worth = now;
    control.explain = false;
    const SearchResult found =
        search_exact(is_large_ ? near(changed, best_.plan) : changed, control);
    if (!found.plans.empty()) {
      least =
          std::min(least, for_as_many(pace(*found.plans.front().prediction), changed.global_batch));
    }
    const bool is_of_all = speaks_of_all_plans(found) && !is_large_;
    Saving saving{.time = now - least, .is_all = found.proved_optimal && is_of_all, .schedule = {}};
    if (!found.plans.empty()) saving.schedule = found.plans.front().plan.schedule;
    return saving;
  }

  const Problem& problem() const { return problem_; }
  const Candidate& best() const { return best_; }
  bool is_large() const { return is_large_; }
  std::string shorter(const Saving& saved) const {
    return concat("step ", saved.is_all ? "" : "at least ",
                  percent_of(seconds(saved.time) / seconds(pace(*best_.prediction))),
                  " shorter (searched again", is_large_ ? " near the plan)" : ")");
  }

 private:
  Duration with_same_plan(const Problem& changed) const {
    if (changed.global_batch != problem_.global_batch || !best_.plan.order.empty()) {
      return Duration::max();
    }
    // Faster links may bring more at once than there is room for.
    const Candidate again = Space(changed).evaluate("same plan", best_.plan);
    const bool counts = again.prediction && again.prediction->fits;
    return counts ? pace(*again.prediction) : Duration::max();
  }

  Duration for_as_many(Duration time, std::int64_t batch) const {
    return scaled(time, static_cast<double>(problem_.global_batch) / static_cast<double>(batch));
  }

  const Problem& problem_;
  const Candidate& best_;
  std::stop_token stop_;
  bool is_large_ = false;
};

using Found = std::optional<Binding>;

/// The device with the least room left, and how many stages recompute.
std::string fullest_device(const Candidate& best) {
  const Prediction& prediction = *best.prediction;
  double fullest = 0;
  std::size_t device = 0;
  for (std::size_t d = 0; d < prediction.peaks.size(); ++d) {
    const double used = static_cast<double>(prediction.peaks[d].bytes) /
                        static_cast<double>(std::max<Bytes>(prediction.memory_limits[d], 1));
    if (used <= fullest) continue;
    fullest = used;
    device = d;
  }
  return concat("device ", lead_devices(best.plan)[device]);
}

Problem with_memory(Problem problem, std::optional<Bytes> more) {
  for (DeviceKind& kind : problem.cluster.kinds) {
    if (kind.memory_unlimited) continue;
    if (!more) kind.memory_unlimited = true;
    kind.memory += more.value_or(0);
  }
  if (problem.memory_cap) *problem.memory_cap += more.value_or(*problem.memory_cap);
  return problem;
}

Found memory_price(const Again& again) {
  const auto& kinds = again.problem().cluster.kinds;
  const bool unlimited = std::all_of(kinds.begin(), kinds.end(),
                                     [](const DeviceKind& kind) { return kind.memory_unlimited; });
  if (unlimited && !again.problem().memory_cap) return {};
  if (again.best().prediction->peaks.empty()) return {};  // nothing is known to take memory
  const std::string where = fullest_device(again.best());
  const Saving saved = again.saved_by(with_memory(again.problem(), Bytes{1} << 30));
  if (saved.time > Duration{0}) {
    return Binding{"memory", where, concat("1GiB more per device: ", again.shorter(saved)),
                   saved.time};
  }
  const Saving most = again.saved_by(with_memory(again.problem(), {}));
  if (most.time <= Duration{0}) return {};
  return Binding{
      "memory", where,
      concat("1GiB more per device: ", saved.is_all ? "nothing" : "nothing faster was found",
             "; unlimited memory: ", again.shorter(most)),
      most.time};
}

/// More is as good as unlimited.
constexpr std::int64_t fast = INT64_MAX / 4;

void double_bandwidth(Link& link) {
  for (Bandwidth* each : {&link.point_to_point, &link.collective})
    each->bytes_per_second = std::min(each->bytes_per_second, fast) * 2;
}

/// Links of their own that lead from part to part of the level among them.
Problem with_bandwidth(Problem problem, std::size_t level) {
  Cluster& cluster = problem.cluster;
  double_bandwidth(cluster.levels[level].link);
  int outside = device_count(cluster);
  for (std::size_t i = 0; i < level; ++i) outside /= cluster.levels[i].count;
  const int inside = outside / cluster.levels[level].count;
  for (LinkOverride& entry : cluster.overrides) {
    if (entry.from / outside == entry.to / outside && entry.from / inside != entry.to / inside)
      double_bandwidth(entry.link);
  }
  return problem;
}

std::string level_name(std::size_t level, std::size_t levels) {
  if (levels == 1) return "links";
  if (level + 1 == levels) return "innermost links";
  return level == 0 ? "outermost links" : concat("links of level ", level);
}

/// The level whose bandwidth matters most.
Found transfer_price(const Again& again) {
  const std::vector<Level>& levels = again.problem().cluster.levels;
  Found most;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const Link& link = levels[level].link;
    if (link.point_to_point.bytes_per_second > fast || link.collective.bytes_per_second > fast) {
      continue;
    }
    const Saving saved = again.saved_by(with_bandwidth(again.problem(), level));
    if (saved.time <= (most ? most->saved : Duration{0})) continue;
    most = Binding{"transfer", level_name(level, levels.size()),
                   concat("twice the bandwidth: ", again.shorter(saved)), saved.time};
  }
  return most;
}

/// One more at the end of the outermost level, a device or a whole node.
Problem with_more_devices(Problem problem) {
  Cluster& cluster = problem.cluster;
  const auto part = cluster.devices.size() / static_cast<std::size_t>(cluster.levels.front().count);
  const std::vector<int> last(cluster.devices.end() - static_cast<std::ptrdiff_t>(part),
                              cluster.devices.end());
  cluster.devices.insert(cluster.devices.end(), last.begin(), last.end());
  ++cluster.levels.front().count;
  return problem;
}

Found device_price(const Again& again) {
  const Problem& problem = again.problem();
  if (problem.objective == ObjectiveKind::cost) return {};
  const int available = available_devices(problem);
  const bool all_in_use = static_cast<int>(used_devices(again.best().plan).size()) ==
                          std::min(problem.devices.value_or(available), available);
  if (!all_in_use || problem.cluster.levels.empty() || available >= most_devices) return {};
  Problem more = problem;
  std::string words = "one device more: ";
  if (problem.devices.value_or(available) < available) {
    more.devices = *problem.devices + 1;
  } else {
    more = with_more_devices(problem);
    const int added = available_devices(more) - available;
    if (added > 1) words = concat(added, " devices more: ");
  }
  try {
    const Saving saved = again.saved_by(more);
    if (saved.time <= Duration{0}) return {};
    const std::size_t used = used_devices(again.best().plan).size();
    return Binding{"devices", used == 1 ? "the only one" : concat("all ", used),
                   concat(words, again.shorter(saved)), saved.time};
  } catch (const Error&) {
    return {};  // it is of a kind that was left out, and has no costs
  }
}

/// The same plan with one microbatch more: fill and drain are shared by more samples.
Found microbatch_price(const Again& again) {
  Plan longer = again.best().plan;
  if (longer.weights != WeightPolicy::flush || !longer.order.empty()) return {};
  longer.batch.global += longer.batch.microbatch;
  ++longer.batch.microbatches;
  Problem problem = again.problem();
  problem.global_batch = longer.batch.global;
  problem.microbatches = {asked_microbatch(problem, longer)};
  const Candidate more = Space(problem).evaluate("one more", longer);
  if (!more.prediction) return {};
  const Duration now = pace(*again.best().prediction);
  const Duration then =
      scaled(pace(*more.prediction), static_cast<double>(again.best().plan.batch.global) /
                                         static_cast<double>(longer.batch.global));
  if (then >= now) return {};
  return Binding{"microbatches", concat(again.best().plan.batch.microbatches, " per step"),
                 concat("one more: ", percent_of(seconds(now - then) / seconds(now)),
                        " less time per sample (same plan)"),
                 now - then};
}

/// Microbatches of half the size, if they were not among those tried.
Found size_price(const Again& again) {
  const Problem& problem = again.problem();
  const std::int64_t size = again.best().plan.batch.microbatch;
  const auto& tried = problem.microbatches;
  if (size % 2 != 0 || std::find(tried.begin(), tried.end(), size / 2) != tried.end()) return {};
  Problem halves = problem;
  halves.microbatches = {size / 2};
  try {
    const Saving saved = again.saved_by(halves);
    if (saved.time <= Duration{0}) return {};
    return Binding{"microbatches", concat("of ", size, " samples"),
                   concat("half as large: ", again.shorter(saved)), saved.time};
  } catch (const Error&) {
    return {};  // no costs of that size
  }
}

std::string in_words(const ScheduleChoice& schedule) {
  if (schedule.sequence_chunks > 1) {
    return concat(schedule.name, ", sequences in ", schedule.sequence_chunks, " pieces");
  }
  if (schedule.virtual_stages == 1) return schedule.name;
  return concat(schedule.name, ", ", schedule.virtual_stages, " stages per device");
}

/// The plan's own stages under another schedule: the fastest that fits.
Found same_stages(const Again& again, const std::vector<ScheduleChoice>& schedules) {
  const Candidate& best = again.best();
  const Space space(again.problem());
  const Duration now = pace(*best.prediction);
  Found fastest;
  for (const ScheduleChoice& schedule : schedules) {
    if (schedule.virtual_stages != best.plan.schedule.virtual_stages) continue;
    Plan plan = best.plan;
    plan.schedule = schedule;
    const Candidate other = space.evaluate("same stages", plan);
    if (!other.prediction || !other.prediction->fits) continue;
    const Duration saved = now - pace(*other.prediction);
    if (saved <= (fastest ? fastest->saved : Duration{0})) continue;
    fastest = Binding{"schedule", best.plan.schedule.name,
                      concat(in_words(schedule), ": step at least ",
                             percent_of(seconds(saved) / seconds(now)), " shorter (same stages)"),
                      saved};
  }
  return fastest;
}

/// Those that were not tried.
std::vector<ScheduleChoice> untried(const Problem& problem, std::vector<ScheduleChoice> schedules) {
  std::erase_if(schedules, [&](const ScheduleChoice& choice) {
    return std::ranges::find(problem.schedules, choice) != problem.schedules.end();
  });
  return schedules;
}

Problem with_schedules(Problem problem, const std::vector<ScheduleChoice>& schedules) {
  problem.schedules = schedules;
  return problem;
}

/// The better of what is known and the plan's own stages under one of these schedules, or a plan
/// that the questions' searches find.
Found with_others(const Again& again, Found most, const std::vector<Problem>& asked) {
  const auto least = [&] { return most ? most->saved : Duration{0}; };
  const std::string& own = again.best().plan.schedule.name;
  const Found same = same_stages(again, asked.front().schedules);
  if (same && same->saved > least()) most = same;
  for (const Problem& question : asked) {
    const Saving saved = again.saved_by(question, larger_effort);
    if (saved.time <= least()) continue;
    most = Binding{"schedule", own, concat(in_words(saved.schedule), ": ", again.shorter(saved)),
                   saved.time};
  }
  return most;
}

/// Schedules that no search tries unless it is told to, but those that are made for durations;
/// nothing where a plan takes long to simulate.
std::vector<ScheduleChoice> quickly_simulated(const Plan& plan) {
  constexpr std::size_t most_passes = 20'000;
  std::vector<ScheduleChoice> choices;
  if (plan.stages.size() * static_cast<std::size_t>(plan.batch.microbatches) > most_passes) {
    return choices;
  }
  for (const ScheduleKind& kind : schedule_kinds) {
    const bool is_made = kind.generate == zb_auto || kind.generate == zbv_auto;
    for (const ScheduleChoice& choice : schedule_choices(kind.name)) {
      if (is_only_simulated(choice) && !is_made) choices.push_back(choice);
    }
  }
  return choices;
}

/// Schedules that were not tried, with smaller bubbles or more in flight; where settings are few
/// also those that are rarely the best. Of others only what the plan's own stages bring.
Found schedule_price(const Again& again) {
  const Problem& problem = again.problem();
  const Plan& plan = again.best().plan;
  const bool may_differ = problem.objective != ObjectiveKind::latency &&
                          plan.weights == WeightPolicy::flush && plan.order.empty();
  if (!may_differ) return {};
  const auto usual = untried(problem, all_schedule_choices());
  const auto unsearched = untried(problem, quickly_simulated(plan));
  const auto rarer =
      again.is_large() ? std::vector<ScheduleChoice>{} : untried(problem, rarer_schedule_choices());
  try {
    Found most;
    if (!usual.empty()) {
      const Problem others = with_schedules(problem, usual);
      most = with_others(again, most, {near(others, plan), others});
    }
    if (!rarer.empty()) most = with_others(again, most, {with_schedules(problem, rarer)});
    const Found same = same_stages(again, unsearched);
    return same && (!most || same->saved > most->saved) ? same : most;
  } catch (const Error&) {
    return {};  // no costs of what they do apart
  }
}

constexpr std::array questions{memory_price,     transfer_price, device_price,
                               microbatch_price, size_price,     schedule_price};

}  // namespace

std::vector<Binding> shadow_prices(const Problem& problem, const Candidate& best,
                                   const std::stop_token& stop, int threads) {
  const Again again(problem, best, stop);
  std::array<Found, questions.size()> found;
  Workers(threads).run(static_cast<int>(questions.size()), [&](int, int i) {
    const auto question = static_cast<std::size_t>(i);
    if (!stop.stop_requested()) found[question] = questions[question](again);
  });
  std::vector<Binding> prices;
  for (const Found& price : found) {
    if (price) prices.push_back(*price);
  }
  return prices;
}

}  // namespace stagecraft
