#include "planner/analysis/certificate.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/analysis/listing.hpp"
#include "planner/problem/question.hpp"
#include "planner/search/column_search.hpp"
#include "planner/search/enumerate/mixed_search.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/heuristics/placement.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "planner/search/layers_search.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/schedule_choices.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// Of the search, at most; it needs little where the bound is right.
constexpr std::int64_t effort_again = 4'000'000'000;

constexpr auto not_asked = "the plan is none of those that its question allows: ";

class Verifier {
 public:
  Verifier(const Problem& problem, Duration bound, Verification& verification)
      : problem_(problem), space_(problem), bound_(bound), verification_(verification) {}

  /// Gives whether the search must say the rest.
  bool run() {
    for (const Setting& setting : space_.settings()) {
      const bool wide = is_wide(space_, setting) && setting.trains && setting.drains;
      // The bound of large clusters speaks of columns.
      if (!wide) count(setting, true);
      // A claim without a scope speaks of all others, too.
      if (wide && verification_.scope.empty() && !has_only_columns(space_, setting))
        count(setting, false);
      for (const Setting& each : wide ? space_.columns(setting) : space_.copies(setting)) {
        count(each, !wide);
      }
    }
    return verification_.holds() && verification_.by_search > 0;
  }

  /// Whether the layers' time alone bounds plans of every kind so; then it does all settings.
  bool is_by_work() {
    if (ColumnBounds(space_).least_of_any_kind() < bound_.count()) return false;
    verification_.settings += static_cast<int>(space_.settings().size());
    verification_.by_work += static_cast<int>(space_.settings().size());
    return true;
  }

  /// All settings are left to the search.
  void count_all() {
    verification_.settings += static_cast<int>(space_.settings().size());
    verification_.by_search += static_cast<int>(space_.settings().size());
  }

  /// Asks for anything below the bound, which is quick; where relaxations stop short of it, for
  /// anything better than the plan, as the search that found it did.
  void search() {
    Duration proved{0};
    for (const Duration limit : {bound_, verification_.step}) {
      SearchControl control;
      control.worth = limit - Duration{1};
      control.explain = false;
      control.thorough = true;
      control.only_scope = !verification_.scope.empty();
      control.effort = effort_again;
      const SearchResult result = search_exact(problem_, control);
      // A bound with a scope says nothing of plans beyond it, which the search may have come
      // across.
      const bool is_beyond = control.only_scope && result.families.has(PlanFamily::any_kind);
      if (!is_beyond && !result.plans.empty() && pace(*result.plans.front().prediction) < bound_) {
        return refute(result.plans.front());
      }
      if (control.only_scope) {
        proved = std::max(proved, result.families.searched());
      } else if (speaks_of_all_plans(result)) {
        proved = std::max(proved, result.lower_bound);
      } else {
        proved = std::max(proved, std::min(result.lower_bound, result.families.least_left_out()));
      }
      if (proved >= bound_) return;
    }
    confirm_only(proved);
  }

  /// The same of plans whose stages have several degrees.
  void search_mixed() {
    ++verification_.settings;
    ++verification_.by_search;
    SearchControl control;
    control.worth = bound_ - Duration{1};
    Leaderboard board(1);
    const Duration proved = search_mixed_degrees(space_, control, board).bounds.least();
    if (board.front() != nullptr && *board.best() < bound_) return refute(*board.front());
    if (proved < bound_) confirm_only(proved);
  }

 private:
  void confirm_only(Duration proved) {
    verification_.fault =
        concat("the bound is not confirmed: below ", format_duration(bound_),
               " nothing was found, but only ", format_duration(proved), " could be proved again");
  }

  /// By what means a setting's bound is shown again.
  void count(const Setting& setting, bool may_list) {
    ++verification_.settings;
    if (has_work(setting)) {
      ++verification_.by_work;
    } else if (may_list && is_listed(setting)) {
      ++verification_.by_listing;
    } else {
      ++verification_.by_search;
    }
  }

  /// Whether the layers' time alone, spread over the devices, reaches the bound.
  bool has_work(const Setting& setting) {
    const int devices = setting.depth.value_or(space_.devices(setting));
    const auto key = std::tuple(setting.choice, setting.peers, setting.microbatch, setting.whole(),
                                setting.columns, setting.replicas, setting.trains);
    const auto [known, fresh] = works_.try_emplace(key, 0);
    if (fresh) {
      for (int layer = 0; layer < space_.layers(); ++layer) {
        known->second += layer_work(space_, setting, layer);
      }
    }
    return known->second * setting.microbatches / devices >= bound_.count();
  }

