#include "planner/search/column_search.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "planner/layouts/layouts.hpp"
#include "planner/layouts/recompute_ways.hpp"
#include "planner/relaxations/bisection.hpp"
#include "planner/relaxations/chain_bounds.hpp"
#include "planner/relaxations/path_bound.hpp"
#include "planner/search/enumerate/column_walk.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// Bisection of a branch's bound stops at 1/narrow_parts of the incumbent's step.
constexpr Time narrow_parts = 1000;
/// Steps of the bisection for each range of layers, at most.
constexpr std::int64_t most_per_range = 100;

}  // namespace

bool is_wide(const Space& space, const Setting& setting) {
  if (has_many_devices(space, setting) || has_equal_stages(space.problem())) return true;
  if (has_chain_bounds(setting)) return false;
  constexpr double most_layouts = 5e6, most_known = 2000;
  double layouts = 0;
  for (int depth = 1; depth <= space.most_pipeline_devices(setting); ++depth)
    layouts += count_layouts(space, setting, depth);
  if (layouts > most_layouts) return true;
  if (space.has_empty_stages()) return false;  // columns have none
  return layouts > most_known && has_only_columns(space, setting) && PathBound::applies(space);
}

ColumnSearch::ColumnSearch(const Space& space, const SearchControl& control, Judge& judge,
                           SpaceWorkers& workers)
    : space_(space), control_(control), judge_(judge), bounds_(space), workers_(workers) {}

void ColumnSearch::add(const Setting& setting) {
  for (Setting& column : space_.columns(setting)) {
    const Time least = bounds_.bound(column);
    if (least >= never) continue;  // the parameters alone exceed memory
    if (least > judge_.limit()) {
      ++closed_;
      closed_least_ = std::min(closed_least_, least);
      continue;
    }
    ColumnBranch& branch = branches_.emplace_back();
    branch.setting = std::move(column);
    branch.least = least;
  }
}

bool ColumnSearch::is_open(const ColumnBranch& branch) const {
  return branch.least <= std::min(judge_.limit(), never - 1);
}

Time ColumnSearch::least() const {
  Time least = closed_least_;
  for (const ColumnBranch& branch : branches_) least = std::min(least, branch.least);
  return least;
}

std::string ColumnSearch::rests_on() const {
  const auto lowest = std::ranges::min_element(
      branches_, {}, [](const ColumnBranch& branch) { return branch.least; });
  if (lowest == branches_.end() || lowest->least > least()) return closed_rests_on_;
  return words_of_bound(*lowest);
}

std::string ColumnSearch::words_of_bound(const ColumnBranch& branch) {
  const Setting& setting = branch.setting;
  return concat(to_words(setting), " in ", setting.columns,
                setting.columns == 1 ? " pipeline" : " equal pipelines", " of ", *setting.depth,
                *setting.depth == 1 ? " device" : " devices",
                setting.in_turns ? " that take turns" : "", ": ", branch.rests_on);
}

std::size_t ColumnSearch::done() const {
  const auto here = std::count_if(branches_.begin(), branches_.end(),
                                  [&](const ColumnBranch& branch) { return !is_open(branch); });
  return closed_ + static_cast<std::size_t>(here);
}

/// Removes closed branches, which may be a hundred times as many as open ones.
void ColumnSearch::let_go_of_closed() {
  closed_ += std::erase_if(branches_, [&](const ColumnBranch& branch) {
    if (is_open(branch)) return false;
    if (branch.least < closed_least_) {
      closed_least_ = branch.least;
      const bool was_raised = branch.rests_on != relaxation::formula;
      closed_rests_on_ = was_raised ? words_of_bound(branch) : "";
    }
    return true;
  });
}

double ColumnSearch::gap() const {
  const auto best = judge_.board().best();
  if (!best || best->count() == 0) return 1;
  const Time least = std::min(this->least(), best->count());
  return static_cast<double>(best->count() - least) / static_cast<double>(best->count());
}

void ColumnSearch::judge(ColumnBranch& branch, ColumnFindings findings) {
  judge_.effort().spend(findings.spent);
  if (findings.layouts.empty()) return;
  if (space_.layers_choose()) return keep_latest(branch, std::move(findings.layouts));
  FastClock clock(space_, branch.setting);
  clock.keep_free(branch.kept_free);
  for (const Layout& layout : findings.layouts) judge(branch, clock, layout);
}

