#include "planner/strategies/exact/one_order.hpp"

#include <algorithm>
#include <deque>
#include <memory>

#include "planner/layouts/layouts.hpp"
#include "planner/searches/column_search.hpp"
#include "planner/searches/starts.hpp"
#include "planner/searches/tightest_plan.hpp"
#include "planner/searches/uneven_chains.hpp"
#include "planner/searches/walk.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules.hpp"

namespace stagecraft {

namespace {

/// Bisection stops within this part of the distance.
constexpr Time narrow_steps = 256;

/// One setting and what is known about it.
struct Branch {
  const Setting* setting = nullptr;
  std::unique_ptr<ChainBounds> chain;  ///< with one stage per device
  std::unique_ptr<LoopedWalk> looped;  ///< otherwise, and for a first bound
  std::unique_ptr<FastClock> clock;    ///< unless there are too many devices to try any
  Time least = 0;  ///< no plan of this setting is faster, but for those already judged
  std::string_view rests_on = relaxation::formula;  ///< `least`
  bool gave_up = false;  ///< its walk was too long; `least` will not rise any more
};

/// A plan of GPipe or 1F1B of equal replicas that take turns, as one of copies that each have
/// microbatches of their own; nothing where no such plan was asked for.
std::optional<Plan> as_copies(const Space& space, Plan plan) {
  const std::size_t replicas = plan.stages.front().devices.size();
  const auto is_equal = [&](const Stage& stage) { return stage.devices.size() == replicas; };
  const int count = static_cast<int>(replicas);
  if (!space.problem().microbatch_per_copy || plan.batch.microbatches % count != 0 ||
      !std::ranges::all_of(plan.stages, is_equal)) {
    return {};
  }
  const auto asked = [&](const ScheduleChoice& choice) {
    return choice.name == plan.schedule.name &&
           choice.virtual_stages == plan.schedule.virtual_stages;
  };
  const auto& schedules = space.problem().schedules;
  const auto schedule = std::ranges::find_if(schedules, asked);
  if (schedule == schedules.end()) return {};
  plan.schedule = *schedule;  // its forwards ahead are those of one copy
  plan.replicas = ReplicaPolicy::split;
  plan.batch.microbatch *= count;
  plan.batch.microbatches /= count;
  return plan;
}

class OneOrder {
 public:
  OneOrder(const Problem& problem, const SearchControl& control, std::int64_t effort)
      : space_(problem),
        control_(control),
        effort_(effort),
        judge_(space_, control),
        columns_(space_, control, judge_) {
    judge_.effort().left = effort;
    for (const Setting& setting : space_.settings()) {
      // Bounds take costs of all layers in every setting, which stopped searches have no time for.
      is_complete_ = is_complete_ && !control.stop.stop_requested();
      if (!is_complete_) break;
      // Columns know steps of training, not steady states.
      if (is_wide(space_, setting) && setting.trains && setting.drains) {
        add_wide(setting);
        continue;
      }
      add(setting);
      // Replicas that take turns do what copies do.
      if (is_chain(setting) && space_.may_take_turns(setting)) continue;
      for (Setting& copy : space_.copies(setting)) add(copies_.emplace_back(std::move(copy)));
    }
  }

  /// Puts what is found on the board, among plans of other orders. Leaves the starts that this
  /// order does not have.
  void search(std::vector<Candidate>& starts, Leaderboard& board, SearchResult& result) {
    judge_.board() = std::move(board);
    take_starts(starts);
    for (Branch& branch : branches_) {
      if (branch.chain) seed(branch);
    }
    fall_back();
    for (Branch* branch : by_bound()) narrow(*branch);
    search_columns();
    search_shallow();
    search_uneven();
    for (Branch& branch : branches_) {
      if (!branch.chain) seed(branch);
    }
    while (Branch* branch = most_promising()) deepen(*branch);
    search_uneven_of_open();
    add_copies_of_best();
    if (Duration{lower_bound()} < result.lower_bound) {
      result.lower_bound = Duration{lower_bound()};
      result.rests_on = rests_on();
    }
    const bool is_part = least_of_all_ < never;
    if (is_complete_ && (is_part || least_of_empty_ < never)) {
      result.scope.add({.equal_replicas = is_part,
                        .no_empty = least_of_empty_ < never,
                        .least_of_others = Duration{std::min(least_of_all_, least_of_empty_)}});
    }
    result.candidates += judge_.simulated();
    result.pruned += judge_.pruned();
    result.interrupted = judge_.stopped() || !is_complete_;
    board = std::move(judge_.board());
  }