  bool is_listed(const Setting& setting) {
    const Listed listed = list_plans(space_, setting, bound_);
    if (listed.faster) refute(*listed.faster);
    return listed.is_complete;
  }

  void refute(const Candidate& faster) {
    verification_.fault =
        concat("the bound does not hold: a plan of ", faster.plan.stages.size(), " stages under ",
               faster.plan.schedule.name, " takes ", format_duration(pace(*faster.prediction)),
               ", less than the bound");
  }

  const Problem& problem_;
  Space space_;
  Duration bound_;
  Verification& verification_;
  std::map<std::tuple<int, int, std::int64_t, std::int64_t, int, ReplicaPolicy, bool>, Time> works_;
};

/// Files hold all digits.
bool is_same(double a, double b) {
  constexpr double rounding = 1e-9;
  return std::abs(a - b) <= rounding;
}

/// Why the plan is no answer to its question, or not what it says; empty if it is.
std::string fault_of(const Space& space, const Plan& plan, const Prediction& again) {
  const bool has_schedule =
      std::ranges::any_of(space.problem().schedules, [&](const ScheduleChoice& asked) {
        return asked.name == plan.schedule.name &&
               asked.virtual_stages == plan.schedule.virtual_stages;
      });
  const bool is_asked = has_schedule && again.fits && is_wanted(space, plan);
  if (!is_asked) {
    return concat(not_asked, !has_schedule ? "its schedule is not among them"
                             : !again.fits ? "it does not fit into the memory it speaks of"
                                           : "stages, devices or recomputation are not as asked");
  }
  if (plan.predicted && plan.predicted->step != again.step) {
    return concat("the plan says that it takes ", format_duration(plan.predicted->step),
                  ", but simulated again it takes ", format_duration(again.step));
  }
  if (plan.predicted && !is_same(plan.predicted->bubble, again.bubble)) {
    return concat("the plan says that its bubble is ", plan.predicted->bubble,
                  ", but simulated again it is ", again.bubble);
  }
  return {};
}

/// The largest of these numbers that differ, as the plan says it and as it is.
std::string other_peak(const std::vector<Bytes>& said, const std::vector<Bytes>& found) {
  if (said.size() != found.size()) {
    return concat("the plan says what ", said.size(), " devices need at their peak, but it uses ",
                  found.size());
  }
  const auto differs = std::ranges::mismatch(said, found);
  if (differs.in1 == said.end()) return {};
  return concat("the plan says that device ", differs.in1 - said.begin(),
                " of those it uses needs up to ", exact_bytes(*differs.in1),
                ", but simulated again it needs ", exact_bytes(*differs.in2));
}

/// Why the plan's peaks are not what it needs, what its devices reserve included, or without that
/// where a limit was given of which all may be used; empty if they are.
std::string fault_of_memory(const Problem& asked, const Plan& plan, const Cluster& cluster) {
  if (!plan.predicted || plan.predicted->peak_memory.empty()) return {};
  const std::vector<Bytes>& said = plan.predicted->peak_memory;
  Problem problem = asked;  // which knows no reserve
  const auto fault = [&] {
    const Candidate again = Space(problem).evaluate("again", plan);
    return again.prediction ? other_peak(said, device_peaks(plan, *again.prediction)) : "";
  };
  if (fault().empty()) return {};
  problem.cluster = cluster;
  return fault();
}

/// Why the gap is not between this bound and this step; empty if it is.
std::string fault_of_gap(double gap, Duration bound, Duration step) {
  const double again = step.count() > 0 ? seconds(step - bound) / seconds(step) : 0;
  if (is_same(gap, again)) return {};
  return concat("the plan says that its gap is ", gap, ", but between its bound of ",
                format_duration(bound), " and its step of ", format_duration(step), " it is ",
                again);
}

/// Why the claim contradicts itself; empty if it does not.
std::string fault_of_claim(const SearchFigures& claim, Duration step) {
  if (claim.lower_bound > step) {
    return concat("the bound does not hold: the plan itself takes ", format_duration(step),
                  ", less than the bound");
  }
  if (claim.proved_optimal && claim.lower_bound != step) {
    return concat("the bound does not hold: the plan takes ", format_duration(step),
                  " and is called optimal, but the bound is ", format_duration(claim.lower_bound));
  }
  return fault_of_gap(claim.gap, claim.lower_bound, step);
}

