#include "planner/search/column_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/layouts/annealing.hpp"
#include "planner/layouts/recompute_ways.hpp"
#include "planner/layouts/tightest.hpp"
#include "planner/relaxations/path_bound.hpp"

namespace stagecraft {

namespace {

/// The cutoff at this part of the incumbent's step, rounded up: once no plan takes at most the
/// cutoff, the gap is at most 1 - part. A cutoff one nanosecond lower would not give that gap.
Time part_of(Time best, double part) {
  const double aim = part * static_cast<double>(best);
  return std::min(best, static_cast<Time>(std::ceil(aim)) + 1);
}

}  // namespace

std::optional<Time> ColumnBranch::next_limit(Time best) const {
  constexpr std::array parts{0.99, 1.0};
  constexpr Time wide_parts = 40, narrow_parts = 500;
  best = std::min(best, never / 2);
  for (const double part : parts) {
    const Time limit = std::min(part_of(best, part), least + best / wide_parts);
    if (limit <= least) continue;
    if (limit < too_far) return limit;
    const Time half = (too_far - least) / 2;
    if (half < best / narrow_parts) return {};
    return least + half;
  }
  return {};
}

ColumnWork::ColumnWork(const Space& space, const std::stop_token& stop, ColumnBranch& branch,
                       Time limit)
    : space_(space),
      stop_(stop),
      branch_(branch),
      limit_(limit),
      replicas_(static_cast<std::size_t>(*branch.setting.depth), 1),
      clock_(space, branch.setting),
      order_(clock_.order_for(replicas_)) {
  clock_.keep_free(branch_.kept_free);
  if (order_ != nullptr)
    findings_.spent = 4000 + 2 * static_cast<std::int64_t>(order_->order.size());
}

/// Balanced pipelines: equal time per stage, and equal time per device.
std::vector<Layout> ColumnWork::proposals() const {
  const Setting& setting = branch_.setting;
  std::vector<Layout> layouts{balanced(space_, setting, replicas_)};
  if (setting.schedule.virtual_stages == 1) return layouts;
  // A device's first stages hold the most microbatches in flight, so its later stages should be
  // larger.
  for (const double tilt : {0.0, 0.1, 0.3, 0.6}) {
    layouts.push_back(balanced_devices(space_, setting, replicas_, tilt));
  }
  return layouts;
}

/// Whether a layout is allowed, may fit, and is the branch's best so far.
bool ColumnWork::take_if_better(const Layout& layout) {
  if (!may_fit(clock_, layout) || !is_allowed(space_, branch_.setting, layout)) return false;
  const Time step = clock_.step(layout);
  if (step >= branch_.step) return false;
  branch_.step = step;
  branch_.layout = layout;
  return true;
}

/// With recomputation per layer: keeps the cuts for the judge, who chooses recomputation, if the
/// layout without recomputation is within the cutoff.
void ColumnWork::consider_layers_again(Layout layout) {
  layout.recompute.assign(layout.recompute.size(), Recompute::none);
  const auto has_its_cuts = [&](const Layout& other) { return other.cuts == layout.cuts; };
  if (std::ranges::any_of(findings_.layouts, has_its_cuts)) return;
  if (!is_allowed(space_, branch_.setting, layout) || clock_.step(layout) > limit_) return;
  findings_.layouts.push_back(std::move(layout));
}

/// Tries a layout. Returns whether the branch's best layout is now at least as fast as this one.
bool ColumnWork::consider(const Layout& layout) {
  if (space_.layers_choose()) {
    consider_layers_again(layout);
    return false;
  }
  // Simulations have shown that such layouts need more memory than the bounds count.
  if (!branch_.kept_free.empty() && !may_fit(clock_, layout)) {
    constexpr std::int64_t most = 1'000'000;
    Effort effort{.left = most, .stop = stop_};
    const auto fitting = repaired(clock_, space_, branch_.setting, layout, effort);
    findings_.spent += most - effort.left;
    if (fitting && take_if_better(*fitting) && branch_.step <= limit_)
      findings_.layouts.push_back(*fitting);
  }
  if (take_if_better(layout) && branch_.step <= limit_) findings_.layouts.push_back(layout);
  return branch_.step <= clock_.step(layout);
}

/// Raises the bound by the knapsack of blocks, if the layers are blocks.
std::optional<BlockPacking> ColumnWork::pack() {
  if (!BlockPacking::applies(space_, branch_.setting)) return {};
  BlockPacking packing(space_, branch_.setting, *order_, std::min(limit_, never - 1));
  branch_.raise_to(packing.bound(), relaxation::blocks);
  if (packing.layout()) consider(*packing.layout());
  return packing;
}

void ColumnWork::charge(const std::optional<BlockPacking>& packing) {
  if (packing) findings_.spent += packing->spent();
}

void ColumnWork::propose() {
  if (order_ == nullptr) {
    branch_.least = never;  // the schedule does not accept the shape
    return;
  }
  const Setting& setting = branch_.setting;
  if (limit_ < never) charge(pack());
  if (!is_open()) return;
  findings_.spent +=
      std::int64_t{40} * *setting.depth * setting.microbatches * setting.schedule.virtual_stages;
  bool is_better = false;
  for (const Layout& layout : proposals()) {
    for (const auto& fitting : {made_to_fit(clock_, setting, layout),
                                recomputed_to_fit(clock_, space_, setting, layout)}) {
      if (fitting) is_better = take_if_better(*fitting) || is_better;
    }
  }
  if (branch_.step == never && limit_ >= never) is_better = propose_tightest() || is_better;
  if (is_better && branch_.step < limit_) findings_.layouts.push_back(branch_.layout);
}

/// Proposes the layout of minimum memory, if no balanced pipeline fits and there is no incumbent.
bool ColumnWork::propose_tightest() {
  constexpr std::int64_t most = 500'000;
  Effort effort{.left = most, .stop = stop_};
  const auto found = tightest(clock_, space_, branch_.setting, replicas_, 1, effort);
  findings_.spent += most - effort.left;
  return found && take_if_better(found->layout);
}

void ColumnWork::improve(std::int64_t most) {
  if (branch_.step >= never) return;
  Effort part{.left = most, .stop = stop_};
  branch_.layout =
      stagecraft::improve(clock_, space_, branch_.setting, std::move(branch_.layout), part);
  branch_.step = clock_.step(branch_.layout);
  findings_.spent += most - part.left;
  findings_.layouts.push_back(branch_.layout);
}

void ColumnWork::anneal(std::int64_t most) {
  if (branch_.step >= never || has_chain_bounds(branch_.setting)) return;
  constexpr double hot = 0.02, warm = 0.003;
  constexpr int times = 2;
  std::int64_t left = most;
  const auto anneal_from = [&](const Layout& start, double heat, unsigned seed, int parts) {
    Effort part{.left = left / parts, .stop = stop_};
    left -= part.left;
    const std::int64_t share = part.left;
    const Layout layout =
        stagecraft::anneal(clock_, space_, branch_.setting, start, heat, seed, part);
    findings_.spent += share - part.left;
    consider(layout);
  };
  const auto flat = best_of_two_sizes();
  unsigned seed = 4 * branch_.annealings + 1;
  anneal_from(branch_.layout, branch_.annealings == 0 ? hot : warm, seed, flat ? times + 1 : 1);
  // The start is near a good shape already: low temperature, several attempts.
  for (int time = 0; flat && time < times; ++time) anneal_from(*flat, warm, seed++, times - time);
  ++branch_.annealings;
}

/// If layers are blocks, the best layout with stages of two sizes, a good start for annealing;
/// nothing if none fits.
std::optional<Layout> ColumnWork::best_of_two_sizes() {
  if (!BlockPacking::applies(space_, branch_.setting)) return {};
  constexpr std::int64_t steps_per_device = 2000;
  std::optional<Layout> best;
  Time least = never;
  for (const Layout& layout :
       layouts_of_two_sizes(space_, branch_.setting, *branch_.setting.depth)) {
    findings_.spent += steps_per_device * layout.pipeline_devices();
    auto fitting = recomputed_to_fit(clock_, space_, branch_.setting, layout);
    if (!fitting || !is_allowed(space_, branch_.setting, *fitting)) continue;
    const Time step = clock_.step(*fitting);
    if (step >= least) continue;
    least = step;
    best = std::move(fitting);
  }
  return best;
}

void ColumnWork::raise(int rounds) {
  if (order_ == nullptr) {
    branch_.least = never;  // the schedule does not accept the shape
    return;
  }
  const std::optional<BlockPacking> packing = pack();
  if (is_open() && !(packing && raise_blocks(rounds, *packing))) raise_paths(rounds, packing);
  charge(packing);
}

/// Raises the bound by `BlockBound`. Returns false if the stages have too many choices for it.
bool ColumnWork::raise_blocks(int rounds, const BlockPacking& packing) {
  return bound_blocks(packing, [&](BlockBound& bound) { bound.raise(rounds, stop_); });
}

bool ColumnWork::bound_blocks(const BlockPacking& packing,
                              const std::function<void(BlockBound& bound)>& raise) {
  BlockBound bound(space_, branch_.setting, *order_, packing,
                   [&](const Layout& layout) { return consider(layout); });
  if (!bound.knows_choices()) return false;
  if (branch_.step < never) bound.start_from(branch_.layout);
  bound.know(branch_.paths);
  raise(bound);
  if (const auto mean = bound.mean_layout()) {
    const auto fitting = recomputed_to_fit(clock_, space_, branch_.setting, *mean);
    if (fitting) consider(*fitting);
  }
  branch_.paths = bound.useful_paths();
  findings_.spent += bound.spent();
  branch_.raise_to(bound.bound(), relaxation::paths_of_blocks);
  return true;
}

void ColumnWork::raise_paths(int rounds, const std::optional<BlockPacking>& packing) {
  if (!PathBound::applies(space_)) return;
  const Time limit = packing ? packing->limit() : std::min(limit_, never - 1);
  PathBound bound(space_, branch_.setting, *order_, limit, packing ? &*packing : nullptr);
  if (branch_.step < never) bound.start_from(branch_.layout);
  bound.know(branch_.paths);
  // Without an incumbent, first find out whether memory allows any layout.
  if (limit_ >= never && !branch_.has_asked_moments) {
    const bool is_always_full = bound.is_always_full();
    branch_.has_asked_moments = true;
    if (is_always_full) {
      findings_.spent += bound.spent();
      return branch_.raise_to(never, relaxation::paths);
    }
  }
  bound.raise(
      rounds, never, [&](const Layout& layout) { consider(layout); }, stop_);
  branch_.paths = bound.useful_paths();
  findings_.spent += bound.spent();
  branch_.raise_to(bound.bound(), relaxation::paths);
}

void ColumnWork::climb(std::int64_t share) {
  constexpr std::array parts{0.9, 0.95, 0.975, 0.99, 1.0};
  if (order_ == nullptr || !BlockPacking::applies(space_, branch_.setting)) return;
  const Time best = std::min(limit_, never / 2);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Time limit = part_of(best, parts[p]);
    if (limit <= branch_.least) continue;
    const std::int64_t before = findings_.spent;
    prove_below(limit, share,
                [&](BlockBound& bound, std::int64_t effort) { bound.prove(effort, stop_); });
    const std::int64_t spent = findings_.spent - before;
    share -= spent;
    if (branch_.least <= limit || share <= 0 || stop_.stop_requested()) return;
    // The next one is some two times as much work, that after it four times: as many are passed
    // over as half of the share allows.
    for (std::int64_t next = 4 * spent; p + 2 < parts.size() && next < share / 2; next *= 2) ++p;
  }
}

