// Deliberately simple, as the reference for the other strategies. The plans are counted first, so
// that a question which would take too long is refused.

#include "planner/search/brute_force.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "planner/problem/incumbents.hpp"
#include "planner/problem/objective.hpp"
#include "planner/search/infeasible.hpp"
#include "planner/search/recompute_search.hpp"
#include "planner/search/sharding_search.hpp"
#include "planner/space/device_orders.hpp"
#include "planner/space/orders.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// More plans than this would take many minutes, and are refused.
constexpr double most_plans = 1e6;
/// Plans between two updates of the progress line.
constexpr std::int64_t plans_per_update = 64;

/// Limit on replica assignments that are counted: about a microsecond each for a short schedule, so
/// a second in all.
constexpr double most_counting = 1e6;

/// The limit on the time for counting.
class Patience {
 public:
  explicit Patience(std::stop_token stop, double most = std::numeric_limits<double>::infinity())
      : stop_(std::move(stop)), left_(most) {}

  void spend(double work) { left_ -= work; }
  bool is_exhausted() const { return left_ < 0; }
  bool is_over() const { return is_exhausted() || stop_.stop_requested(); }

 private:
  std::stop_token stop_;
  double left_;
};

/// Enumerates the numbers of replicas of a chain's stages that the setting allows; `visit` returns
/// whether to go on.
template <class Visit>
class Replicas {
 public:
  Replicas(const Space& space, const Setting& setting, Patience& patience, Visit visit)
      : space_(space), setting_(setting), patience_(patience), visit_(std::move(visit)) {}

  /// Returns false if `visit` ended the enumeration early.
  bool all() {
    for (int p = 1; goes_on_ && p <= space_.most_pipeline_devices(setting_); ++p) {
      if (space_.allows_stages(p * setting_.schedule.virtual_stages)) choose(p, 0);
    }
    return goes_on_;
  }

 private:
  void choose(int pipeline_devices, int used) {
    const int left = pipeline_devices - static_cast<int>(replicas_.size());
    if (left == 0) return look_at(used);
    const Range counts = counts_of_next(left, space_.devices(setting_) - used);
    for (int count = counts.first; goes_on_ && count <= counts.last; ++count) {
      replicas_.push_back(count);
      choose(pipeline_devices, used + count);
      replicas_.pop_back();
    }
  }

  struct Range {
    int first = 1, last = 0;
  };

  /// Replica counts of the next stage that leave at least one device for each later stage, and that
  /// use all devices if the problem requires it.
  Range counts_of_next(int stages, int devices) const {
    const int most = space_.most_replicas(setting_);
    const std::int64_t of_others = static_cast<std::int64_t>(stages - 1) * most;
    const auto needed = static_cast<int>(std::max<std::int64_t>(1, devices - of_others));
    return {.first = space_.problem().use_fewer_devices ? 1 : needed,
            .last = std::min(most, devices - (stages - 1))};
  }

  void look_at(int used) {
    const int stages = static_cast<int>(replicas_.size()) * setting_.schedule.virtual_stages;
    patience_.spend(1);
    goes_on_ = !patience_.is_over();
    if (!goes_on_ || !space_.may_end_at(setting_, used)) return;
    if (!space_.wants(setting_, replicas_)) return;
    // Checking whether a schedule accepts a shape means generating the schedule.
    constexpr double instructions_at_once = 250;
    patience_.spend(static_cast<double>(setting_.microbatches) * stages / instructions_at_once);
    if (space_.schedule(setting_, replicas_)) goes_on_ = visit_(replicas_, stages);
  }

  const Space& space_;
  const Setting& setting_;
  Patience& patience_;
  Visit visit_;
  std::vector<int> replicas_;
  bool goes_on_ = true;
};

/// The settings of the space, and their pipeline copies (`Space::copies`).
std::vector<Setting> settings_of(const Space& space) {
  std::vector<Setting> all;
  for (const Setting& setting : space.settings()) {
    all.push_back(setting);
    for (const Setting& copy : space.copies(setting)) all.push_back(copy);
  }
  return all;
}

/// Counts plans without building them. Stops at the limit on plans, or when counting takes too
/// long.
class Count {
 public:
  Count(const Space& space, std::stop_token stop)
      : space_(space), patience_(std::move(stop), most_counting) {}

  double plans() {
    for (const Setting& setting : settings_of(space_)) {
      const bool goes_on =
          Replicas(space_, setting, patience_, [&](const std::vector<int>&, int stages) {
            count_ += cuts(stages);
            return count_ <= most_plans && !patience_.is_over();
          }).all();
      if (!goes_on) break;
    }
    return patience_.is_exhausted() ? std::numeric_limits<double>::infinity() : count_;
  }

