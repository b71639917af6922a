#include "planner/layouts/tightest_plan.hpp"

#include <algorithm>
#include <limits>

#include "planner/layouts/tightest.hpp"
#include "planner/space/setting_kinds.hpp"

namespace stagecraft {

namespace {

/// Effort for the first search of each assignment of replicas. Then the most promising assignments
/// each get 1/parts of the effort that is left.
constexpr std::int64_t effort_at_first = 200'000, parts = 4;

/// On too many devices, only the deepest pipelines are tried, which hold the least per device.
std::vector<Setting> deepest_columns(const Space& space, const Setting& setting) {
  constexpr std::size_t most_tried = 4;
  std::vector<Setting> columns = space.columns(setting);
  std::ranges::stable_sort(columns, std::greater<>(),
                           [](const Setting& column) { return *column.depth; });
  columns.resize(std::min(columns.size(), most_tried));
  return columns;
}

/// The settings to try, those with one stage per device first, since they take almost no time.
std::vector<Setting> settings_to_try(const Space& space) {
  std::vector<Setting> settings;
  for (const Setting& setting : space.settings()) {
    std::vector<Setting> columns =
        has_many_devices(space, setting) ? deepest_columns(space, setting) : space.copies(setting);
    if (!has_many_devices(space, setting)) settings.push_back(setting);
    settings.insert(settings.end(), columns.begin(), columns.end());
  }
  std::ranges::stable_sort(settings, {},
                           [](const Setting& setting) { return setting.schedule.virtual_stages; });
  return settings;
}

/// An assignment of replicas under a setting, with a lower bound on the excess of its layouts, and
/// the least excess found so far.
struct Way {
  const Setting* setting = nullptr;
  std::vector<int> replicas;
  Bytes least = std::numeric_limits<Bytes>::min();
  Bytes over = std::numeric_limits<Bytes>::max();
};

class Search {
 public:
  /// Looks for plans whose excess of memory is below `below`.
  Search(const Space& space, Effort effort, Bytes below)
      : space_(space),
        settings_(settings_to_try(space)),
        effort_(std::move(effort)),
        least_(below) {}

  /// The first plan whose excess is at most `enough`, else the plan of least excess.
  std::optional<Candidate> run(Bytes enough) {
    std::vector<Way> ways;
    for (const Setting& setting : settings_) {
      for (std::vector<int>& replicas : ways_to_replicate(space_, setting)) {
        const Bytes least = least_over(space_, setting, replicas);
        ways.push_back({.setting = &setting, .replicas = std::move(replicas), .least = least});
      }
    }
    for (Way& way : ways) {
      if (is_enough(enough)) break;
      if (is_out(way)) continue;
      with_some(effort_at_first, [&](Effort& own) { look_at(way, own); });
    }
    std::ranges::stable_sort(ways, {}, &Way::over);
    for (Way& way : ways) {
      if (is_enough(enough)) break;
      if (is_out(way)) continue;
      with_some(effort_.left / parts, [&](Effort& own) { look_closely_at(way, own); });
    }
    return std::move(best_);
  }

 private:
  bool is_enough(Bytes enough) const { return least_ <= enough || effort_.is_spent(); }

  /// Whether the lower bound rules out all layouts of the assignment.
  bool is_out(const Way& way) const { return way.least >= least_; }

  template <class Task>
  void with_some(std::int64_t most, const Task& task) {
    Effort own{.left = std::min(most, effort_.left), .stop = effort_.stop};
    const std::int64_t before = own.left;
    task(own);
    effort_.spend(std::max<std::int64_t>(before - own.left, 1));
  }

  /// Searches the assignment with the clock's memory. If simulation shows that devices hold more,
  /// other layouts may need less.
  void look_at(Way& way, Effort& effort) {
    constexpr int most_repairs = 4;
    FastClock clock(space_, *way.setting);
    std::vector<Bytes> kept_free(way.replicas.size());
    for (int repair = 0; repair < most_repairs && !effort.is_spent(); ++repair) {
      clock.keep_free(kept_free);
      const auto found = tightest(clock, space_, *way.setting, way.replicas, least_, effort);
      if (!found) return;
      const Candidate candidate = simulate(way, found->layout, effort);
      if (!candidate.prediction || shortfall(*candidate.prediction) <= found->over) return;
      const std::vector<Bytes> over = bytes_over(*way.setting, candidate);
      for (std::size_t d = 0; d < over.size(); ++d) {
        const Bytes known = clock.bytes_over(found->layout, static_cast<int>(d));
        const bool has_limit = known != std::numeric_limits<Bytes>::min();
        if (has_limit) kept_free[d] += std::max<Bytes>(over[d] - known, 0);
      }
    }
  }

  /// Searches the assignment with simulated memory.
  void look_closely_at(Way& way, Effort& effort) {
    FastClock clock(space_, *way.setting);
    const auto measure = [&](const Layout& layout) {
      const Candidate candidate = simulate(way, layout, effort);
      return candidate.prediction ? shortfall(*candidate.prediction)
                                  : std::numeric_limits<Bytes>::max();
    };
    tightest(clock, space_, *way.setting, way.replicas, least_, effort, measure);
  }

  Candidate simulate(Way& way, const Layout& layout, Effort& effort) {
    effort.spend(steps_per_simulated_instruction * instructions_of(*way.setting, layout));
    Candidate candidate =
        space_.evaluate(std::string(name_of_searched), space_.plan(*way.setting, layout));
    if (!candidate.prediction) return candidate;
    const Bytes over = shortfall(*candidate.prediction);
    way.over = std::min(way.over, over);
    if (over >= least_) return candidate;
    least_ = over;
    best_ = candidate;
    return candidate;
  }

  const Space& space_;
  std::vector<Setting> settings_;
  Effort effort_;
  std::optional<Candidate> best_;
  Bytes least_ = 0;  ///< excess of the best plan, or the excess that plans must be below
};

}  // namespace

std::optional<Candidate> tightest_plan(const Space& space, const std::stop_token& stop) {
  using Limits = std::numeric_limits<Bytes>;
  return Search(space, {tight_effort, stop}, Limits::max()).run(Limits::min());
}

std::optional<Candidate> tight_plan_that_fits(const Space& space, Effort effort) {
  auto plan = Search(space, std::move(effort), 1).run(0);
  if (plan && !plan->prediction->fits) return {};
  return plan;
}

}  // namespace stagecraft
