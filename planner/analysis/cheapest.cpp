#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "planner/analysis/answers.hpp"
#include "planner/problem/objective.hpp"
#include "planner/relaxations/work_bound.hpp"
#include "planner/search/brute_force.hpp"
#include "planner/search/exact.hpp"
#include "planner/search/finer_search.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// For all searches together; see exact.cpp.
constexpr std::int64_t effort_in_all = 2'000'000'000;
constexpr std::int64_t least_effort = 20'000'000;

/// More sets of devices are not searched one by one.
constexpr std::size_t most_sets = 24;

/// Plans on a set of groups of peers, all of them in use.
struct Part {
  Problem problem;
  int devices = 0;
  double price = 0;  ///< of its devices, per hour
};

struct Parts {
  std::vector<Part> parts;
  bool are_all = true;  ///< other devices are the same to a plan as those of a part
};

/// Sets of groups of peers, by number, small ones first.
struct Sets {
  std::vector<std::vector<int>> sets;
  bool are_all = true;
};

bool has_one_kind(const Space& space) {
  return space.one_of_each_kind(Setting{}).size() == 1;
}

/// All devices are of one kind and joined alike.
bool are_interchangeable(Problem problem) {
  problem.devices = problem.devices.value_or(device_count(problem.cluster));
  return asked_device_orders(problem).is_every;
}

/// Of few groups every set that differs. Of more, as many groups as one likes: the first ones, and
/// where they are of several kinds, with each kind in turn before the others.
Sets sets_of(const Problem& problem, const std::vector<std::vector<int>>& groups) {
  std::vector<int> own(groups.size());
  std::iota(own.begin(), own.end(), 0);
  if (!problem.use_fewer_devices) return {{own}, true};
  if (auto every = every_set_of(problem.cluster, groups, most_sets))
    return {*std::move(every), true};
  const auto kind = [&](int group) {
    const int device = groups[static_cast<std::size_t>(group)].front();
    return problem.cluster.devices[static_cast<std::size_t>(device)];
  };
  std::vector<std::vector<int>> orders{own};
  std::set<int> kinds;
  for (const int group : own) kinds.insert(kind(group));
  for (const int first : kinds) {
    orders.push_back(own);
    std::stable_partition(orders.back().begin(), orders.back().end(),
                          [&](int group) { return kind(group) == first; });
  }
  std::set<std::vector<int>> known;
  Sets found{{}, are_interchangeable(problem)};
  for (std::size_t size = 1; size <= own.size(); ++size) {
    for (const std::vector<int>& order : orders) {
      std::vector<int> set(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(size));
      std::sort(set.begin(), set.end());
      if (known.insert(set).second) found.sets.push_back(std::move(set));
    }
  }
  return found;
}

Part part_of(const Problem& problem, const Space& space, const Setting& setting,
             const std::vector<int>& groups) {
  Part part{.problem = problem};
  part.problem.parallelism = space.parallelism(setting);
  part.problem.other_parallelism.clear();
  part.problem.tensor_parallel = {setting.peers / part.problem.parallelism.context};
  part.problem.use_fewer_devices = false;
  std::vector<int> devices;
  for (const int group : groups) {
    for (const int device : space.peers(setting, group)) {
      devices.push_back(device);
      part.price += kind_of(problem.cluster, device).price_per_hour.value_or(0);
    }
  }
  part.devices = static_cast<int>(devices.size());
  // The first ones are what other planners take, too; but then no other orders are tried.
  const bool are_first = groups.back() + 1 == static_cast<int>(groups.size());
  if (are_first) part.problem.devices = space.devices_up_to(setting, groups.back() + 1);
  const bool are_many = groups.size() > most_groups_of_sets && has_one_kind(space);
  if (!are_first || !(are_many || asked_device_orders(part.problem).is_every)) {
    part.problem.devices.reset();
    part.problem.excluded = devices_other_than(devices, problem.cluster);
  }
  return part;
}

/// Few devices first: they are often cheapest, and rule the others out.
Parts parts_of(const Problem& problem, const Space& space) {
  Parts all;
  std::set<std::pair<int, int>> degrees;
  for (const Setting& setting : space.settings()) {
    if (!degrees.insert({setting.choice, setting.peers}).second) continue;
    std::vector<std::vector<int>> groups;
    for (int group = 0; group < space.devices(setting); ++group)
      groups.push_back(space.peers(setting, group));
    const Sets sets = sets_of(problem, groups);
    all.are_all = all.are_all && sets.are_all;
    for (const std::vector<int>& set : sets.sets)
      all.parts.push_back(part_of(problem, space, setting, set));
  }
  std::stable_sort(all.parts.begin(), all.parts.end(),
                   [](const Part& a, const Part& b) { return a.devices < b.devices; });
  return all;
}

/// So much at this price; at most as long as there is a time for.
Duration as_time(double cost, double price) {
  const double time = price > 0 ? cost / price : 0;
  constexpr double longest = 9e18;
  return time < longest ? Duration{static_cast<std::int64_t>(time)} : Duration::max();
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
    const auto [parts, are_all] = parts_of(problem_, space_);
    const auto count = static_cast<std::int64_t>(parts.size());
    own_ = control_;
    own_.explain = false;
    own_.effort =
        std::max(control_.effort.value_or(effort_in_all) / std::max<std::int64_t>(count, 1),
                 std::min(least_effort, control_.effort.value_or(least_effort)));
    for (const Part& part : parts) look_at(part);
    const double least = least_by_work();
    bound_ = std::max(bound_, least);
    if (!are_all) {
      left_out_.add({.family = PlanFamily::scattered_devices});
      others_ = least;
    }
    others_ = std::max(others_, least);
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
    if (!found.families.has(PlanFamily::any_kind) && found.families.leaves_out()) {
      left_out_.add_left_out(found.families);
      others_ = std::min(others_,
                         part.price * static_cast<double>(found.families.least_left_out().count()));
    }
    for (Candidate& candidate : found.plans) result_.plans.push_back(std::move(candidate));
    keep_the_best();
  }

  /// What any plan costs at least: somebody does the work, at the lowest price of all.
  double least_by_work() const {
    if (result_.interrupted) return 0;
    double cheapest = std::numeric_limits<double>::infinity();
    const std::vector<int> devices = devices_in_use(problem_);
    for (const int device : devices)
      cheapest = std::min(cheapest, kind_of(problem_.cluster, device).price_per_hour.value_or(0));
    const auto time = static_cast<double>(ColumnBounds(space_).least_of_any_kind());
    return cheapest * time * static_cast<double>(devices.size());
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
    for (const FamilyBound& row : left_out_.rows())
      result_.families.add({row.family, as_time(others_, price), row.rests_on, row.orders});
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
  FamilyBounds left_out_;   ///< of some part
  double others_ = bound_;  ///< what plans of these families cost at least
};

}  // namespace

SearchResult search_for_objective(Search search, const Problem& problem,
                                  const SearchControl& control) {
  const bool is_own =
      search == search_exact || search == search_with_finer_stages || search == search_brute_force;
  if (!is_own && problem.objective != ObjectiveKind::step) {
    fail_usage("--objective ", to_string(problem.objective),
               " is what --strategy exact and brute-force can search for; other planners minimise "
               "what they do in their own cost models");
  }
  if (problem.objective != ObjectiveKind::cost) return search(problem, control);
  return Cheapest(search, problem, control).run();
}

}  // namespace stagecraft
