#include "planner/search/one_order.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <span>

#include "planner/layouts/tightest_plan.hpp"
#include "planner/search/branch_work.hpp"
#include "planner/search/column_search.hpp"
#include "planner/search/heuristics/uneven_chains.hpp"
#include "planner/search/heuristics/uneven_search.hpp"
#include "planner/search/heuristics/warm_starts.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// Converts a plan of GPipe or 1F1B with equally many round-robin replicas to pipeline replicas
/// that each process their own microbatches; nothing if the problem does not allow such plans.
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
  plan.schedule = *schedule;  // with the warm-up forwards of one pipeline replica
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
        workers_(space_, control.threads),
        columns_(space_, control, judge_, workers_) {
    judge_.effort().left = effort;
  }

  /// See `search_one_order`.
  Searched search(std::vector<Candidate>& starts, Leaderboard& board) {
    judge_.board() = std::move(board);
    take_starts(starts);
    add_settings();
    carry_out(*this, agenda());
    board = std::move(judge_.board());
    return {.bounds = bounds(),
            .counts = {.candidates = judge_.simulated(),
                       .pruned = judge_.pruned(),
                       .interrupted = judge_.stopped() || !is_complete_}};
  }

  // --- For its agenda ---
  using Part = Branch;
  /// A method that ignores the gap ends once the slowest of the plans asked for is within the gap.
  bool ends(const Method<OneOrder>& method) const {
    if (!method.ignores_gap) return is_enough();
    return stops() || gap_of(judge_.board().threshold()) <= control_.gap;
  }
  static bool takes(const Branch& /*branch*/) { return true; }
  bool has_incumbent() const { return judge_.board().best().has_value(); }
  Effort& effort() { return judge_.effort(); }
  void report() {
    if (!control_.progress) return;
    const auto done = std::count_if(branches_.begin(), branches_.end(), [&](const Branch& branch) {
      return branch.gave_up || is_done(branch);
    });
    control_.progress({.done = static_cast<double>(done) / static_cast<double>(branches_.size()),
                       .best = judge_.board().best(),
                       .gap = gap()});
  }

 private:
  using Row = Method<OneOrder>;
  using Branches = Row::Parts;
  using Batch = Row::Batch;
  using Task = void (BranchWork::*)();

  static std::span<const Row> agenda() {
    using enum MethodKind;
    using Self = OneOrder;
    static constexpr std::array rows{
        Row{.kind = relax,
            .name = "chains, for what is worth it",
            .applies = &Self::has_worth,
            .choose = &Self::open_chains_by_bound,
            .work = &Self::work<&BranchWork::rule_out>,
            .at_once = 4},
        Row{.kind = propose,
            .name = "usual chains",
            .choose = &Self::open_chains,
            .work = &Self::work<&BranchWork::seed>,
            .at_once = 4},
        Row{.kind = propose, .name = "the tightest plan", .whole = &Self::fall_back},
        Row{.kind = relax,
            .name = "chains that are out of the way of columns",
            .applies = &Self::has_columns_and_limit,
            .choose = &Self::open_chains_by_bound,
            .work = &Self::work<&BranchWork::rule_out>,
            .at_once = 4},
        Row{.kind = enumerate, .name = "columns", .whole = &Self::search_columns},
        Row{.kind = relax,
            .name = "chains, by bisection",
            .choose = &Self::open_chains_by_bound,
            .work = &Self::work<&BranchWork::narrow>,
            .at_once = 4},
        // For settings that are searched by columns: pipelines of few devices with round-robin
        // replicas or unequal numbers of them. With several stages on a device, of which some
        // recompute, they may need the least memory.
        Row{.kind = enumerate,
            .name = "shallow pipelines",
            .applies = &Self::looks_at_others,
            .part_of_effort = 8,
            .choose = &Self::others_than_columns,
            .work = &Self::work<&BranchWork::walk_shallow>,
            .at_once = 4},
        Row{.kind = propose,
            .name = "replicas that change places",
            .applies = &Self::is_not_enough,
            .part_of_effort = 8,
            .whole = &Self::search_balanced},
        Row{.kind = propose,
            .name = "uneven chains",
            .part_of_effort = 4,
            .whole = &Self::search_uneven},
        Row{.kind = propose,
            .name = "usual plans of others than chains",
            .part_of_effort = 4,
            .choose = &Self::others_than_chains,
            .work = &Self::work<&BranchWork::seed>,
            .at_once = 4},
        // Each enumeration may use a part of the effort that is left, so that one difficult setting
        // does not starve the others.
        Row{.kind = enumerate,
            .name = "walks",
            .choose = &Self::open_by_bound,
            .work = &Self::work<&BranchWork::deepen>,
            .most = 2,
            .at_once = 2,
            .repeats = true,
            .ignores_gap = true,
            .parts = 2},
        Row{.kind = propose, .name = "uneven chains left", .whole = &Self::search_uneven_of_open},
        Row{.kind = propose, .name = "copies of the best", .whole = &Self::add_copies_of_best},
    };
    return rows;
  }

  void add_settings() {
    for (const Setting& setting : space_.settings()) {
      // Bounds need the costs of all layers in every setting; a search that was stopped has no time
      // for that.
      is_complete_ = is_complete_ && !judge_.stopped();
      if (!is_complete_) break;
      // The column search bounds training steps, not inference or steady states.
      if (is_wide(space_, setting) && setting.trains && setting.drains) {
        add_wide(setting);
        continue;
      }
      add(setting);
      // Round-robin replicas of a chain give the same steps as pipeline copies.
      if (is_chain(setting) && space_.may_take_turns(setting)) continue;
      for (Setting& copy : space_.copies(setting)) add(copies_.emplace_back(std::move(copy)));
    }
  }

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
    branch.is_timed = !has_many_devices(space_, setting);
  }

  void add(const Setting& setting) {
    Branch& branch = branches_.emplace_back();
    branch.setting = &setting;
    branch.is_timed = true;
    branch.is_chain = has_chain_bounds(setting);
    branch.looped = std::make_unique<LoopedWalk>(space_, setting);
    branch.least = branch.looped->least();
  }

  bool is_done(const Branch& branch) const {
    return branch.least > std::min(judge_.limit(), never - 1);
  }
  bool stops() const { return judge_.stopped() || judge_.is_spent(); }
  /// Whether the search may end: effort is spent, or the requested gap is reached.
  bool is_enough() const { return stops() || (control_.gap > 0 && gap() <= control_.gap); }

  Branches branches_that(const std::function<bool(const Branch&)>& are_wanted) {
    Branches wanted;
    for (Branch& branch : branches_) {
      if (are_wanted(branch)) wanted.push_back(&branch);
    }
    return wanted;
  }

  /// The wanted branches, those of the lowest bounds first.
  Branches by_bound(const std::function<bool(const Branch&)>& are_wanted) {
    Branches wanted = branches_that(are_wanted);
    std::ranges::stable_sort(wanted, {}, &Branch::least);
    return wanted;
  }

  /// Runs the task on a batch of branches side by side, each with at most 1/parts of the effort
  /// that is left.
  template <Task task>
  void work(Batch batch, const Row& row) {
    const std::int64_t share = share_of_each(judge_.effort().left, row.parts, batch.size());
    judge_side_by_side(workers_, judge_, batch.size(), share,
                       [&](const Space& space, Judge& judge, std::size_t i) {
                         BranchWork work(space, judge, *batch[i]);
                         (work.*task)();
                       });
  }

  // --- Conditions and choices of the agenda ---

  bool has_worth() const { return control_.worth.has_value(); }
  bool looks_at_others() const { return !control_.only_scope; }
  bool is_not_enough() const { return !control_.only_scope && !is_enough(); }
  /// Whether there are branches of columns, and an incumbent.
  bool has_columns_and_limit() const {
    return columns_.branches() != 0 && !control_.worth && judge_.limit() < never;
  }

  /// Whether plans of the setting other than columns may beat the incumbent. False if no plan fits
  /// so far, not even that of minimum memory, and no columns of any setting can fit.
  bool has_room_for_others(const Setting& setting) {
    if (judge_.limit() >= never && are_columns_closed_) return false;
    return columns_.least_of_all(setting) <= judge_.limit();
  }

  Branches open_chains() {
    return branches_that([&](const Branch& branch) { return branch.is_chain && !is_done(branch); });
  }
  Branches open_chains_by_bound() {
    return by_bound([&](const Branch& branch) { return branch.is_chain && !is_done(branch); });
  }
  Branches open_by_bound() {
    return by_bound([&](const Branch& branch) { return !branch.gave_up && !is_done(branch); });
  }
  /// Settings that are not chains. Those searched by columns are left out with `only_scope`, since
  /// columns cover all plans that the bound covers.
  Branches others_than_chains() {
    return branches_that([&](const Branch& branch) {
      if (branch.is_chain || !branch.is_timed) return false;
      if (!branch.is_column()) return !is_done(branch);
      return !control_.only_scope && has_room_for_others(*branch.setting);
    });
  }
  /// Settings that are searched by columns, and may have better plans with unequal replicas.
  Branches others_than_columns() {
    return by_bound([&](const Branch& branch) {
      return branch.is_column() && has_uneven_layouts(space_, *branch.setting) &&
             has_room_for_others(*branch.setting);
    });
  }

  // --- Methods that run as a whole ---

  /// Takes the warm starts that lie in this search's space.
  void take_starts(std::vector<Candidate>& starts) {
    std::erase_if(starts, [&](const Candidate& start) {
      if (!lies_in_space(space_, start.plan)) return false;
      judge_.add(start);
      return true;
    });
  }

  /// If no heuristic plan fits: the plan with the smallest peak memory.
  void fall_back() {
    if (judge_.board().best() || control_.worth || stops()) return;
    const Effort effort{std::min(tight_effort, effort_ / 4), control_.stop};
    if (const auto plan = tight_plan_that_fits(space_, effort)) judge_.add(*plan);
  }

  /// If the best plan has round-robin replicas, also offers it as pipeline copies, which more
  /// systems can run.
  void add_copies_of_best() {
    const Candidate* best = judge_.board().front();
    if (best == nullptr || best->plan.replicas != ReplicaPolicy::round_robin) return;
    if (const auto plan = as_copies(space_, best->plan)) {
      judge_.add(space_.evaluate(best->name, *plan));
    }
  }

  /// Searches columns, with half of the effort if other open branches need the rest.
  void search_columns() {
    const bool leaves_some =
        std::any_of(branches_.begin(), branches_.end(),
                    [&](const Branch& branch) { return !branch.gave_up && !is_done(branch); });
    with_part_of_effort(judge_.effort(), leaves_some ? 2 : 1,
                        [&] { columns_.search([this] { report(); }); });
    const bool has_wide = std::ranges::any_of(branches_, &Branch::is_column);
    are_columns_closed_ = has_wide && columns_.least() >= never && !judge_.stopped();
  }

  /// Local search on balanced layouts of wide settings, exchanging replicas between stages.
  void search_balanced() {
    constexpr std::size_t most = 32;
    UnevenSearch search(space_, judge_);
    for (const Branch* branch : others_than_columns()) {
      if (stops()) break;
      search.add_balanced(*branch->setting);
    }
    search.keep_best(most);
    search.improve([this] { return stops(); });
  }

  /// Searches uneven chains of the settings that are searched by columns.
  void search_uneven() { search_uneven_of(uneven_); }

  /// Searches uneven chains of the settings that enumeration left open, with a sixteenth of the
  /// effort on top.
  void search_uneven_of_open() {
    constexpr std::int64_t parts = 16;
    std::vector<const Setting*> open;
    for (const Branch& branch : branches_) {
      const bool is_open = branch.is_chain && !is_done(branch);
      if (is_open && has_uneven_chains(space_, *branch.setting)) open.push_back(branch.setting);
    }
    if (open.empty() || gap() <= control_.gap) return;
    judge_.effort().left = std::max<std::int64_t>(judge_.effort().left, 0) + effort_ / parts;
    search_uneven_of(open);
  }

  void search_uneven_of(const std::vector<const Setting*>& settings) {
    if (control_.only_scope || is_enough()) return;
    UnevenSearch search(space_, judge_);
    for (const Setting* setting : settings) {
      if (stops()) break;
      if (has_room_for_others(*setting)) search.add(*setting);
    }
    search.improve([this] { return stops(); });
  }

  // --- The answer ---

  FamilyBounds bounds() const {
    FamilyBounds bounds;
    bounds.add({.lower_bound = Duration{lower_bound()}, .rests_on = rests_on()});
    const auto leave_out = [&](PlanFamily family, Time least) {
      if (!is_complete_ || least >= never) return;
      bounds.add({family, Duration{least}, std::string(relaxation::formula)});
    };
    leave_out(PlanFamily::unequal_replicas, least_of_all_);
    leave_out(PlanFamily::empty_stages, least_of_empty_);
    return bounds;
  }

  Time lower_bound() const {
    if (!is_complete_) return 0;
    Time least = never;
    for (const Branch& branch : branches_) least = std::min(least, branch.least);
    least = std::min(least, columns_.least());
    return least;
  }

  /// The setting of the lowest bound and the relaxation that gave it, in words.
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

  /// The gap between a step and the bound; 1 if there is no plan.
  double gap_of(const std::optional<Duration>& time) const {
    if (!time) return 1;
    const Time least = std::min(lower_bound(), time->count());
    return time->count() == 0
               ? 0
               : static_cast<double>(time->count() - least) / static_cast<double>(time->count());
  }

  Space space_;
  const SearchControl& control_;
  std::int64_t effort_ = 0;  ///< effort at the beginning
  Judge judge_;
  SpaceWorkers workers_;
  ColumnSearch columns_;
  std::deque<Setting> copies_;  ///< see Space::copies
  std::vector<Branch> branches_;
  std::vector<const Setting*> uneven_;  ///< see planner/search/heuristics/uneven_chains.hpp
  Time least_of_all_ = never;           ///< wide settings: bound on plans with any replicas
  Time least_of_empty_ = never;         ///< wide settings: bound on plans with empty stages, which
                                        ///< columns leave out
  bool is_complete_ = true;             ///< every setting has a branch
  bool are_columns_closed_ = false;     ///< no columns fit
};

}  // namespace

Searched search_one_order(const Problem& problem, const SearchControl& control, std::int64_t effort,
                          std::vector<Candidate>& starts, Leaderboard& board) {
  return OneOrder(problem, control, effort).search(starts, board);
}

}  // namespace stagecraft