/// Simulates the layout. If it does not fit, more stages recompute, up to `most_repairs` times.
void ColumnSearch::judge(ColumnBranch& branch, FastClock& clock, Layout layout) {
  constexpr int most_repairs = 4;
  for (int repair = 0; repair < most_repairs; ++repair) {
    const std::vector<Bytes> over = judge_.consider_once(clock, branch.setting, layout);
    if (over.empty()) return;
    branch.kept_free.resize(over.size());
    for (std::size_t d = 0; d < over.size(); ++d)
      branch.kept_free[d] += std::max<Bytes>(over[d], 0);
    clock.keep_free(branch.kept_free);
    auto fitting = recomputed_to_fit(clock, space_, branch.setting, layout);
    const auto nearer = repaired(clock, space_, branch.setting, layout, judge_.effort());
    if (nearer && (!fitting || clock.step(*nearer) < clock.step(*fitting))) fitting = nearer;
    if (!may_fit(clock, branch.layout)) {
      branch.step = fitting ? clock.step(*fitting) : never;
      branch.layout = fitting.value_or(Layout{});
    }
    if (!fitting) return;
    layout = *fitting;
  }
}

/// Applies the task to the branches side by side, each with the cutoff from before the batch.
void ColumnSearch::work_on(Batch batch, const Task& task) {
  const Time limit = judge_.limit();
  std::vector<ColumnFindings> findings(batch.size());
  workers_.run(static_cast<int>(batch.size()), [&](const Space& space, int i) {
    if (judge_.stopped()) return;
    ColumnBranch& branch = *batch[static_cast<std::size_t>(i)];
    ColumnWork work(space, control_.stop, branch, limit);
    task(work);
    findings[static_cast<std::size_t>(i)] = work.take_findings();
  });
  for (std::size_t i = 0; i < batch.size(); ++i) judge(*batch[i], std::move(findings[i]));
}

void ColumnSearch::propose(Batch batch, const Row& /*row*/) {
  work_on(batch, [](ColumnWork& work) { work.propose(); });
}

/// Local search on the branches' layouts. Branches of one stage per device then raise their bound
/// by bisection.
void ColumnSearch::improve(Batch batch, const Row& row) {
  const std::int64_t most = judge_.effort().left / row.parts;
  work_on(batch, [&](ColumnWork& work) { work.improve(most); });
  for (ColumnBranch* branch : batch) {
    if (has_chain_bounds(branch->setting) && is_open(*branch) && !stops()) narrow(*branch);
  }
}

void ColumnSearch::anneal(Batch batch, const Row& row) {
  const std::int64_t effort = judge_.effort().left / row.parts;
  work_on(batch, [&](ColumnWork& work) { work.anneal(effort); });
}

void ColumnSearch::raise(Batch batch, const Row& row) {
  work_on(batch, [&](ColumnWork& work) { work.raise(row.rounds); });
}

/// Whether the remaining effort is far too little for the branches that are left. Then the overall
/// bound, which is the lowest of all branches, cannot rise.
bool ColumnSearch::are_too_many(const Worked& worked) {
  constexpr std::size_t enough_to_tell = 64;
  constexpr double far_more = 2;
  if (worked.parts < enough_to_tell) return false;
  const double each = static_cast<double>(worked.spent) / static_cast<double>(worked.parts);
  return each * static_cast<double>(worked.left) >
         far_more * static_cast<double>(judge_.effort().left);
}

bool ColumnSearch::are_too_many_to_prove(const Worked& worked) {
  may_prove_ = may_prove_ && !are_too_many(worked);
  return !may_prove_;
}

/// Raises bounds by proofs, each with a small share of the effort; longer proofs come later
/// (`prove_lowest`).
void ColumnSearch::climb(Batch batch, const Row& row) {
  const std::int64_t share = judge_.effort().left / row.parts;
  work_on(batch, [&](ColumnWork& work) { work.climb(share); });
}

