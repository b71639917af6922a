#include "planner/relaxations/block_weights.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/layouts/layouts.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Rounding of the sums must not lift the bound.
constexpr double safe = 1 - 1e-9;

/// Maximum number of critical paths of mean layouts that one game adds. If many are equally long,
/// even thousands would hardly improve the value.
constexpr int most_paths = 20;

}  // namespace

BlockWeights::BlockWeights(const Space& space, const Setting& setting, const TimedOrder& order,
                           const BlockPacking& packing, Visit visit)
    : space_(space),
      setting_(setting),
      order_(order),
      packing_(packing),
      visit_(std::move(visit)),
      costs_(space, setting, packing.limit()),
      passes_(costs_, order, setting.microbatches),
      limit_(static_cast<double>(packing.limit())),
      table_(costs_, order, packing),
      paths_(table_, costs_, limit_),
      sums_(table_) {
  domains = table_.domains();
}

void BlockWeights::add_path(PassCounts path) {
  paths_.add(std::move(path), games_);
  spend(paths_.take_steps());
}

void BlockWeights::know(const std::vector<PassCounts>& paths) {
  begin();
  for (const PassCounts& path : paths) add_path(path);
}

/// The initial paths: the longest through each device in a good layout, and those that pass all
/// work of a stage or of a device.
void BlockWeights::begin() {
  if (!paths_.all().empty()) return;
  const int depth = costs_.depth();
  if (start_.cuts.empty()) start_ = balanced(space_, setting_, std::vector<int>(index(depth), 1));
  // A good layout may have stages above the limit, so its costs are computed without one.
  const PipelineCosts unlimited(space_, setting_, never - 1);
  CriticalPasses passes(unlimited, order_, setting_.microbatches);
  for (int device = 0; device < depth; ++device) add_path(passes.through(device, start_));
  through_devices_ = paths_.all();
  for (const PathRef& path : through_devices_) best_.weights.push_back({path, 1.0 / depth});
  if (setting_.placement != StagePlacement::bidirectional) {
    for (const PassCounts& path : backward_paths(costs_, order_)) {
      add_path(path);
      through_stages_.push_back(paths_.latest());
    }
  }
  for (const PassCounts& path : device_paths(costs_, order_)) add_path(path);
  spend((depth + 2) * static_cast<std::int64_t>(order_.order.size()) / 2);
}

/// Whether layouts with this sum, in units of the limit, are above the cutoff.
bool BlockWeights::is_above(double sum) const {
  return safe * sum > worth() / limit_;
}

bool BlockWeights::weigh(const Weights& weights) {
  const double constant = sums_.list(weights, domains);
  spend(sums_.take_steps());
  return in_step_ != nullptr ? cover_in_step(constant) : cover(constant);
}

/// Finds the least sum without regard to neighbours, and removes choices whose layouts all have
/// sums above the cutoff.
bool BlockWeights::cover(double constant) {
  const bool is_any = sums_.cover(domains, costs_.layers() - 2, constant, least_);
  spend(sums_.take_steps());
  if (!is_any || is_above(least_.value)) return false;
  for (BlockNumbers& domain : domains) {
    std::erase_if(domain, [&](int c) {
      return is_above(constant + sums_.others(c) + sums_.of_choices()[index(c)]);
    });
  }
  return true;
}

/// Finds the least sum over layouts that the walk has left.
bool BlockWeights::cover_in_step(double constant) {
  const std::int64_t before = in_step_->spent();
  auto least = in_step_->cover(sums_.of_choices(), worth() / limit_ / safe - constant);
  spend(in_step_->spent() - before);
  if (!least) return false;
  domains = in_step_->left();
  least_ = std::move(*least);
  least_.value = constant + least_.value;
  return true;
}

BlockWalk::Lesson BlockWeights::learn(const BlockPairs& pairs,
                                      const std::vector<StageTimes>& stages) {
  double step = 0;
  add_path(passes_.of(stages, step));
  const BlockPath& path = *paths_.latest();
  std::vector<double> lengths;
  for (int c = 0; c < table_.size(); ++c) lengths.push_back(table_.sum_over_cells(c, path.lengths));
  return {.costs = pairs.by_devices(lengths),
          .most = worth() / limit_ / safe - path.constant,
          .spent = static_cast<std::int64_t>(order_.order.size()) / 2};
}

void BlockWeights::try_out(const BlockLayout& layout) {
  std::vector<const BlockChoice*> choices;
  for (const int c : layout) choices.push_back(&table_.what(c));
  const Layout whole = packing_.layout_of(choices);
  double step = 0;
  add_path(passes_.of(whole, step));
  timed_.layouts.insert(layout);
  spend(static_cast<std::int64_t>(order_.order.size()) / 2);
  if (step >= timed_.least) return;
  timed_.least = step;
  if (visit_(whole) && step <= worth()) timed_.best = step;
}

void BlockWeights::raise(int rounds, std::int64_t last, const std::stop_token& stop) {
  begin();
  constexpr double close = 1e-3;
  BlockGame seen;
  for (const BlockGame::Weight& own : best_.weights) take_part(seen, own.row);
  Weights weights = best_.weights, next;
  for (int round = 0; round < rounds && spent_ <= last && !stop.stop_requested(); ++round) {
    if (!weigh(weights)) {
      is_proved = true;
      return;
    }
    if (least_.value > best_.bound) best_ = {weights, least_.value};
    add(seen, least_.layout);
    drop_idle_paths();
    if (!timed_.layouts.contains(least_.layout)) {
      try_out(least_.layout);
      take_part(seen, paths_.latest());
    }
    if (play_with_paths(seen, next) < best_.bound + close) break;
    weights = BlockGame::half_way(best_.weights, next);
  }
  take_mean(seen);
}