 private:
  /// Number of choices of recomputation for a stage of this many layers.
  double recomputes(int layers) const {
    const auto whole = static_cast<double>(space_.problem().recompute.size());
    if (!space_.layers_choose() || !space_.allows(Recompute::none)) return whole;
    const double each = 1 + static_cast<double>(space_.problem().recompute_layers.size());
    return whole + std::pow(each, layers) - 1;
  }

  /// Number of ways to cut the layers into this many stages and to choose recomputation for each.
  double cuts(int stages) {
    const auto known = cuts_.find(stages);
    if (known != cuts_.end()) return known->second;
    std::vector<double> ways(index(space_.layers() + 1), 0);
    ways.front() = 1;
    for (int stage = 0; stage < stages; ++stage) {
      std::vector<double> next(ways.size(), 0);
      for (int first = 0; first <= space_.layers() && !patience_.is_over(); ++first) {
        if (ways[index(first)] == 0) continue;
        // Counting this many cuts takes as long as counting one assignment of replicas.
        constexpr double cuts_at_once = 50;
        patience_.spend((space_.layers() - first) / cuts_at_once);
        for (int end = space_.first_end(first); end <= space_.layers(); ++end) {
          if (!space_.allows(stage, {first, end})) continue;
          next[index(end)] += ways[index(first)] * recomputes(end - first);
        }
      }
      ways = std::move(next);
    }
    return cuts_[stages] = ways.back();
  }

  const Space& space_;
  Patience patience_;
  std::map<int, double> cuts_;  ///< number of stages → number of ways
  double count_ = 0;
};

/// The Pareto front of step time and peak memory, fastest plan first.
class Front {
 public:
  void add(const Candidate& candidate) {
    if (!candidate.prediction || !candidate.prediction->fits || is_undecided(candidate)) return;
    const auto is_beaten_by = [](const Candidate& a, const Candidate& b) {
      return pace(*b.prediction) <= pace(*a.prediction) && largest_peak(b) <= largest_peak(a);
    };
    for (Candidate& other : plans_) {
      if (!is_beaten_by(candidate, other)) continue;
      if (is_beaten_by(other, candidate)) other = better_of(other, candidate);
      return;
    }
    std::erase_if(plans_, [&](const Candidate& other) { return is_beaten_by(other, candidate); });
    plans_.push_back(candidate);
  }

  std::vector<Candidate> take() {
    std::ranges::sort(plans_, {}, [](const Candidate& plan) { return pace(*plan.prediction); });
    return std::move(plans_);
  }

 private:
  static Candidate better_of(const Candidate& a, const Candidate& b) {
    Leaderboard board(1);
    board.add(a);
    board.add(b);
    return *board.front();
  }

  std::vector<Candidate> plans_;
};

/// Counts over all searches that the answer takes.
struct Tally {
  double plans = 0;  ///< plans in all
  std::int64_t candidates = 0;
  bool interrupted = false;
  std::optional<Duration> best;
};

/// Passes every plan of a space, with devices in the cluster's order, to the collector.
template <class Collector>
class BruteForce {
 public:
  BruteForce(const Space& space, const SearchControl& control, Tally& tally, Collector& collector)
      : space_(space), control_(control), tally_(tally), collector_(collector) {}

  void search() {
    Patience patience(control_.stop);
    for (const Setting& setting : settings_of(space_)) {
      const bool goes_on =
          Replicas(space_, setting, patience, [&](const std::vector<int>& replicas, int stages) {
            Layout layout{.replicas = replicas, .cuts = {0}, .recompute = {}};
            choose_cuts(setting, layout, stages);
            return !stopped();
          }).all();
      if (!goes_on) tally_.interrupted = true;
      if (!goes_on) return;
    }
  }

 private:
  bool stopped() {
    if (control_.stop.stop_requested()) tally_.interrupted = true;
    return tally_.interrupted;
  }

  void choose_cuts(const Setting& setting, Layout& layout, int stages) {
    const int stage = layout.stages();
    const int first = layout.cuts.back();
    if (stage == stages) {
      if (first == space_.layers()) choose_recompute(setting, layout);
      return;
    }
    for (int end = space_.first_end(first); end <= space_.layers() && !stopped(); ++end) {
      if (!space_.allows(stage, {first, end})) continue;
      layout.cuts.push_back(end);
      choose_cuts(setting, layout, stages);
      layout.cuts.pop_back();
    }
  }