/// Enumerates the layouts that path bounds do not rule out, if layers are not blocks: if memory is
/// tight, all balanced layouts may be too large, and no multipliers close the gap.
void ColumnSearch::walk(Batch batch, const Row& row) {
  const std::int64_t share = share_of_each(judge_.effort().left, row.parts, batch.size());
  judge_side_by_side(workers_, judge_, batch.size(), share,
                     [&](const Space& space, Judge& judge, std::size_t i) {
                       ColumnWalk(space, judge, *batch[i]).walk(row.rounds);
                     });
}

/// Raises the bound by bisection until it meets the incumbent, and tries the chains found on the
/// way. Does nothing if one probe would exceed the effort.
void ColumnSearch::narrow(ColumnBranch& branch) {
  const std::int64_t layers = space_.layers();
  const std::int64_t steps = layers * layers * std::min<std::int64_t>(layers, most_per_range);
  if (steps > judge_.effort().left) return;
  FastClock clock(space_, branch.setting);
  clock.keep_free(branch.kept_free);
  ChainBounds bounds(space_, branch.setting);
  const int depth = *branch.setting.depth;
  const auto probe = [&](Time limit) {
    judge_.effort().spend(steps);
    if (!bounds.probe(limit, control_.stop)) return false;
    if (!bounds.is_open(depth)) return true;  // stopped
    // The bounds ignore constraints on fixed stages, so the chain is checked against them.
    const Layout chain = bounds.best_layout(depth);
    if (is_allowed(space_, branch.setting, chain)) {
      judge(branch, clock, chain);
    }
    return true;
  };
  const Time high = std::min(judge_.limit(), never - 1);
  if (!probe(high)) {
    branch.raise_to(high + 1, relaxation::neighbours);
    return;
  }
  const auto goes_on = [&](Time least, Time& top) {
    branch.raise_to(least, relaxation::neighbours);
    top = std::min(top, judge_.limit());
    return !stops() && top - least > top / narrow_parts;
  };
  raise_by_bisection(branch.least, high, goes_on, probe);
}

std::span<const ColumnSearch::Row> ColumnSearch::agenda() {
  using enum MethodKind;
  using Self = ColumnSearch;
  using Applies = bool (Self::*)() const;
  using Choose = Branches (Self::*)();
  using GivesUp = bool (Self::*)(const Worked&);
  constexpr auto cut_by_cut = [](Applies applies, std::size_t most, std::int64_t parts) {
    return Row{.kind = propose,
               .name = "cut by cut",
               .applies = applies,
               .choose = &Self::open_branches,
               .work = &Self::improve,
               .most = most,
               .at_once = 4,
               .parts = parts};
  };
  constexpr auto annealing = [](std::size_t most) {
    return Row{.kind = propose,
               .name = "annealing",
               .choose = &Self::far_from_their_bound,
               .work = &Self::anneal,
               .most = most,
               .at_once = most,
               .parts = 24};
  };
  constexpr auto paths = [](Applies applies, int rounds, GivesUp gives_up) {
    return Row{.kind = relax,
               .name = "paths",
               .applies = applies,
               .choose = &Self::open_branches,
               .work = &Self::raise,
               .gives_up = gives_up,
               .at_once = 8,
               .rounds = rounds};
  };
  constexpr auto walk = [](Applies applies, Choose choose, std::int64_t parts, int rounds) {
    return Row{.kind = enumerate,
               .name = "walk",
               .applies = applies,
               .choose = choose,
               .work = &Self::walk,
               .at_once = 2,
               .parts = parts,
               .rounds = rounds};
  };
  constexpr Row let_go{.name = "those done with", .whole = &Self::let_go_of_closed};
  constexpr std::size_t few = 8, all = std::numeric_limits<std::size_t>::max();
  static constexpr std::array rows{
      // While no plan fits, most branches cannot hold any: a bound on memory shows this sooner than
      // trying plans.
      Row{.kind = relax,
          .name = "what has no room",
          .applies = &Self::has_no_limit,
          .choose = &Self::all_by_least,
          .work = &Self::raise,
          .gives_up = &Self::has_limit_or_too_many,
          .at_once = 8,
          .rounds = 3},
      Row{.kind = propose,
          .name = "balanced pipelines",
          .choose = &Self::all_by_least,
          .work = &Self::propose,
          .at_once = 16,
          .begins_with_one = true,
          .ignores_gap = true},
      let_go,
      // The best few first: better incumbents rule other branches out.
      cut_by_cut(nullptr, few, 32),
      paths(nullptr, 3, &Self::are_too_many_to_prove),
      let_go,
      // Enumeration over many stages seldom completes, so it is only tried for few.
      walk(&Self::may_prove, &Self::open_of_few_stages, 16, 10),
      paths(&Self::may_prove, 30, &Self::are_too_many),
      // Without an incumbent, one enumeration of each branch is enough.
      walk(&Self::may_prove_limit, &Self::open_of_few_stages, 8, 60),
      // Better incumbents make proofs easier, so annealing comes before them, and again for the
      // branches that proofs leave open.
      annealing(2),
      Row{.kind = enumerate,
          .name = "proofs up to a limit",
          .applies = &Self::may_prove,
          .choose = &Self::open_by_least,
          .work = &Self::climb,
          .at_once = 4,
          .parts = 32},
      annealing(6),
      paths(&Self::may_prove, 120, &Self::are_too_many),
      paths(&Self::may_prove_thoroughly, 1000, &Self::are_too_many),
      cut_by_cut(&Self::may_prove, all, 4),
      // If the effort cannot raise all bounds, it is spent on the plans of a few branches.
      cut_by_cut(&Self::may_not_prove, few, 4),
      // Enumerates again, with the better cutoff that is known by now.
      walk(&Self::may_prove_limit, &Self::open_of_any_stages, 2, 60),
      Row{.kind = enumerate,
          .name = "proofs of the lowest",
          .applies = &Self::may_prove,
          .whole = &Self::prove_lowest},
  };
  return rows;
}

