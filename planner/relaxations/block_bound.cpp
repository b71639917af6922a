#include "planner/relaxations/block_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/layouts/layouts.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

BlockBound::BlockBound(const Space& space, const Setting& setting, const TimedOrder& order,
                       const BlockPacking& packing, Visit visit)
    : space_(space),
      setting_(setting),
      order_(order),
      packing_(packing),
      visit_(std::move(visit)),
      costs_(space, setting, packing.limit()),
      passes_(costs_, order, setting.microbatches),
      limit_(static_cast<double>(packing.limit())),
      all_choices_(packing.all_choices()) {
  if (all_choices_) list_choices();
}

void BlockBound::list_choices() {
  turns_ = packing_.stages_of(0).size();
  for (int device = 0; device < costs_.depth(); ++device) {
    const std::vector<int>& stages = packing_.stages_of(device);
    Choices& domain = domains_.emplace_back();
    for (const BlockChoice& choice : (*all_choices_)[index(device)]) {
      domain.push_back(static_cast<int>(choices_.size()));
      choices_.push_back({&choice, device, choice.all_blocks()});
      for (std::size_t t = 0; t < turns_; ++t) {
        const bool again = choice.recompute[t] == Recompute::full && !order_.places_recompute;
        choice_cells_.push_back(cell_of(stages[t], choice.blocks[t], again));
      }
    }
  }
  items_.resize(domains_.size());
  sums_.resize(choices_.size());
}

std::span<const int> BlockBound::cells_of(int choice) const {
  return std::span(choice_cells_).subspan(index(choice) * turns_, turns_);
}

int BlockBound::cell_of(int stage, int blocks, bool again) {
  const auto [known, is_new] = cell_numbers_.try_emplace(
      std::vector<int>{stage, blocks, again ? 1 : 0}, static_cast<int>(cells_.size()));
  if (is_new) {
    const LayerRange layers = packing_.range(stage, blocks);
    const StageCosts& costs = costs_.stage(stage, layers.first, layers.end);
    cells_.push_back({stage, &costs, again ? costs.forward : 0});
  }
  return known->second;
}

void BlockBound::add_row(PassCounts path) {
  auto row = std::make_shared<Row>();
  row->constant = path.ties * costs_.tie();
  // Where blocks are alike, so are the messages between them.
  for (int s = 0; s + 1 < costs_.stages(); ++s)
    row->constant += time_of(path.stages[index(s)], costs_.cut(s, 1));
  row->constant /= limit_;
  for (const Cell& cell : cells_) {
    const Passes& passes = path.stages[index(cell.stage)];
    row->lengths.push_back(time_of(passes, *cell.costs, cell.again) / limit_);
  }
  row->path = std::move(path);
  row->used = games_;
  const std::size_t place = rows_.size();
  rows_.push_back(std::move(row));
  if (place < most_rows_) {
    for (std::size_t c = 0; c < cells_.size(); ++c)
      lengths_[c * most_rows_ + place] = static_cast<float>(rows_.back()->lengths[c]);
  } else {
    list_lengths(std::max<std::size_t>(2 * place, 64));
  }
  spent_ += static_cast<std::int64_t>(cells_.size());
}

/// Cell by cell, with room for so many rows: `longest_in_mixture` goes over few cells of all rows.
void BlockBound::list_lengths(std::size_t most_rows) {
  most_rows_ = most_rows;
  lengths_.assign(cells_.size() * most_rows_, 0);
  for (std::size_t c = 0; c < cells_.size(); ++c) {
    for (std::size_t r = 0; r < rows_.size(); ++r)
      lengths_[c * most_rows_ + r] = static_cast<float>(rows_[r]->lengths[c]);
  }
}

void BlockBound::know(const std::vector<PassCounts>& paths) {
  if (rows_.empty()) begin();
  for (const PassCounts& path : paths) add_row(path);
}

std::vector<PassCounts> BlockBound::useful_paths() const {
  constexpr std::size_t most = 128;
  return latest_paths(rows_, most);
}

/// Those that had no part for longest.
void BlockBound::drop_idle_rows() {
  constexpr std::size_t most = 256, kept = 128;
  if (rows_.size() <= most) return;
  keep_latest(rows_, kept);
  list_lengths(most_rows_);
}

/// Paths to begin with: those through each device in a good layout, and those that pass all that a
/// stage or a device does.
void BlockBound::begin() {
  if (start_.cuts.empty())
    start_ = balanced(space_, setting_, std::vector<int>(index(costs_.depth()), 1));
  // A good layout may have stages that are too long for the limit.
  const PipelineCosts unlimited(space_, setting_, never - 1);
  CriticalPasses passes(unlimited, order_, setting_.microbatches);
  for (int device = 0; device < costs_.depth(); ++device) add_row(passes.through(device, start_));
  device_rows_ = rows_;
  for (const RowRef& row : device_rows_) weights_.push_back({row, 1.0 / costs_.depth()});
  if (setting_.placement != StagePlacement::bidirectional) {
    for (const PassCounts& path : backward_paths(costs_, order_)) {
      add_row(path);
      stage_rows_.push_back(rows_.back());
    }
  }
  for (const PassCounts& path : device_paths(costs_, order_)) add_row(path);
  spent_ += (costs_.depth() + 2) * static_cast<std::int64_t>(order_.order.size()) / 2;
}

double BlockBound::sum_over_cells(int choice, const std::vector<double>& of_cells) const {
  double sum = 0;
  for (const int cell : cells_of(choice)) sum += of_cells[index(cell)];
  return sum;
}

