#include <algorithm>
#include <limits>
#include <set>

#include "planner/answers.hpp"
#include "planner/objective.hpp"
#include "planner/space/space.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// For all searches together; see exact.cpp.
constexpr std::int64_t effort_in_all = 2'000'000'000;
constexpr std::int64_t least_effort = 20'000'000;

/// Plans on the first groups of peers, all of them in use.
struct Part {
  Problem problem;
  double price = 0;  ///< of its devices, per hour
};

Part part_of(const Problem& problem, const Space& space, const Setting& setting, int groups) {
  Part part{.problem = problem, .price = 0};
  part.problem.parallelism = space.parallelism(setting);
  part.problem.other_parallelism.clear();
  part.problem.tensor_parallel = {setting.peers / part.problem.parallelism.context};
  part.problem.devices = space.devices_up_to(setting, groups);
  part.problem.use_fewer_devices = false;
  for (int group = 0; group < groups; ++group) {
    for (const int device : space.peers(setting, group)) {
      part.price += kind_of(problem.cluster, device).price_per_hour.value_or(0);
    }
  }
  return part;
}

/// Few devices first: they are often cheapest, and rule the others out.
std::vector<Part> parts_of(const Problem& problem, const Space& space) {
  std::vector<Part> parts;
  std::set<std::pair<int, int>> degrees;
  for (const Setting& setting : space.settings()) {
    if (!degrees.insert({setting.choice, setting.peers}).second) continue;
    const int all = space.devices(setting);
    for (int groups = problem.use_fewer_devices ? 1 : all; groups <= all; ++groups) {
      parts.push_back(part_of(problem, space, setting, groups));
    }
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return *a.problem.devices < *b.problem.devices;
  });
  return parts;
}

/// Price times time: what costs rank by.
double cost_of(const Problem& problem, const Candidate& candidate) {
  return price_per_hour(problem, candidate.plan) *
         static_cast<double>(pace(*candidate.prediction).count());
}

class Cheapest {
 public:
  Cheapest(Search search, const Problem& problem, const SearchControl& control)
      : search_(search), problem_(problem), control_(control), space_(problem) {}

  SearchResult run() {
    const std::vector<Part> parts = parts_of(problem_, space_);
    const auto count = static_cast<std::int64_t>(parts.size());
    own_ = control_;
    own_.explain = false;
    own_.effort =
        std::max(control_.effort.value_or(effort_in_all) / std::max<std::int64_t>(count, 1),
                 std::min(least_effort, control_.effort.value_or(least_effort)));
    for (const Part& part : parts) look_at(part);
    return result();
  }

 private:
  void look_at(const Part& part) {
    if (control_.stop.stop_requested()) {
      result_.interrupted = true;
      bound_ = 0;
      return;
    }
    own_.worth = worth(part.price);
    SearchResult found = search_(part.problem, own_);
    result_.strategy = found.strategy;
    result_.candidates += found.candidates;
    result_.pruned += found.pruned;
    result_.interrupted = result_.interrupted || found.interrupted;
    bound_ = std::min(bound_, part.price * static_cast<double>(found.lower_bound.count()));
    for (Candidate& candidate : found.plans) result_.plans.push_back(std::move(candidate));
    keep_the_best();
  }

  /// A plan at this price that takes longer is not among the cheapest.
  std::optional<Duration> worth(double price) const {
    if (static_cast<int>(result_.plans.size()) < control_.top || price <= 0) return {};
    const double time = cost_of(problem_, result_.plans.back()) / price;
    if (time > 1e18) return {};
    return Duration{static_cast<std::int64_t>(time) + 1};
  }

  void keep_the_best() {
    std::vector<Candidate>& plans = result_.plans;
    std::stable_sort(plans.begin(), plans.end(), [&](const Candidate& a, const Candidate& b) {
      return cost_of(problem_, a) < cost_of(problem_, b);
    });
    const auto most = static_cast<std::size_t>(std::max(control_.top, 1));
    if (plans.size() > most) plans.resize(most);
  }

  SearchResult result() {
    if (result_.plans.empty()) {
      if (!result_.interrupted && control_.explain) {
        result_.infeasible = explain_infeasible(problem_, space_, control_.stop);
      }
      return std::move(result_);
    }
    Candidate& best = result_.plans.front();
    const double cost = cost_of(problem_, best);
    bound_ = std::min(bound_, cost);
    const double price = price_per_hour(problem_, best.plan);
    result_.lower_bound = Duration{price > 0 ? static_cast<std::int64_t>(bound_ / price) : 0};
    result_.proved_optimal = bound_ >= cost;
    if (result_.proved_optimal) result_.lower_bound = pace(*best.prediction);
    result_.gap = cost > 0 ? (cost - bound_) / cost : 0;
    result_.cost_bound = objective_of(problem_, best, result_).lower_bound;
    return std::move(result_);
  }

  Search search_;
  const Problem& problem_;
  const SearchControl& control_;
  SearchControl own_;
  Space space_;
  SearchResult result_;
  double bound_ = std::numeric_limits<double>::infinity();
};

}  // namespace

SearchResult search_for_objective(Search search, const Problem& problem,
                                  const SearchControl& control) {
  const bool is_own = search == search_exact || search == search_brute_force;
  if (!is_own && problem.objective != ObjectiveKind::step) {
    fail_usage("--objective ", to_string(problem.objective),
               " is what --strategy exact and brute-force can search for; other planners minimise "
               "what they do in their own cost models");
  }
  if (problem.objective != ObjectiveKind::cost) return search(problem, control);
  return Cheapest(search, problem, control).run();
}

}  // namespace stagecraft
