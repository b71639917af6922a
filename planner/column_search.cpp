#include "planner/column_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/layouts.hpp"
#include "planner/path_bound.hpp"
#include "simulator/schedules.hpp"

namespace stagecraft {

namespace {

/// Bisection of a branch's bound stops within this part of the best step.
constexpr Time narrow_parts = 1000;

}  // namespace

bool is_chain(const Setting& setting) {
  const auto generate = find_schedule(setting.schedule.name).generate;
  const bool known = generate == gpipe || generate == one_f_one_b || generate == interleaved;
  return known && setting.schedule.virtual_stages == 1;
}

bool is_wide(const Space& space, const Setting& setting) {
  constexpr int most_devices_walked = 16;
  constexpr double most = 5e6;  // entries of the tables of one probe (planner/bounds.hpp)
  const double devices = space.devices(setting), layers = space.layers();
  const double entries = devices * devices * devices * layers * layers / 4;
  return space.devices(setting) > most_devices_walked || entries > most;
}

ColumnSearch::ColumnSearch(const Space& space, const SearchControl& control, Judge& judge)
    : space_(space), control_(control), judge_(judge), bounds_(space) {}

void ColumnSearch::add(const Setting& setting) {
  for (Setting& column : space_.columns(setting)) {
    const Time least = bounds_.bound(column);
    if (least >= never) continue;  // it cannot hold its parameters
    branches_.push_back(
        {.setting = std::move(column), .least = least, .step = never, .layout = {}});
  }
}

bool ColumnSearch::is_open(const Branch& branch) const {
  return branch.least <= std::min(judge_.limit(), never - 1);
}

Time ColumnSearch::least() const {
  Time least = never;
  for (const Branch& branch : branches_) least = std::min(least, branch.least);
  return least;
}

std::size_t ColumnSearch::done() const {
  return static_cast<std::size_t>(std::count_if(
      branches_.begin(), branches_.end(), [&](const Branch& branch) { return !is_open(branch); }));
}

double ColumnSearch::gap() const {
  const auto best = judge_.board().best();
  if (!best || best->count() == 0) return 1;
  const Time least = std::min(this->least(), best->count());
  return static_cast<double>(best->count() - least) / static_cast<double>(best->count());
}

/// Balanced pipelines, by stages and by devices.
std::vector<Layout> ColumnSearch::proposals(const Setting& setting,
                                            const std::vector<int>& replicas) const {
  std::vector<Layout> layouts{balanced(space_, setting, replicas)};
  if (setting.schedule.virtual_stages == 1) return layouts;
  // Of what is in flight, a device's first stages have most: later ones had better be larger.
  for (const double tilt : {0.0, 0.1, 0.3, 0.6}) {
    layouts.push_back(balanced_devices(space_, setting, replicas, tilt));
  }
  return layouts;
}

/// A balanced pipeline that fits, unless whole blocks show that none is of use.
void ColumnSearch::propose(Branch& branch) {
  const std::vector<int> replicas(static_cast<std::size_t>(*branch.setting.depth), 1);
  FastClock clock(space_, branch.setting);
  const TimedOrder* order = clock.order_for(replicas);
  if (order == nullptr) {
    branch.least = never;  // the schedule refuses the shape: there are no such plans
    return;
  }
  judge_.effort().spend(8 * static_cast<std::int64_t>(order->order.size()));
  if (judge_.limit() < never) pack(branch, clock, *order);
  if (!is_open(branch)) return;
  judge_.effort().spend(std::int64_t{60} * *branch.setting.depth * branch.setting.microbatches *
                        branch.setting.schedule.virtual_stages);
  for (const Layout& layout : proposals(branch.setting, replicas)) {
    for (const auto& fitting : {made_to_fit(clock, branch.setting, layout),
                                recomputed_to_fit(clock, space_, branch.setting, layout)}) {
      if (!fitting || !is_allowed(space_, branch.setting, *fitting)) continue;
      const Time step = clock.step(*fitting);
      if (step >= branch.step) continue;
      branch.step = step;
      branch.layout = *fitting;
    }
  }
  if (branch.step < judge_.limit()) {
    judge_.consider_once(clock, branch.setting, branch.layout);
  }
}

/// With so much of the effort at most.
void ColumnSearch::improve(Branch& branch, std::int64_t most) {
  FastClock clock(space_, branch.setting);
  if (branch.step < never) {
    Effort part{.left = most};
    branch.layout =
        stagecraft::improve(clock, space_, branch.setting, std::move(branch.layout), part);
    branch.step = clock.step(branch.layout);
    judge_.effort().spend(most - part.left);
    judge_.consider_once(clock, branch.setting, branch.layout);
  }
  if (is_chain(branch.setting)) narrow(branch, clock);
}

/// Raises the bound until it meets the best plan, or until what is left is a plan to try.
void ColumnSearch::narrow(Branch& branch, FastClock& clock) {
  ChainBounds bounds(space_, branch.setting);
  const int depth = *branch.setting.depth;
  const auto probe = [&](Time limit) {
    judge_.effort().spend(std::int64_t{4} * depth * space_.layers() * space_.layers() / depth *
                          space_.layers() / 4);
    if (!bounds.probe(limit)) return false;
    judge_.consider_once(clock, branch.setting, bounds.best_chain(depth));
    return true;
  };
  Time high = std::min(judge_.limit(), never - 1);
  if (!probe(high)) {
    branch.least = high + 1;
    return;
  }
  while (!stops() && is_open(branch)) {
    high = std::min(high, judge_.limit());
    if (high - branch.least <= high / narrow_parts) break;
    const Time middle = branch.least + (high - branch.least) / 2;
    if (probe(middle)) {
      high = middle;
    } else {
      branch.least = middle + 1;
    }
  }
}

/// Takes a layout that may fit, if it is the branch's best so far.
void ColumnSearch::consider(Branch& branch, FastClock& clock, const Layout& layout) {
  if (!may_fit(clock, layout) || !is_allowed(space_, branch.setting, layout)) return;
  const Time step = clock.step(layout);
  if (step >= branch.step) return;
  branch.step = step;
  branch.layout = layout;
  if (step <= judge_.limit()) judge_.consider_once(clock, branch.setting, layout);
}

/// Raises the bound by whole blocks, where the layers are blocks, and by paths, in so many rounds;
/// the layouts they come across are tried.
void ColumnSearch::raise(Branch& branch, int rounds) {
  FastClock clock(space_, branch.setting);
  const std::vector<int> replicas(static_cast<std::size_t>(*branch.setting.depth), 1);
  const TimedOrder* order = clock.order_for(replicas);
  if (order == nullptr) return;
  const std::optional<BlockPacking> packing = pack(branch, clock, *order);
  if (!is_open(branch)) return;
  // With the limit of the packing: what has been found since is better.
  const Time limit = packing ? packing->limit() : std::min(judge_.limit(), never - 1);
  PathBound bound(space_, branch.setting, *order, limit, packing ? &*packing : nullptr);
  if (branch.step < never) bound.start_from(branch.layout);
  const auto visit = [&](const Layout& layout) { consider(branch, clock, layout); };
  judge_.effort().spend(bound.raise(rounds, limit, visit) * bound.steps_per_round());
  branch.least = std::max(branch.least, bound.bound());
}

/// Raises the bound by ruling out how many blocks devices have: to a little below the best plan,
/// then closer to it, as long as that works and takes no more than this share of the effort.
void ColumnSearch::probe(Branch& branch, std::int64_t share) {
  constexpr std::array parts{0.88, 0.92, 0.95, 0.97, 0.98, 0.99, 1.0};
  constexpr int rounds = 24;
  FastClock clock(space_, branch.setting);
  const std::vector<int> replicas(static_cast<std::size_t>(*branch.setting.depth), 1);
  const TimedOrder* order = clock.order_for(replicas);
  if (order == nullptr || !BlockPacking::applies(space_, branch.setting)) return;
  const auto visit = [&](const Layout& layout) { consider(branch, clock, layout); };
  for (const double part : parts) {
    const Time best = std::min(judge_.limit(), never / 2);
    const Time limit = static_cast<Time>(part * static_cast<double>(best));
    if (limit <= branch.least) continue;
    const BlockPacking packing(space_, branch.setting, *order, limit);
    PathBound bound(space_, branch.setting, *order, limit, &packing);
    const auto most = static_cast<int>(share / 2 / bound.steps_per_round());
    if (most < rounds) return;
    if (branch.step < never) bound.start_from(branch.layout);
    int taken = bound.raise(rounds, limit, visit);
    if (bound.bound() <= limit) taken += bound.rule_out(rounds, most);
    if (bound.bound() <= limit) taken += bound.raise(3 * rounds, limit, visit);
    judge_.effort().spend(taken * bound.steps_per_round());
    share -= taken * bound.steps_per_round();
    branch.least = std::max(branch.least, bound.bound());
    if (branch.least <= limit || stops()) return;
  }
}

/// Those of the lowest bounds first: they are how far the answer may be off.
void ColumnSearch::probe_all(const std::function<void()>& report) {
  std::vector<Branch*> open = open_branches();
  std::stable_sort(open.begin(), open.end(),
                   [](const Branch* a, const Branch* b) { return a->least < b->least; });
  auto left = static_cast<std::int64_t>(open.size());
  for (Branch* branch : open) {
    if (stops() || gap() <= control_.gap) break;
    if (is_open(*branch)) probe(*branch, judge_.effort().left / (left + 1));
    --left;
    report();
  }
}

/// Raises the bound to what whole blocks allow, where the layers are blocks.
std::optional<BlockPacking> ColumnSearch::pack(Branch& branch, FastClock& clock,
                                               const TimedOrder& order) {
  if (!BlockPacking::applies(space_, branch.setting)) return {};
  const Time limit = std::min(judge_.limit(), never - 1);
  BlockPacking packing(space_, branch.setting, order, limit);
  judge_.effort().spend(20'000);
  branch.least = std::max(branch.least, packing.bound());
  if (packing.layout()) consider(branch, clock, *packing.layout());
  return packing;
}

void ColumnSearch::search(const std::function<void()>& report) {
  std::stable_sort(branches_.begin(), branches_.end(),
                   [](const Branch& a, const Branch& b) { return a.least < b.least; });
  int turn = 0;
  for (Branch& branch : branches_) {
    if (stops() || !is_open(branch)) break;
    const bool had_any = judge_.board().best().has_value();
    propose(branch);
    const bool is_first = !had_any && judge_.board().best();
    if (++turn % 64 == 0 || is_first) report();
  }
  // The best few first: what they reach rules others out.
  constexpr std::size_t most_early = 8;
  const std::vector<Branch*> early = open_branches();
  for (std::size_t i = 0; i < std::min(early.size(), most_early) && !stops(); ++i) {
    improve(*early[i], judge_.effort().left / 32);
  }
  report();
  const auto raise_all = [&](int rounds) {
    for (Branch* branch : open_branches()) {
      if (stops() || gap() <= control_.gap) break;
      if (is_open(*branch)) raise(*branch, rounds);
      if (++turn % 64 == 0) report();
    }
  };
  for (const int rounds : {3, 30}) raise_all(rounds);
  probe_all(report);
  for (const int rounds : {120, 1000}) {
    if (rounds == 120 || control_.thorough) raise_all(rounds);
  }
  for (Branch* branch : open_branches()) {
    if (stops() || gap() <= control_.gap) break;
    if (!is_open(*branch)) continue;
    improve(*branch, judge_.effort().left / 4);
    report();
  }
}

/// By what they promise; the bound decides between equals.
std::vector<ColumnSearch::Branch*> ColumnSearch::open_branches() {
  std::vector<Branch*> open;
  for (Branch& branch : branches_) {
    if (is_open(branch)) open.push_back(&branch);
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const Branch* a, const Branch* b) { return a->step < b->step; });
  return open;
}

}  // namespace stagecraft
