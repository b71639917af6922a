// Stages are put on from the last one, as memory depends on the number of stages behind. What is
// behind a state has a time of its slowest stage and a sum; neither alone decides, so each state
// keeps the pairs that no other beats in both. Pairs that cannot beat the best plan so far with
// what is before them at least (stage_bounds.hpp) are dropped, and as that plan's time allows no
// stage above some T, few operators are states at all. A rough pass, with one pair per state, finds
// the first plan.

#include "planner/baselines/aceso/aceso_search.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "planner/baselines/aceso/stage_bounds.hpp"
#include "profiles/index.hpp"
#include "profiles/infinite.hpp"

namespace stagecraft {

namespace {

/// Of about ten nanoseconds, to compare the time of one with others.
constexpr std::int64_t steps_per_stage = 4;

/// A way to run what is behind a state.
struct Behind {
  double slowest = 0;
  double sum = 0;
  int choice = -1;  ///< in the list of choices made
};

/// A stage put before what an earlier choice was of.
struct Choice {
  int first = 0, end = 0, option = 0;
  int next = -1;
};

/// Where a stage may be put before a state.
struct Extension {
  int devices = 0;  ///< before the state
  int end = 0;      ///< operator at which the state begins
  int behind = 0;   ///< stages
  int option = 0;
};

/// Plans of one microbatch size. Times in nanoseconds.
class Search {
 public:
  Search(const AcesoDatabase& database, const AcesoQuestion& question, int microbatch,
         Effort& effort)
      : costs_(database, question, microbatch),
        bounds_(costs_, question.machine.devices, question.most_stages),
        effort_(effort),
        devices_(question.machine.devices),
        most_stages_(question.most_stages),
        others_(microbatches_after_first(question, microbatch)) {}

  /// No plan has less.
  double lower_bound() const { return others_ * bounds_.least_time() + costs_.least_work(); }
  std::int64_t judged() const { return judged_; }

  /// The best plan of a rough pass over those whose stages take up to 1 + slack times the least.
  bool try_out(double slack, double& best) {
    const double time = bounds_.least_time() * (1 + slack);
    return pass(std::min(time, most_time(best)), 1, best);
  }

  /// Lowers `best` to the least time of any plan; true if there is a plan below it.
  bool run(double& best) { return pass(most_time(best), std::numeric_limits<int>::max(), best); }

  AcesoPlan plan() const {
    AcesoPlan plan{.microbatch = costs_.microbatch(), .stages = {}};
    for (int choice = last_; choice >= 0; choice = choices_[index(choice)].next) {
      const Choice& taken = choices_[index(choice)];
      plan.stages.push_back(costs_.stage(taken.first, taken.end, taken.option));
    }
    int behind = static_cast<int>(plan.stages.size());
    for (AcesoStage& stage : plan.stages) stage.recomputes = costs_.recomputes(stage, --behind);
    return plan;
  }

 private:
  static double microbatches_after_first(const AcesoQuestion& question, int microbatch) {
    const auto whole = question.global_batch / microbatch;
    return static_cast<double>(whole) - 1;
  }

  /// A plan with a slower stage takes at least `best`.
  double most_time(double best) const {
    const double time = best / (others_ + 1);
    return others_ > 0 ? std::min(time, (best - costs_.least_work()) / others_) : time;
  }

  double cost(double slowest, double sum) const { return others_ * slowest + sum; }

  using States = std::vector<std::vector<std::vector<Behind>>>;

  States states_with(int behind) const {
    States states;
    for (int d = 0; d <= devices_; ++d) {
      const AcesoWindow& window = bounds_.window(behind, d);
      states.emplace_back(index(window.end - window.first));
    }
    return states;
  }

  /// All plans whose stages take up to `time`, where states keep at most so many pairs.
  bool pass(double time, int most_pairs, double& best) {
    if (!bounds_.prepare(time, effort_.stop)) return false;
    time_ = time;
    most_pairs_ = most_pairs;
    bool found = false;
    States states = states_with(0);
    states[index(devices_)].back().push_back({});
    for (int behind = 0; behind < most_stages_; ++behind) {
      States next = states_with(behind + 1);
      for (int d = 1; d <= devices_; ++d) {
        const AcesoWindow& window = bounds_.window(behind, d);
        for (int i = window.first; i < window.end && !effort_.is_spent(); ++i) {
          const std::vector<Behind>& pairs = states[index(d)][index(i - window.first)];
          for (int option = 0; option < costs_.options() && !pairs.empty(); ++option) {
            if (costs_.devices(option) <= d)
              found |= extend(pairs, {d, i, behind, option}, next, best);
          }
        }
      }
      states = std::move(next);
    }
    return found;
  }

