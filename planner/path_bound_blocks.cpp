// The bound by paths where layers are alike blocks.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "planner/block_cover.hpp"
#include "planner/path_bound.hpp"

namespace stagecraft {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
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

/// The weighted sum of each stage, by its blocks and whether it recomputes: many choices share
/// them.
class PathBound::StageSums {
 public:
  explicit StageSums(const PathBound& bound)
      : bound_(bound),
        places_(2 * index(bound.costs_.layers())),
        sums_(places_ * index(bound.costs_.stages()), unknown) {}

  double of(int stage, int blocks, Recompute recompute) {
    const std::size_t again = recompute == Recompute::full ? 1 : 0;
    double& sum = sums_[index(stage) * places_ + 2 * index(blocks) + again];
    if (sum == unknown) {
      const LayerRange layers = bound_.packing_->range(stage, blocks);
      sum = bound_.cost(stage, layers.first, layers.end, recompute);
    }
    return sum;
  }

 private:
  static constexpr double unknown = -1;  // costs and weights are not below zero
  const PathBound& bound_;
  std::size_t places_ = 0;
  std::vector<double> sums_;  ///< [stage, blocks, recompute]
};

/// The least weighted sum over what each device can have, of all blocks together.
double PathBound::solve_blocks() {
  StageSums sums(*this);
  const auto cost_of = [&](int device, const BlockChoice& choice) {
    const std::vector<int>& stages = packing_->stages_of(device);
    double sum = 0;
    for (std::size_t t = 0; t < stages.size(); ++t) {
      sum += sums.of(stages[t], choice.blocks[t], choice.recompute[t]);
    }
    return sum;
  };
  const auto cover = least_cover(*block_choices_, costs_.layers() - 2, cost_of);
  if (!cover) return infinite;
  layout_ = packing_->layout_of(cover->choices);
  return cover->value + cut_costs() + constant_;
}

PathBound::Saved PathBound::save() const {
  return {rows_, *block_choices_, seen_, bound_};
}

void PathBound::restore(Saved saved) {
  rows_ = std::move(saved.rows);
  std::move(saved.choices.begin(), saved.choices.end(), block_choices_->begin());
  seen_ = std::move(saved.seen);
  bound_ = saved.bound;
}

/// From the weights there are.
void PathBound::begin_part() {
  seen_.clear();
  for (Row& row : rows_) row.lengths.clear();
  bound_ = 0;
}

/// Leaves out such choices of the device, unless a layout within the limit may have one of them. In
/// so many rounds that begin with this path; the bound stays as it was.
bool PathBound::leave_out(int device, const Has& has, const Path& path, int rounds) {
  BlockChoices& own = (*block_choices_)[index(device)];
  BlockChoices with, without;
  for (const BlockChoice* choice : own) (has(*choice) ? with : without).push_back(choice);
  if (with.empty()) return true;
  BlockChoices all = std::exchange(own, std::move(with));
  const double bound = bound_;
  std::vector<Layout> seen = std::exchange(seen_, {});
  std::vector<Row> rows = std::exchange(rows_, {});
  for (const Row& row : rows) add_row(row.path);
  begin_with({path});
  for (Row& row : rows_) row.best_weight = row.weight;
  begin_part();
  raise(rounds, static_cast<Time>(limit_), [](const Layout&) {});
  const bool is_out = exceeds(limit_);
  rows_ = std::move(rows);
  seen_ = std::move(seen);
  bound_ = bound;
  own = std::move(is_out ? without : all);
  return is_out;
}

/// Of the most blocks first those that recompute, which take longer.
void PathBound::leave_out_of_stage(int stage, int rounds) {
  const int device = costs_.device_of(stage);
  const auto turn = index(costs_.turn_of(stage));
  const BlockChoices& own = (*block_choices_)[index(device)];
  while (!own.empty()) {
    int most = 0, least = costs_.layers();
    for (const BlockChoice* choice : own) {
      most = std::max(most, choice->blocks[turn]);
      least = std::min(least, choice->blocks[turn]);
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
  const BlockChoices& own = (*block_choices_)[index(device)];
  while (!own.empty()) {
    int most = 0, least = costs_.layers();
    for (const BlockChoice* choice : own) {
      most = std::max(most, choice->all_blocks());
      least = std::min(least, choice->all_blocks());
    }
    if (most == least) return;
    const auto has = [&](const BlockChoice& choice) { return choice.all_blocks() == most; };
    if (!leave_out(device, has, device_rows_[index(device)], rounds)) return;
  }
}

/// Single choices of the device; whether any is out.
bool PathBound::leave_out_each(int device, int rounds, int last_round) {
  const BlockChoices& own = (*block_choices_)[index(device)];
  const BlockChoices all = own;
  for (const BlockChoice* one : all) {
    if (rounds_ >= last_round) break;
    const auto is_it = [&](const BlockChoice& choice) { return &choice == one; };
    leave_out(device, is_it, device_rows_[index(device)], rounds);
  }
  return own.size() < all.size();
}

/// Devices whose stage of this turn may have so many blocks or more, and may have fewer.
std::vector<int> PathBound::undecided(std::size_t turn, int blocks) const {
  std::vector<int> devices;
  for (int device = 0; device < costs_.depth(); ++device) {
    const auto& own = (*block_choices_)[index(device)];
    const auto has = [&](const BlockChoice* choice) { return choice->blocks[turn] >= blocks; };
    if (std::ranges::any_of(own, has) && !std::ranges::all_of(own, has)) devices.push_back(device);
  }
  return devices;
}

/// The turn and the number of blocks about which these layouts and their devices agree least.
std::optional<PathBound::Split> PathBound::best_split(const std::vector<Layout>& layouts) const {
  const std::size_t turns = packing_->stages_of(0).size();
  std::optional<Split> best;
  double most = -1;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    int highest = 0;
    for (const auto& own : *block_choices_) {
      for (const BlockChoice* choice : own) highest = std::max(highest, choice->blocks[turn]);
    }
    for (int blocks = 1; blocks <= highest; ++blocks) {
      std::vector<int> devices = undecided(turn, blocks);
      if (devices.empty()) continue;
      double have = 0, all = 0;
      for (const Layout& layout : layouts) {
        for (const int device : devices) {
          const int stage = packing_->stages_of(device)[turn];
          const int ends = (stage == 0 ? 1 : 0) + (stage + 1 == costs_.stages() ? 1 : 0);
          const int count = layout.cuts[index(stage) + 1] - layout.cuts[index(stage)] - ends;
          have += count >= blocks ? 1 : 0;
          all += 1;
        }
      }
      const double doubt = std::min(have, all - have);
      if (doubt <= most) continue;
      most = doubt;
      best = Split{turn, blocks, std::move(devices)};
    }
  }
  return best;
}

/// Of the undecided devices those before this one have fewer blocks in the turn, and it has so
/// many; `first` may be beyond the last.
bool PathBound::is_case_out(const Split& split, std::size_t first, int rounds, int last_round) {
  Saved before = save();
  bool has_any = true;
  for (std::size_t i = 0; i < split.devices.size() && i <= first; ++i) {
    BlockChoices& own = (*block_choices_)[index(split.devices[i])];
    std::erase_if(own, [&](const BlockChoice* choice) {
      return (choice->blocks[split.turn] >= split.blocks) != (i == first);
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
  if (exceeds(limit_)) return true;
  if (rounds_ >= last_round) return false;
  const auto split = best_split(layouts);
  if (!split) return false;
  for (std::size_t first = split->devices.size() + 1; first-- > 0;) {
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
  if (is_out) bound_ = infinite;
  return rounds_ - before;
}

int PathBound::rule_out(int rounds, int in_all) {
  if (!block_choices_) return 0;
  const int before = rounds_, last_round = before + in_all;
  if (rows_.empty()) begin();
  const int stages = stage_rows_.empty() ? 0 : costs_.stages();
  for (int stage = 0; stage < stages && rounds_ < last_round; ++stage) {
    leave_out_of_stage(stage, rounds);
  }
  for (int device = 0; device < costs_.depth() && rounds_ < last_round; ++device) {
    leave_out_of_device(device, rounds);
  }
  for (bool goes_on = true; goes_on && !exceeds(limit_) && rounds_ < last_round;) {
    goes_on = false;
    for (int device = 0; device < costs_.depth() && rounds_ < last_round; ++device) {
      if (leave_out_each(device, rounds, last_round)) goes_on = true;
      if ((*block_choices_)[index(device)].empty()) {
        bound_ = infinite;
        return rounds_ - before;
      }
    }
    raise(rounds, static_cast<Time>(limit_), [](const Layout&) {});
  }
  return rounds_ - before;
}

}  // namespace stagecraft