 private:
  void add_wide(const Setting& setting) {
    Branch& branch = branches_.emplace_back();
    branch.setting = &setting;
    branch.gave_up = true;
    branch.least = never;
    if (!has_only_columns(space_, setting))
      least_of_all_ = std::min(least_of_all_, columns_.least_of_all(setting));
    if (space_.has_empty_stages())
      least_of_empty_ = std::min(least_of_empty_, columns_.least_of_all(setting));
    columns_.add(setting);
    if (has_uneven_chains(space_, setting)) uneven_.push_back(&setting);
    if (!has_many_devices(space_, setting))
      branch.clock = std::make_unique<FastClock>(space_, setting);
  }

  void add(const Setting& setting) {
    Branch& branch = branches_.emplace_back();
    branch.setting = &setting;
    branch.clock = std::make_unique<FastClock>(space_, setting);
    branch.looped = std::make_unique<LoopedWalk>(space_, setting);
    branch.least = branch.looped->least();
    if (has_chain_bounds(setting)) branch.chain = std::make_unique<ChainBounds>(space_, setting);
  }

  bool is_done(const Branch& branch) const {
    return branch.least > std::min(judge_.limit(), never - 1);
  }
  bool stops() const { return judge_.stopped() || judge_.is_spent(); }

  std::vector<Branch*> by_bound() {
    std::vector<Branch*> order;
    for (Branch& branch : branches_) order.push_back(&branch);
    std::stable_sort(order.begin(), order.end(),
                     [](const Branch* a, const Branch* b) { return a->least < b->least; });
    return order;
  }

  // --- 1. Good plans first ---

  /// Takes those that this search knows.
  void take_starts(std::vector<Candidate>& starts) {
    std::erase_if(starts, [&](const Candidate& start) {
      if (!lies_in_space(space_, start.plan)) return false;
      judge_.add(start);
      return true;
    });
  }

  void consider(Branch& branch, const Layout& layout) {
    if (is_allowed(space_, *branch.setting, layout)) {
      judge_.consider(*branch.clock, *branch.setting, layout, never);
    }
  }

  void seed(Branch& branch) {
    if (!branch.clock) return;
    for (const Layout& layout : usual_layouts(space_, *branch.setting, *branch.clock)) {
      if (stops()) return;
      consider(branch, layout);
      consider(branch, improve(*branch.clock, space_, *branch.setting, layout, judge_.effort()));
    }
  }

  /// Where nothing that is usual fits, and no plan is known from elsewhere, the one that needs
  /// least memory.
  void fall_back() {
    if (judge_.board().best() || control_.worth || stops()) return;
    const Effort effort{std::min(tight_effort, effort_ / 4), control_.stop};
    if (const auto plan = tight_plan_that_fits(space_, effort)) judge_.add(*plan);
  }

  /// Where the best plan's replicas take turns, and copies of its pipeline do the same: as these,
  /// which other systems know, too.
  void add_copies_of_best() {
    const Candidate* best = judge_.board().front();
    if (best == nullptr || best->plan.replicas != ReplicaPolicy::round_robin) return;
    if (const auto plan = as_copies(space_, best->plan)) {
      judge_.add(space_.evaluate(best->name, *plan));
    }
  }

  /// With half the effort, if others will need the rest.
  void search_columns() {
    const bool leaves_some =
        std::any_of(branches_.begin(), branches_.end(),
                    [&](const Branch& branch) { return !branch.gave_up && !is_done(branch); });
    const std::int64_t reserve = leaves_some ? judge_.effort().left / 2 : 0;
    judge_.effort().left -= reserve;
    columns_.search([this] { report(); });
    judge_.effort().left = std::max<std::int64_t>(judge_.effort().left, 0) + reserve;
  }

