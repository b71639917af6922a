// The bound by paths where layers are alike blocks.

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

#include "planner/block_cover.hpp"
#include "planner/path_bound.hpp"

namespace stagecraft {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

int blocks_of(const BlockChoice& choice) {
  return std::accumulate(choice.blocks.begin(), choice.blocks.end(), 0);
}

}  // namespace

/// All cuts: where blocks are alike, so are the messages between them.
double PathBound::cut_costs() const {
  double sum = 0;
  for (int s = 0; s + 1 < costs_.stages(); ++s) {
    sum += time_of(weights_[index(s)].passes, costs_.cut(s, 1));
  }
  return sum;
}

/// The least weighted sum over what each device can have, of all blocks together.
double PathBound::solve_blocks() {
  const auto cost_of = [&](int device, const BlockChoice& choice) {
    const std::vector<int>& stages = packing_->stages_of(device);
    double sum = 0;
    for (std::size_t t = 0; t < stages.size(); ++t) {
      const LayerRange layers = packing_->range(stages[t], choice.blocks[t]);
      sum += cost(stages[t], layers.first, layers.end, choice.recompute[t]);
    }
    return sum;
  };
  const auto cover = least_cover(*block_choices_, costs_.layers() - 2, cost_of);
  if (!cover) return infinite;
  layout_ = packing_->layout_of(cover->choices);
  return cover->value + cut_costs() + constant_;
}

PathBound::Saved PathBound::save() const {
  return {rows_, *block_choices_, bound_, pace_, failures_};
}

void PathBound::restore(Saved saved) {
  rows_ = std::move(saved.rows);
  std::move(saved.choices.begin(), saved.choices.end(), block_choices_->begin());
  bound_ = saved.bound;
  pace_ = saved.pace;
  failures_ = saved.failures;
}

/// From the weights there are.
void PathBound::begin_part() {
  bound_ = 0;
  pace_ = 1;
  failures_ = 0;
}

/// Leaves out such choices of the device, unless a layout within the limit may have one of them. In
/// so many rounds that begin with this path; the bound stays as it was.
bool PathBound::leave_out(int device, const Has& has, const PassCounts& path, int rounds) {
  std::vector<BlockChoice>& own = (*block_choices_)[index(device)];
  std::vector<BlockChoice> others;
  std::copy_if(own.begin(), own.end(), std::back_inserter(others), std::not_fn(has));
  if (others.size() == own.size()) return true;
  const Saved before = save();
  std::erase_if(own, std::not_fn(has));
  begin_with({path});
  for (Row& row : rows_) row.best_weight = row.weight;
  begin_part();
  raise(rounds, static_cast<Time>(limit_), [](const Layout&) {});
  const bool is_out = bound_ >= limit_;
  restore(before);
  if (is_out) own = std::move(others);
  return is_out;
}

/// Of the most blocks first those that recompute, which take longer.
void PathBound::leave_out_of_stage(int stage, int rounds) {
  const int device = costs_.device_of(stage);
  const auto turn = index(costs_.turn_of(stage));
  const std::vector<BlockChoice>& own = (*block_choices_)[index(device)];
  while (!own.empty()) {
    int most = 0, least = costs_.layers();
    for (const BlockChoice& choice : own) {
      most = std::max(most, choice.blocks[turn]);
      least = std::min(least, choice.blocks[turn]);
    }
    if (most == least) return;
    bool is_out = true;
    for (const Recompute recompute : {Recompute::full, Recompute::none}) {
      const auto has = [&](const BlockChoice& choice) {
        return choice.blocks[turn] == most && choice.recompute[turn] == recompute;
      };
      is_out = leave_out(device, has, stage_rows_[index(stage)], rounds) && is_out;
    }
    if (!is_out) return;
  }
}

void PathBound::leave_out_of_device(int device, int rounds) {
  const std::vector<BlockChoice>& own = (*block_choices_)[index(device)];
  while (!own.empty()) {
    int most = 0, least = costs_.layers();
    for (const BlockChoice& choice : own) {
      most = std::max(most, blocks_of(choice));
      least = std::min(least, blocks_of(choice));
    }
    if (most == least) return;
    const auto has = [&](const BlockChoice& choice) { return blocks_of(choice) == most; };
    if (!leave_out(device, has, device_rows_[index(device)], rounds)) return;
  }
}

