// The bound by paths where layers are alike blocks.

#include <algorithm>
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

/// Leaves out such choices of the device, unless a layout within the limit may have one of them. In
/// so many rounds that begin with this path; the bound stays as it was.
bool PathBound::leave_out(int device, const Has& has, const PassCounts& path, int rounds) {
  std::vector<BlockChoice>& own = (*block_choices_)[index(device)];
  std::vector<BlockChoice> others;
  std::copy_if(own.begin(), own.end(), std::back_inserter(others), std::not_fn(has));
  if (others.size() == own.size()) return true;
  const std::vector<Row> rows = rows_;
  const double bound = bound_, pace = pace_;
  const int failures = failures_;
  const std::vector<BlockChoice> all = own;
  std::erase_if(own, std::not_fn(has));
  begin_with({path});
  for (Row& row : rows_) row.best_weight = row.weight;
  bound_ = 0;
  pace_ = 1;
  failures_ = 0;
  raise(rounds, static_cast<Time>(limit_), [](const Layout&) {});
  const bool is_out = bound_ >= limit_;
  own = is_out ? others : all;
  rows_ = rows;
  bound_ = bound;
  pace_ = pace;
  failures_ = failures;
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