  /// Puts each possible stage before a state; true if that completes a plan below `best`.
  bool extend(const std::vector<Behind>& pairs, const Extension& state, States& next,
              double& best) {
    const int from = state.devices - costs_.devices(state.option);
    const AcesoWindow& window = bounds_.window(state.behind + 1, from);
    Behind least{.slowest = infinite, .sum = infinite, .choice = -1};
    for (const Behind& pair : pairs) {
      least.slowest = std::min(least.slowest, pair.slowest);
      least.sum = std::min(least.sum, pair.sum);
    }
    bool found = false;
    for (int first = std::min(state.end, window.end) - 1; first >= window.first; --first) {
      if (costs_.is_too_much(first, state.end, state.option, state.behind, time_)) break;
      const AcesoBefore& before = bounds_.before(state.behind + 1, from, first);
      const double time = stage_time(first, state, before, least, best);
      if (time == infinite || time > time_) continue;
      std::vector<Behind>& kept = next[index(from)][index(first - window.first)];
      for (const Behind& pair : pairs) {
        const Behind longer{.slowest = std::max({pair.slowest, time, before.slowest}),
                            .sum = pair.sum + time,
                            .choice = static_cast<int>(choices_.size())};
        const double total = cost(longer.slowest, longer.sum + before.sum);
        if (total >= best || !keep(kept, longer, before)) continue;
        choices_.push_back({first, state.end, state.option, pair.choice});
        if (from > 0) continue;
        best = total;
        last_ = longer.choice;
        found = true;
      }
    }
    return found;
  }

  /// Infinite where it can be seen that no plan with it is the best.
  double stage_time(int first, const Extension& state, const AcesoBefore& before,
                    const Behind& least, double best) {
    const int from = state.devices - costs_.devices(state.option);
    const double time = costs_.time(first, state.end, state.option, from);
    const double bound =
        time + costs_.least_recompute(first, state.end, state.option, state.behind);
    const double slowest = std::max({least.slowest, bound, before.slowest});
    if (bound > time_ || cost(slowest, least.sum + bound + before.sum) >= best) return infinite;
    ++judged_;
    effort_.spend(steps_per_stage);
    return time + costs_.recompute(first, state.end, state.option, state.behind, effort_);
  }

  /// Keeps the pair unless another is at least as good.
  bool keep(std::vector<Behind>& pairs, const Behind& pair, const AcesoBefore& before) const {
    for (const Behind& other : pairs) {
      if (other.slowest <= pair.slowest && other.sum <= pair.sum) return false;
    }
    std::erase_if(pairs, [&](const Behind& other) {
      return pair.slowest <= other.slowest && pair.sum <= other.sum;
    });
    if (pairs.size() >= index(most_pairs_)) {
      const auto total = [&](const Behind& it) { return cost(it.slowest, it.sum + before.sum); };
      if (total(pairs.back()) <= total(pair)) return false;
      pairs.pop_back();
    }
    pairs.push_back(pair);
    return true;
  }

  AcesoStageCosts costs_;
  AcesoBounds bounds_;
  Effort& effort_;
  int devices_, most_stages_;
  double others_;  ///< microbatches but one
  double time_ = infinite;
  int most_pairs_ = 1;
  std::vector<Choice> choices_;
  int last_ = -1;  ///< the choice that completed the best plan
  std::int64_t judged_ = 0;
};

}  // namespace

AcesoAnswer search_by_aceso(const AcesoDatabase& database, const AcesoQuestion& question,
                            Effort effort) {
  std::vector<std::unique_ptr<Search>> searches;
  for (const int microbatch : question.microbatches) {
    auto search = std::make_unique<Search>(database, question, microbatch, effort);
    if (search->lower_bound() < infinite) searches.push_back(std::move(search));
  }
  std::stable_sort(searches.begin(), searches.end(), [](const auto& a, const auto& b) {
    return a->lower_bound() < b->lower_bound();
  });
  AcesoAnswer answer;
  double best = infinite;
  const auto take = [&](const Search& search) { answer.plan = search.plan(); };
  for (const double slack : {0.005, 0.02, 0.08, 0.3, 1.0, 4.0, 16.0, infinite}) {
    if (answer.plan) break;
    for (const auto& search : searches) {
      if (search->try_out(slack, best)) take(*search);
    }
  }
  double open = infinite;  // the least bound among what was not searched to the end
  for (const auto& search : searches) {
    if (search->lower_bound() >= best) break;
    if (search->run(best)) take(*search);
    if (effort.is_spent()) open = std::min(open, search->lower_bound());
  }
  for (const auto& search : searches) answer.judged += search->judged();
  answer.is_complete = !effort.is_spent();
  if (!answer.plan) return answer;
  answer.figures = evaluate(database, question.machine, question.global_batch, *answer.plan);
  answer.lower_bound = std::min(answer.figures.time, open * 1e-9);
  return answer;
}

}  // namespace stagecraft