  void choose_recompute(const Setting& setting, Layout& layout) {
    if (static_cast<int>(layout.recompute.size()) == layout.stages()) {
      return evaluate(setting, layout);
    }
    for (const Recompute recompute : space_.problem().recompute) {
      layout.recompute.push_back(recompute);
      layout.again.emplace_back();
      choose_recompute(setting, layout);
      layout.again.pop_back();
      layout.recompute.pop_back();
    }
    if (!space_.layers_choose() || !space_.allows(Recompute::none)) return;
    const auto stage = layout.recompute.size();
    layout.recompute.push_back(Recompute::none);
    layout.again.emplace_back(static_cast<std::size_t>(layout.cuts[stage + 1] - layout.cuts[stage]),
                              Recomputed::none);
    choose_layers(setting, layout, 0);
    layout.again.pop_back();
    layout.recompute.pop_back();
  }

  /// Enumerates the choices of the last stage's layers from `layer` on.
  void choose_layers(const Setting& setting, Layout& layout, std::size_t layer) {
    if (stopped()) return;
    if (layer == layout.again.back().size()) {
      const auto idle = std::ranges::count(layout.again.back(), Recomputed::none);
      if (idle < std::ssize(layout.again.back())) choose_recompute(setting, layout);
      return;
    }
    choose_layers(setting, layout, layer + 1);
    const std::size_t stage = layout.again.size() - 1;
    for (const Recomputed what : space_.problem().recompute_layers) {
      layout.again[stage][layer] = what;
      choose_layers(setting, layout, layer + 1);
      layout.again[stage][layer] = Recomputed::none;
    }
  }

  void evaluate(const Setting& setting, const Layout& layout) {
    if (stopped()) return;
    const Candidate candidate = space_.evaluate("brute-force", space_.plan(setting, layout));
    collector_.add(candidate);
    if (candidate.prediction && candidate.prediction->fits && !is_undecided(candidate)) {
      const Duration time = pace(*candidate.prediction);
      tally_.best = std::min(tally_.best.value_or(time), time);
    }
    if (++tally_.candidates % plans_per_update == 0) show_progress();
  }

  void show_progress() const {
    if (!control_.progress) return;
    const double done = static_cast<double>(tally_.candidates) / std::max(tally_.plans, 1.0);
    control_.progress({.done = std::min(done, 1.0), .best = tally_.best, .gap = 1});
  }

  const Space& space_;
  const SearchControl& control_;
  Tally& tally_;
  Collector& collector_;
};

/// For a model that branches, adds the note that only one order of its layers was searched
/// (planner/space/orders.hpp).
void say_one_order(SearchResult& result) {
  constexpr std::string_view which = "the model's own order of layers";
  if (result.infeasible) {
    result.infeasible->reason += concat(", in ", which, "; brute-force tries no other");
    result.infeasible->remedies.emplace_back("--strategy exact, which tries other orders, too");
  }
  for (Candidate& candidate : result.plans) {
    if (!candidate.prediction) continue;
    candidate.prediction->notes.push_back(
        concat("brute-force searched ", which, " only; --strategy exact tries others, too"));
  }
}

/// The options that would narrow the question and are not used yet, in words.
std::string ways_to_ask_for_less(const Problem& problem) {
  const bool is_straight = problem.straight || problem.pinned.any();
  std::vector<std::string> flags;
  if (problem.schedules.size() > 1) flags.emplace_back("--schedule");
  if (problem.microbatches.size() > 1) flags.emplace_back("--microbatch");
  if (problem.tensor_parallel.size() > 1) flags.emplace_back("--tensor-parallel");
  if (problem.recompute.size() > 1 || !problem.recompute_layers.empty())
    flags.emplace_back("--recompute");
  if (!is_straight) flags.emplace_back("--straight");
  flags.emplace_back("--max-stages");
  return join_words(flags);
}

void require_few(double plans, const Problem& problem) {
  if (plans <= most_plans) return;
  fail_usage(
      "--strategy brute-force simulates every plan, and there are more than a million to look at: "
      "use --strategy exact, or ask for less, as with ",
      ways_to_ask_for_less(problem));
}

/// The problem with its devices in another order, and its space. `space` refers to `problem`.
struct OtherOrder {
  OtherOrder(const Problem& own, std::vector<int> devices)
      : order(std::move(devices)), problem(in_device_order(own, order)), space(problem) {}

  std::vector<int> order;
  Problem problem;
  Space space;
};

std::vector<std::unique_ptr<OtherOrder>> other_orders_of(const Problem& problem) {
  std::vector<std::unique_ptr<OtherOrder>> others;
  for (const std::vector<int>& order : asked_device_orders(problem).orders)
    others.push_back(std::make_unique<OtherOrder>(problem, order));
  return others;
}