double BlockBound::length(const Row& row, const Chosen& layout) const {
  double sum = row.constant;
  for (const int choice : layout) sum += sum_over_cells(choice, row.lengths);
  return sum;
}

double BlockBound::worth() const {
  return std::min(best_ - 1, limit_);
}

bool BlockBound::is_above(double sum) const {
  return safe * sum > worth() / limit_;
}

/// Finds the least weighted sum, and leaves out what is above the limit by it. False if nothing is
/// left.
bool BlockBound::weigh(const Weights& weights) {
  cell_sums_.assign(cells_.size(), 0);
  double constant = 0;
  for (const auto& [row, weight] : weights) {
    constant += weight * row->constant;
    for (std::size_t c = 0; c < cell_sums_.size(); ++c) cell_sums_[c] += weight * row->lengths[c];
  }
  spent_ += static_cast<std::int64_t>(cells_.size() * weights.size()) / 16;
  for (const Choices& domain : domains_) {
    for (const int c : domain) {
      sums_[index(c)] = sum_over_cells(c, cell_sums_);
    }
    spent_ += 10 + static_cast<std::int64_t>(domain.size() * turns_) / 8;
  }
  return in_step_ ? cover_in_step(constant) : cover(constant);
}

/// Any choices beside each other.
bool BlockBound::cover(double constant) {
  for (std::size_t d = 0; d < domains_.size(); ++d) {
    items_[d].clear();
    for (const int c : domains_[d])
      items_[d].push_back({choices_[index(c)].blocks, sums_[index(c)]});
    spent_ += 30 + static_cast<std::int64_t>(domains_[d].size() * 3) / 8;
  }
  if (!cover_.solve(items_, costs_.layers() - 2)) return false;
  value_ = constant + cover_.value();
  if (is_above(value_)) return false;
  chosen_.clear();
  for (std::size_t d = 0; d < domains_.size(); ++d)
    chosen_.push_back(domains_[d][index(cover_.chosen()[d])]);
  leave_out(constant);
  return true;
}

/// Those that the walk has left.
bool BlockBound::cover_in_step(double constant) {
  const std::int64_t before = walk_->spent();
  const auto row = walk_->weigh(in_walk(sums_), worth() / limit_ / safe - constant);
  spent_ += walk_->spent() - before;
  if (!row) return false;
  take_what_is_left();
  value_ = constant + row->sum;
  chosen_ = from_walk(row->items);
  return true;
}

/// Choices whose least sum, of all layouts with them, is above the limit.
void BlockBound::leave_out(double constant) {
  for (std::size_t d = 0; d < domains_.size(); ++d) {
    std::erase_if(domains_[d], [&](int c) {
      const int blocks = choices_[index(c)].blocks;
      const double others = constant + cover_.others(static_cast<int>(d), blocks);
      return is_above(others + sums_[index(c)]);
    });
  }
}

/// Times the layout, which may be the best so far. Its critical path is the latest row then.
void BlockBound::try_out(const Chosen& layout) {
  std::vector<const BlockChoice*> choices;
  for (const int c : layout) choices.push_back(choices_[index(c)].what);
  const Layout whole = packing_.layout_of(choices);
  double step = 0;
  add_row(passes_.of(whole, step));
  timed_.insert(layout);
  spent_ += static_cast<std::int64_t>(order_.order.size()) / 2;
  if (step >= least_step_) return;
  least_step_ = step;
  if (visit_(whole) && step <= worth()) best_ = step;
}

void BlockBound::raise(int rounds, const std::stop_token& stop) {
  stop_ = stop;
  raise(rounds, std::numeric_limits<std::int64_t>::max());
}

void BlockBound::raise(int rounds, std::int64_t last) {
  if (rows_.empty()) begin();
  constexpr double close = 1e-3;
  Seen seen;
  for (const Weight& own : weights_) take_part(seen, own.row);
  Weights weights = weights_, best;
  for (int round = 0; round < rounds && spent_ <= last && !stop_.stop_requested(); ++round) {
    if (!weigh(weights)) {
      is_proved_ = true;
      return;
    }
    if (value_ > bound_) {
      bound_ = value_;
      weights_ = weights;
    }
    add(seen, chosen_);
    drop_idle_rows();
    if (!timed_.contains(chosen_)) {
      try_out(chosen_);
      take_part(seen, rows_.back());
    }
    if (play_with_paths(seen, best) < bound_ + close) break;
    weights = Seen::half_way(weights_, best);
  }
  take_mean(seen);
}

void BlockBound::take_mean(const Seen& seen) {
  mean_blocks_.assign(index(costs_.stages()), 0);
  for (std::size_t i = 0; i < seen.layouts().size(); ++i) {
    for (const int c : seen.layouts()[i]) {
      const std::vector<int>& stages = packing_.stages_of(choices_[index(c)].device);
      for (std::size_t turn = 0; turn < turns_; ++turn) {
        const int blocks = choices_[index(c)].what->blocks[turn];
        mean_blocks_[index(stages[turn])] += seen.mixture()[i] * blocks;
      }
    }
  }
}

std::optional<Layout> BlockBound::mean_layout() const {
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

Time BlockBound::least_found() const {
  if (least_step_ > limit_) return packing_.limit() + 1;
  return static_cast<Time>(std::floor(least_step_));
}

Time BlockBound::bound() const {
  if (is_proved_) return least_found();
  if (safe * bound_ > 1) return packing_.limit() + 1;
  return static_cast<Time>(std::floor(safe * bound_ * limit_));
}

}  // namespace stagecraft