void ColumnSearch::search(std::function<void()> report) {
  report_ = std::move(report);
  given_ = judge_.effort().left;
  carry_out(*this, agenda());
}

// --- Which branches ---

/// All branches, those of the lowest bounds first.
ColumnSearch::Branches ColumnSearch::all_by_least() {
  std::ranges::stable_sort(branches_, {}, &ColumnBranch::least);
  Branches branches;
  for (ColumnBranch& branch : branches_) branches.push_back(&branch);
  return branches;
}

/// Open branches by the step of their best layout; of equal ones, the lower bound first.
ColumnSearch::Branches ColumnSearch::open_branches() {
  Branches open;
  for (ColumnBranch& branch : branches_) {
    if (is_open(branch)) open.push_back(&branch);
  }
  std::ranges::stable_sort(open, {}, &ColumnBranch::step);
  return open;
}

/// Open branches, those of the lowest bounds first.
ColumnSearch::Branches ColumnSearch::open_by_least() {
  Branches branches = open_branches();
  std::ranges::stable_sort(branches, {}, &ColumnBranch::least);
  return branches;
}

/// Open branches whose layers are not blocks.
ColumnSearch::Branches ColumnSearch::open_of_other_layers(int most_stages) {
  Branches branches = open_by_least();
  std::erase_if(branches, [&](const ColumnBranch* branch) {
    const Setting& setting = branch->setting;
    return BlockPacking::applies(space_, setting) ||
           *setting.depth * setting.schedule.virtual_stages > most_stages;
  });
  return branches;
}

ColumnSearch::Branches ColumnSearch::open_of_few_stages() {
  constexpr int few = 24;
  return open_of_other_layers(few);
}

/// The most promising open branches, by their bound and by the step of their best layout. Branches
/// whose bound is near the incumbent are left to proofs.
ColumnSearch::Branches ColumnSearch::far_from_their_bound() {
  constexpr double far = 0.98, far_again = 0.96;
  Branches branches = open_by_least();
  const auto limit = static_cast<double>(judge_.limit());
  std::erase_if(branches, [&](const ColumnBranch* branch) {
    const double part = branch->annealings == 0 ? far : far_again;
    return static_cast<double>(branch->least) > part * limit;
  });
  std::ranges::stable_sort(branches, {}, [](const ColumnBranch* branch) {
    return std::min(branch->least, never / 4) + std::min(branch->step, never / 4);
  });
  return branches;
}

}  // namespace stagecraft