/// That all plans of the question, those of its scope, take as long as the bound says.
void verify(Problem bounded, const Space& space, const Plan& plan, Verification& verification) {
  if (needs_placement(bounded)) bounded = with_best_links(bounded);
  Verifier own(bounded, verification.bound, verification);
  if (verification.scope.empty() && own.is_by_work()) return;
  bool needs_search = own.run();
  const DeviceOrders asked = asked_device_orders(bounded);
  if (!asked.is_every || !is_of_consecutive_devices(verification.scope)) {
    for (const std::vector<int>& order : asked.orders) {
      const Problem ordered = in_device_order(bounded, order);
      needs_search = Verifier(ordered, verification.bound, verification).run() || needs_search;
    }
  }
  // A claim without a scope speaks of stages on any devices, which were not listed.
  needs_search = needs_search || (verification.scope.empty() && !asked.is_every);
  // It knows all orders itself.
  if (needs_search && verification.holds()) own.search();
  if (verification.holds() && is_mixed_chain(space, plan)) own.search_mixed();
}

/// The same by searching once more, and by nothing else.
void verify_by_search(const Problem& bounded, Verification& verification) {
  Verifier own(bounded, verification.bound, verification);
  own.count_all();
  own.search();
}

/// What states are sharded, and what all stages do again, makes questions of their own.
void verify_each(const Problem& problem, const Plan& plan, Verification& verification) {
  if (!problem.other_sharding.empty()) {
    for (const Sharding sharding : sharding_choices(problem)) {
      if (verification.holds()) verify_each(with_sharding(problem, sharding), plan, verification);
    }
    return;
  }
  if (problem.recompute_everywhere.size() > 1) {
    for (const RecomputeEverywhere what : problem.recompute_everywhere) {
      if (!verification.holds()) return;
      verify_each(with_recompute_everywhere(problem, what), plan, verification);
    }
    return;
  }
  const Space space(problem);
  // Recomputing never makes a plan faster: a bound without limits of memory holds, too.
  if (!problem.recompute_layers.empty()) {
    Verification unlimited = verification;
    verify(without_memory_limits(problem), space, plan, unlimited);
    if (unlimited.holds()) {
      verification = std::move(unlimited);
    } else {
      verify_by_search(problem, verification);
    }
    return;
  }
  verify(problem, space, plan, verification);
}

}  // namespace

Verification verify_bound(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  if (!plan.search || !plan.search->question) {
    if (is_only_simulated(plan.schedule)) {
      fail("the plan carries no proof: plans under ", plan.schedule.name,
           " are bounded by their work alone, which nobody verifies");
    }
    if (plan.search && plan.search->strategy == "exact" && plan.search->lower_bound > Duration{0}) {
      fail(
          "the plan carries no proof: its file does not say what was asked, as where schedules "
          "were ",
          "allowed that are bounded by their work alone; plan again without those");
    }
    fail("the plan carries no proof: ",
         plan.search ? concat("strategy ", plan.search->strategy, " found it and bounds nothing")
                     : std::string("nobody searched for it"),
         "; `stagecraft plan` with the exact strategy writes one");
  }
  const Problem problem = problem_of(*plan.search->question, plan, profile, cluster);
  const Problem own = with_sharding(problem, plan.optimizer.sharding);
  const Space space(own);
  Verification verification{.bound = plan.search->lower_bound};
  if (std::ranges::count(sharding_choices(problem), plan.optimizer.sharding) == 0) {
    verification.fault = concat(not_asked, "its sharding is not among them");
    return verification;
  }
  if (const std::string against = space.against_question(plan); !against.empty()) {
    verification.fault = concat(not_asked, against);
    return verification;
  }
  const Candidate again = space.evaluate("again", plan);
  if (!again.prediction) fail("the plan cannot be simulated: ", again.rejected);
  verification.step = pace(*again.prediction);
  verification.scope = plan.search->scope;
  verification.fault = fault_of(space, plan, *again.prediction);
  if (!verification.holds()) return verification;
  verification.fault = fault_of_claim(*plan.search, verification.step);
  if (verification.holds()) verification.fault = fault_of_memory(own, plan, cluster);
  if (!verification.holds()) return verification;
  verify_each(problem, plan, verification);
  return verification;
}

}  // namespace stagecraft