void BlockWeights::take_mean(const BlockGame& seen) {
  mean_blocks_.assign(index(costs_.stages()), 0);
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    for (const int c : seen.layouts()[i]) {
      const std::vector<int>& stages = packing_.stages_of(table_.device_of(c));
      for (std::size_t turn = 0; turn < table_.turns(); ++turn) {
        const int blocks = table_.what(c).blocks[turn];
        mean_blocks_[index(stages[turn])] += seen.mixture()[i] * blocks;
      }
    }
  }
}

std::optional<Layout> BlockWeights::mean_layout() const {
  if (mean_blocks_.empty()) return {};
  const int stages = costs_.stages();
  Layout layout{
      .replicas = std::vector<int>(index(costs_.depth()), 1), .cuts = {0}, .recompute = {}};
  double sum = 1;  // the layer before the blocks
  for (int s = 0; s < stages; ++s) {
    sum += mean_blocks_[index(s)];
    const int first = layout.cuts.back() + 1, last = costs_.layers() - (stages - s - 1);
    layout.cuts.push_back(std::clamp(static_cast<int>(std::lround(sum)), first, last));
  }
  layout.cuts.back() = costs_.layers();
  layout.recompute.assign(index(stages), Recompute::none);
  return layout;
}

// --- Games of paths against layouts ---

void BlockWeights::take_part(BlockGame& seen, const PathRef& path) const {
  seen.take_part(path, [&](const BlockPath& own, const BlockLayout& layout) {
    return paths_.length(own, layout);
  });
}

bool BlockWeights::is_left(const BlockLayout& layout) const {
  for (std::size_t d = 0; d < domains.size(); ++d) {
    if (!std::ranges::binary_search(domains[d], layout[d])) return false;
  }
  return true;
}

void BlockWeights::add(BlockGame& seen, const BlockLayout& layout) const {
  seen.keep_if([&](const BlockLayout& own) {
    return in_step_ != nullptr ? in_step_->allows(own) : is_left(own);
  });
  seen.let_go_of_idle(games_);
  seen.add(layout, games_,
           [&](const BlockPath& path, const BlockLayout& own) { return paths_.length(path, own); });
}

/// Solves the game: sets the best weights for the layouts seen, and returns its value.
double BlockWeights::play(BlockGame& seen, Weights& weights) {
  const double value = seen.play(++games_, weights);
  spend(seen.take_steps());
  return value;
}

double BlockWeights::play_with_longest(BlockGame& seen, Weights& weights) {
  for (;;) {
    const double value = play(seen, weights);
    const PathRef path = paths_.longest_in_mixture(seen, value, games_);
    spend(paths_.take_steps());
    if (path == nullptr) return value;
    take_part(seen, path);
  }
}

/// Like `play_with_longest`, adding critical paths of mean layouts until the value is at least as
/// close to the optimum over all paths as to the bound.
double BlockWeights::play_with_paths(BlockGame& seen, Weights& weights) {
  constexpr double tiny = 1e-5, part = 4;
  double value = play_with_longest(seen, weights);
  for (int paths = 0; paths < most_paths; ++paths) {
    double step = 0;
    const PathRef path = path_of_mean(seen, step);
    if (step < value + std::max((value - best_.bound) / part, tiny)) break;
    take_part(seen, path);
    value = play_with_longest(seen, weights);
  }
  return value;
}

bool BlockWeights::play_fully(BlockGame& seen, Weights& weights) {
  const double limit = worth() / limit_;
  for (int paths = 0; play_with_longest(seen, weights) <= limit; ++paths) {
    double step = 0;
    const PathRef path = path_of_mean(seen, step);
    if (step <= limit || paths == most_paths) return false;
    take_part(seen, path);
  }
  return true;
}

/// The critical path of the latest game's mean layout. `step` becomes its length there, in units of
/// the limit.
BlockWeights::PathRef BlockWeights::path_of_mean(const BlockGame& seen, double& step) {
  std::vector<StageTimes> mean(index(costs_.stages()));
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    if (seen.mixture()[i] == 0) continue;
    for (const int c : seen.layouts()[i]) {
      for (const int cell : table_.cells_of(c)) {
        const BlockCell& own = table_.cells()[index(cell)];
        mean[index(own.stage)].add(StageTimes::of(*own.costs, own.again), seen.mixture()[i]);
      }
    }
  }
  add_path(passes_.of(mean, step));
  step /= limit_;
  spend(static_cast<std::int64_t>(order_.order.size()) / 2);
  return paths_.latest();
}

// --- What is known ---

Time BlockWeights::least_found() const {
  if (timed_.least > limit_) return packing_.limit() + 1;
  return static_cast<Time>(std::floor(timed_.least));
}

Time BlockWeights::bound() const {
  if (is_proved) return least_found();
  if (safe * best_.bound > 1) return packing_.limit() + 1;
  return static_cast<Time>(std::floor(safe * best_.bound * limit_));
}

}  // namespace stagecraft