double count_plans(const Space& space, const std::vector<std::unique_ptr<OtherOrder>>& others,
                   const std::stop_token& stop) {
  double plans = Count(space, stop).plans();
  for (const auto& other : others) plans += Count(other->space, stop).plans();
  return plans;
}

/// Collects all plans, on the devices in every order that the problem asks for.
template <class Collector>
Tally look_at_all(const Problem& problem, const SearchControl& control, const Space& space,
                  const Collector& empty, Collector& collector) {
  const auto others = other_orders_of(problem);
  Tally tally{.plans = count_plans(space, others, control.stop)};
  require_few(tally.plans, problem);
  BruteForce(space, control, tally, collector).search();
  for (const auto& other : others) {
    Collector own = empty;
    BruteForce(other->space, control, tally, own).search();
    for (const Candidate& candidate : own.take())
      collector.add(space.evaluate(candidate.name, renumbered(candidate.plan, other->order)));
  }
  return tally;
}

/// The problem split into questions with one sharding each and, for a framework that recomputes
/// alike in all stages, one choice of recomputation each.
std::vector<Problem> single_questions(const Problem& problem) {
  std::vector<Problem> questions;
  for (const Sharding sharding : sharding_choices(problem)) {
    const Problem one = with_sharding(problem, sharding);
    if (problem.recompute_everywhere.empty()) questions.push_back(one);
    for (const RecomputeEverywhere what : problem.recompute_everywhere)
      questions.push_back(with_recompute_everywhere(one, what));
  }
  return questions;
}

SearchResult begin_result(const Tally& tally) {
  SearchResult result{.strategy = "brute-force"};
  result.candidates = tally.candidates;
  result.interrupted = tally.interrupted;
  result.families.add({.lower_bound = tally.interrupted ? Duration{0} : Duration::max()});
  return result;
}

void finish_answer(const Problem& problem, const SearchControl& control, const Space& space,
                   SearchResult& result) {
  if (result.plans.empty() && !result.interrupted && control.explain) {
    result.infeasible = explain_infeasible(problem, space, control.stop);
  }
  if (!other_orders(problem, {}, 1).empty()) say_one_order(result);
}

}  // namespace

double count_plans(const Problem& problem) {
  return count_plans(Space(problem), other_orders_of(problem), {});
}

SearchResult search_brute_force(const Problem& problem, const SearchControl& control) {
  if (!problem.other_sharding.empty())
    return search_each_sharding(search_brute_force, problem, control);
  if (problem.recompute_everywhere.size() > 1)
    return search_each_recompute(search_brute_force, problem, control);
  const Space space(problem);
  const Leaderboard empty(control.top);
  Leaderboard board = empty;
  const Tally tally = look_at_all(problem, control, space, empty, board);
  SearchResult result = finish(board, begin_result(tally));
  finish_answer(problem, control, space, result);
  return result;
}

SearchResult brute_force_front(const Problem& problem, const SearchControl& control, int most,
                               double spacing) {
  Front front;
  Tally tally;
  for (const Problem& question : single_questions(problem)) {
    const Tally own = look_at_all(question, control, Space(question), Front(), front);
    tally.candidates += own.candidates;
    tally.interrupted = tally.interrupted || own.interrupted;
  }
  const std::vector<Candidate> all = front.take();
  // The fastest plan comes first; each later one is the fastest whose memory is smaller by the
  // spacing.
  Leaderboard first(1);
  if (!all.empty()) first.add(all.front());
  SearchResult result = finish(first, begin_result(tally));
  auto next = all.begin();
  while (next != all.end() && static_cast<int>(result.plans.size()) < most) {
    const Bytes cap = smaller_peak(largest_peak(result.plans.back()), spacing);
    next = std::find_if(next, all.end(),
                        [&](const Candidate& plan) { return largest_peak(plan) <= cap; });
    if (next == all.end()) break;
    SearchResult with_less = result;
    with_less.lower_bound = tally.interrupted ? Duration{0} : pace(*next->prediction);
    result.plans.push_back(*next);
    write_figures(result.plans.back(), with_less);
  }
  result.proved_optimal = result.proved_optimal && next == all.end();
  const bool is_empty = result.plans.empty() && !result.interrupted;
  const Problem closest =
      with_most_recompute(is_empty ? nearest_to_fit(problem, control.stop).problem
                                   : with_sharding(problem, problem.optimizer.sharding));
  finish_answer(closest, control, Space(closest), result);
  return result;
}

}  // namespace stagecraft