void ColumnWork::begin_proof(Time limit, std::int64_t share) {
  if (order_ == nullptr || !BlockPacking::applies(space_, branch_.setting)) return;
  prove_below(limit, share, [&](BlockBound& bound, std::int64_t effort) {
    auto cases = bound.begin_proof(effort, stop_);
    if (!cases) {
      branch_.too_far = limit;
    } else if (!cases->empty()) {
      branch_.proof = {.limit = limit, .cases = *std::move(cases), .least = bound.least_found()};
    }
  });
}

void ColumnWork::prove_case(std::int64_t share) {
  ColumnProof& proof = *branch_.proof;
  const BlockPacking packing(space_, branch_.setting, *order_, proof.limit);
  BlockBound bound(space_, branch_.setting, *order_, packing,
                   [&](const Layout& layout) { return consider(layout); });
  bound.start_from(branch_.layout);
  bound.know(branch_.paths);
  proof.is_too_long = !bound.prove_case(proof.cases.front(), share, stop_);
  proof.least = bound.bound();
  proof.cases.clear();
  findings_.spent += packing.spent() + bound.spent();
}

/// Proves that no layout takes at most this limit, unless the knapsack of blocks shows it already.
void ColumnWork::prove_below(Time limit, std::int64_t share, const Prove& prove) {
  constexpr int rounds = 300;
  const std::int64_t last = findings_.spent + share;
  const BlockPacking packing(space_, branch_.setting, *order_, limit);
  branch_.raise_to(packing.bound(), relaxation::blocks);
  const auto raise = [&](BlockBound& bound) {
    bound.raise(rounds, stop_);
    prove(bound, last - findings_.spent - packing.spent() - bound.spent());
  };
  if (branch_.least <= limit && !bound_blocks(packing, raise)) branch_.too_far = limit;
  findings_.spent += packing.spent();
}

}  // namespace stagecraft