  /// Of settings that are searched by columns, pipelines of few devices whose replicas take turns
  /// or are not equally many: with several stages on a device that recompute or do not, they may
  /// need the least memory. With a part of the effort.
  void search_shallow() {
    constexpr std::int64_t parts = 8;
    const std::int64_t reserve = judge_.effort().left * (parts - 1) / parts;
    judge_.effort().left -= reserve;
    for (Branch& branch : branches_) {
      const Setting& setting = *branch.setting;
      const bool is_column = !branch.looped && branch.clock != nullptr;
      if (!is_column || has_only_columns(space_, setting) || is_chain(setting)) continue;
      if (stops() || columns_.least_of_all(setting) > judge_.limit()) continue;
      LoopedWalk(space_, setting).walk_shallow(*branch.clock, judge_, judge_.limit());
    }
    judge_.effort().left = std::max<std::int64_t>(judge_.effort().left, 0) + reserve;
  }

  /// Of settings that are searched by columns, with a part of the effort.
  void search_uneven() {
    constexpr std::int64_t parts = 4;
    const std::int64_t reserve = judge_.effort().left * (parts - 1) / parts;
    judge_.effort().left -= reserve;
    search_uneven_of(uneven_);
    judge_.effort().left = std::max<std::int64_t>(judge_.effort().left, 0) + reserve;
  }

  /// Where walks have used up the effort, chains that they have not come to, with some more.
  void search_uneven_of_open() {
    constexpr std::int64_t parts = 16;
    std::vector<const Setting*> open;
    for (const Branch& branch : branches_) {
      const bool is_open = branch.chain && !is_done(branch);
      if (is_open && has_uneven_chains(space_, *branch.setting)) open.push_back(branch.setting);
    }
    if (open.empty() || gap() <= control_.gap) return;
    judge_.effort().left = std::max<std::int64_t>(judge_.effort().left, 0) + effort_ / parts;
    search_uneven_of(open);
  }

  void search_uneven_of(const std::vector<const Setting*>& settings) {
    UnevenSearch search(space_, judge_);
    for (const Setting* setting : settings) {
      if (stops()) break;
      if (columns_.least_of_all(*setting) <= judge_.limit()) search.add(*setting);
    }
    search.improve([this] { return stops(); });
  }

  // --- 2. Narrow ---

  bool probe(Branch& branch, Time limit) {
    judge_.effort().spend(std::int64_t{20} * space_.layers() * space_.layers());
    if (!branch.chain->probe(limit, control_.stop)) return false;
    for (int stages = 1; stages <= branch.chain->most_stages(); ++stages) {
      if (branch.chain->is_open(stages)) consider(branch, branch.chain->best_chain(stages));
    }
    return true;
  }

  void narrow(Branch& branch) {
    if (!branch.chain || is_done(branch) || stops()) return;
    branch.rests_on = relaxation::neighbours;
    Time high = judge_.limit();
    if (high >= never) high = never - 1;
    if (!probe(branch, high)) {
      branch.least = high + 1;
      return;
    }
    // Without a plan yet, the first step is to find the size of things.
    Time reach = std::max<Time>(branch.least, 1);
    while (judge_.limit() >= never && reach < high / 2 && !stops()) {
      if (probe(branch, reach)) {
        high = reach;
        break;
      }
      branch.least = reach + 1;
      reach *= 2;
    }
    const Time enough = std::max<Time>((high - branch.least) / narrow_steps, 0);
    while (!stops()) {
      high = std::min(high, judge_.limit());
      if (high - branch.least <= enough) break;
      const Time middle = branch.least + (high - branch.least) / 2;
      if (probe(branch, middle)) {
        high = middle;
      } else {
        branch.least = middle + 1;
      }
    }
    report();
  }

  // --- 3. Deepen ---

  Branch* most_promising() {
    if (stops() || is_settled()) return nullptr;
    Branch* best = nullptr;
    for (Branch& branch : branches_) {
      if (branch.gave_up || is_done(branch)) continue;
      if (best == nullptr || branch.least < best->least) best = &branch;
    }
    return best;
  }