/// Of the turn in which devices of these layouts differ most, what is more than their mean. Every
/// device may have less, so that each case leaves something out.
std::optional<PathBound::Split> PathBound::best_split(const std::vector<Layout>& layouts) const {
  const std::size_t turns = packing_->stages_of(0).size();
  std::optional<Split> best;
  double most = 0;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    int least = 0, highest = 0;
    for (const auto& own : *block_choices_) {
      int own_least = costs_.layers();
      for (const BlockChoice& choice : own) {
        own_least = std::min(own_least, choice.blocks[turn]);
        highest = std::max(highest, choice.blocks[turn]);
      }
      least = std::max(least, own_least);
    }
    if (least >= highest) continue;
    std::vector<int> counts;
    for (const Layout& layout : layouts) {
      for (int device = 0; device < costs_.depth(); ++device) {
        const int stage = packing_->stages_of(device)[turn];
        const int ends = (stage == 0 ? 1 : 0) + (stage + 1 == costs_.stages() ? 1 : 0);
        counts.push_back(layout.cuts[index(stage) + 1] - layout.cuts[index(stage)] - ends);
      }
    }
    const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) /
                        static_cast<double>(std::max<std::size_t>(counts.size(), 1));
    double spread = 0;
    for (const int count : counts) spread += std::abs(count - mean);
    if (best && spread <= most) continue;
    most = spread;
    best = Split{turn, std::clamp(static_cast<int>(mean) + 1, least + 1, highest)};
  }
  return best;
}

/// Devices before the first have fewer blocks in the turn, and it has so many; `first` may be
/// beyond the last device.
bool PathBound::is_case_out(const Split& split, int first, int rounds, int last_round) {
  Saved before = save();
  bool has_any = true;
  for (int device = 0; device < costs_.depth() && device <= first; ++device) {
    std::vector<BlockChoice>& own = (*block_choices_)[index(device)];
    std::erase_if(own, [&](const BlockChoice& choice) {
      return (choice.blocks[split.turn] >= split.blocks) != (device == first);
    });
    has_any = has_any && !own.empty();
  }
  std::erase_if(rows_, [](const Row& row) { return row.best_weight == 0; });
  for (Row& row : rows_) row.weight = row.best_weight;
  begin_part();
  const bool is_out = !has_any || is_part_out(rounds, last_round);
  restore(std::move(before));
  return is_out;
}

/// Whether no layout of what is left is within the limit.
bool PathBound::is_part_out(int rounds, int last_round) {
  std::vector<Layout> layouts;
  raise(rounds, static_cast<Time>(limit_),
        [&](const Layout& layout) { layouts.push_back(layout); });
  if (bound_ >= limit_) return true;
  if (rounds_ >= last_round) return false;
  const auto split = best_split(layouts);
  if (!split) return false;
  for (int first = costs_.depth(); first >= 0; --first) {
    if (!is_case_out(*split, first, rounds, last_round)) return false;
  }
  return true;
}

int PathBound::branch(int rounds, int in_all) {
  if (!block_choices_) return 0;
  const int before = rounds_;
  if (rows_.empty()) begin();
  Saved saved = save();
  const bool is_out = is_part_out(rounds, before + in_all);
  restore(std::move(saved));
  if (is_out) bound_ = limit_;
  return rounds_ - before;
}

int PathBound::rule_out(int rounds, int in_all) {
  if (!block_choices_) return 0;
  const int before = rounds_;
  if (rows_.empty()) begin();
  const auto has_time = [&] { return rounds_ - before < in_all; };
  const int stages = stage_rows_.empty() ? 0 : costs_.stages();
  for (int stage = 0; stage < stages && has_time(); ++stage) leave_out_of_stage(stage, rounds);
  for (int device = 0; device < costs_.depth() && has_time(); ++device) {
    leave_out_of_device(device, rounds);
  }
  return rounds_ - before;
}

}  // namespace stagecraft