  void deepen(Branch& branch) {
    const Time high = std::min(judge_.limit(), never - 1);
    const Time distance = high - branch.least;
    Time limit = distance < high / 1000 ? high : branch.least + distance / 4;
    // Without any plan the distance means nothing; go up in leaps.
    if (high == never - 1) limit = branch.least < never / 8 ? 4 * branch.least + 1 : high;
    limit = std::min(limit, high);
    const std::int64_t pruned = judge_.pruned();
    if (walk(branch, limit) == WalkEnd::gave_up) {
      branch.gave_up = true;
    } else {
      // A walk that had nothing to rule out has seen everything.
      const bool saw_all = branch.chain == nullptr && judge_.pruned() == pruned;
      branch.least = saw_all ? never : limit + 1;
      branch.rests_on = relaxation::walk;
    }
    report();
  }

  /// Each walk may use a part of what is left, so that one difficult setting does not starve the
  /// others.
  WalkEnd walk(Branch& branch, Time limit) {
    const std::int64_t reserve = judge_.effort().left / 2;
    judge_.effort().left -= reserve;
    WalkEnd end = WalkEnd::complete;
    if (!branch.chain) {
      end = branch.looped->walk(*branch.clock, judge_, limit);
    } else if (probe(branch, limit)) {
      end = walk_chain(space_, *branch.setting, *branch.chain, *branch.clock, judge_, limit);
    }
    judge_.effort().left = std::max<std::int64_t>(judge_.effort().left, 0) + reserve;
    return end;
  }

  // --- The answer ---

  Time lower_bound() const {
    if (!is_complete_) return 0;
    Time least = never;
    for (const Branch& branch : branches_) least = std::min(least, branch.least);
    least = std::min(least, columns_.least());
    return least;
  }

  /// What the bound rests on where it is lowest.
  std::string rests_on() const {
    if (!is_complete_) return {};
    const auto lowest =
        std::ranges::min_element(branches_, {}, [](const Branch& branch) { return branch.least; });
    if (lowest == branches_.end() || lowest->least > columns_.least()) return columns_.rests_on();
    const Setting& setting = *lowest->setting;
    if (!setting.drains || !setting.trains)
      return to_words(setting) + ": the load of the busiest device, without waits";
    return concat(to_words(setting), ": ", lowest->rests_on);
  }

  double gap() const { return gap_of(judge_.board().best()); }

  /// Of as many plans as are asked for, the last one is near enough to the bound.
  bool is_settled() const { return gap_of(judge_.board().threshold()) <= control_.gap; }

  /// From a plan that takes so long to the bound; of none it is everything.
  double gap_of(const std::optional<Duration>& time) const {
    if (!time) return 1;
    const Time least = std::min(lower_bound(), time->count());
    return time->count() == 0
               ? 0
               : static_cast<double>(time->count() - least) / static_cast<double>(time->count());
  }

  void report() {
    if (!control_.progress) return;
    const auto done = std::count_if(branches_.begin(), branches_.end(), [&](const Branch& branch) {
      return branch.gave_up || is_done(branch);
    });
    control_.progress({.done = static_cast<double>(done) / static_cast<double>(branches_.size()),
                       .best = judge_.board().best(),
                       .gap = gap()});
  }

  Space space_;
  const SearchControl& control_;
  std::int64_t effort_ = 0;  ///< that was given
  Judge judge_;
  ColumnSearch columns_;
  std::deque<Setting> copies_;  ///< see Space::copies
  std::vector<Branch> branches_;
  std::vector<const Setting*> uneven_;  ///< see planner/searches/uneven_chains.hpp
  Time least_of_all_ = never;           ///< with any replicas, of settings searched by columns
  Time least_of_empty_ = never;         ///< with empty stages, of which columns have none
  bool is_complete_ = true;             ///< all settings were looked at
};

}  // namespace

void search_one_order(const Problem& problem, const SearchControl& control, std::int64_t effort,
                      std::vector<Candidate>& starts, Leaderboard& board, SearchResult& result) {
  OneOrder(problem, control, effort).search(starts, board, result);
}

}  // namespace stagecraft
