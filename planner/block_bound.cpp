#include "planner/block_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/layouts.hpp"
#include "planner/matrix_game.hpp"

namespace stagecraft {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Rounding of the sums must not lift the bound.
constexpr double safe = 1 - 1e-9;

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

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
  for (int device = 0; device < costs_.depth(); ++device) {
    const std::vector<int>& stages = packing_.stages_of(device);
    Choices& domain = domains_.emplace_back();
    for (const BlockChoice& choice : (*all_choices_)[index(device)]) {
      domain.push_back(static_cast<int>(choices_.size()));
      Choice& own = choices_.emplace_back(Choice{&choice, device, choice.all_blocks(), {}});
      for (std::size_t t = 0; t < stages.size(); ++t) {
        const bool again = choice.recompute[t] == Recompute::full && !order_.places_recompute;
        own.cells.push_back(cell_of(stages[t], choice.blocks[t], again));
      }
    }
  }
  items_.resize(domains_.size());
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

void BlockBound::add_row(const PassCounts& path) {
  auto row = std::make_shared<Row>();
  row->constant = path.ties * costs_.tie();
  // Where blocks are alike, so are the messages between them.
  for (int s = 0; s + 1 < costs_.stages(); ++s)
    row->constant += time_of(path.stages[index(s)], costs_.cut(s, 1));
  row->constant /= limit_;
  std::vector<double> of_cell;
  for (const Cell& cell : cells_)
    of_cell.push_back(time_of(path.stages[index(cell.stage)], *cell.costs, cell.again) / limit_);
  for (const Choice& choice : choices_) {
    double& length = row->lengths.emplace_back();
    for (const int cell : choice.cells) length += of_cell[index(cell)];
  }
  row->used = games_;
  rows_.push_back(std::move(row));
  spent_ += static_cast<std::int64_t>(cells_.size() + choices_.size());
}

/// Those that had no part for longest.
void BlockBound::drop_idle_rows() {
  constexpr std::size_t most = 256, kept = 128;
  if (rows_.size() <= most) return;
  std::ranges::stable_sort(rows_, std::greater<>(), &Row::used);
  rows_.resize(kept);
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

double BlockBound::length(const Row& row, const Chosen& layout) {
  double sum = row.constant;
  for (const int choice : layout) sum += row.lengths[index(choice)];
  return sum;
}

/// Finds the least weighted sum, and leaves out what is above the limit by it. False if nothing is
/// left.
bool BlockBound::weigh(const Weights& weights) {
  sums_.assign(choices_.size(), 0);
  double constant = 0;
  for (const auto& [row, weight] : weights) {
    constant += weight * row->constant;
    for (std::size_t c = 0; c < sums_.size(); ++c) sums_[c] += weight * row->lengths[c];
  }
  spent_ += static_cast<std::int64_t>(sums_.size() * weights.size()) / 32;
  for (std::size_t d = 0; d < domains_.size(); ++d) {
    items_[d].clear();
    for (const int c : domains_[d])
      items_[d].push_back({choices_[index(c)].blocks, sums_[index(c)]});
    spent_ += 40 + static_cast<std::int64_t>(domains_[d].size());
  }
  if (!cover_.solve(items_, costs_.layers() - 2)) return false;
  value_ = constant + cover_.value();
  if (safe * value_ > 1) return false;
  chosen_.clear();
  for (std::size_t d = 0; d < domains_.size(); ++d)
    chosen_.push_back(domains_[d][index(cover_.chosen()[d])]);
  leave_out(constant);
  return true;
}

/// Choices whose least sum, of all layouts with them, is above the limit.
void BlockBound::leave_out(double constant) {
  for (std::size_t d = 0; d < domains_.size(); ++d) {
    int blocks = -1;
    double others = 0;
    std::erase_if(domains_[d], [&](int c) {
      const Choice& choice = choices_[index(c)];
      if (choice.blocks != blocks) {
        blocks = choice.blocks;
        others = constant + cover_.others(static_cast<int>(d), blocks);
      }
      return safe * (others + sums_[index(c)]) > 1;
    });
  }
}

/// Times the layout: whether it takes longer than the limit. Its critical path is the latest row
/// then.
bool BlockBound::is_too_long(const Chosen& layout) {
  std::vector<const BlockChoice*> choices;
  for (const int c : layout) choices.push_back(choices_[index(c)].what);
  const Layout whole = packing_.layout_of(choices);
  double step = 0;
  add_row(passes_.of(whole, step));
  timed_[layout] = rows_.back();
  spent_ += static_cast<std::int64_t>(order_.order.size()) / 2;
  if (step < least_step_) {
    least_step_ = step;
    visit_(whole);
  }
  return step > limit_;
}

bool BlockBound::has_part(const Seen& seen, const RowRef& row) {
  return std::ranges::find(seen.rows, row) != seen.rows.end();
}

void BlockBound::take_part(Seen& seen, const RowRef& row) {
  if (has_part(seen, row)) return;
  seen.rows.push_back(row);
  std::vector<double>& lengths = seen.lengths.emplace_back();
  for (const Chosen& layout : seen.layouts) lengths.push_back(length(*row, layout));
}

template <class Keeps>
void BlockBound::keep_if(Seen& seen, const Keeps& keeps) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < seen.layouts.size(); ++i) {
    if (!keeps(i)) continue;
    if (kept < i) {
      seen.layouts[kept] = std::move(seen.layouts[i]);
      seen.used[kept] = seen.used[i];
      for (auto& lengths : seen.lengths) lengths[kept] = lengths[i];
    }
    ++kept;
  }
  seen.layouts.resize(kept);
  seen.used.resize(kept);
  for (auto& lengths : seen.lengths) lengths.resize(kept);
}

/// One more layout; those with a choice that is left out do not count any more.
void BlockBound::add(Seen& seen, const Chosen& layout) const {
  keep_if(seen, [&](std::size_t i) {
    for (std::size_t d = 0; d < domains_.size(); ++d) {
      if (!std::ranges::binary_search(domains_[d], seen.layouts[i][d])) return false;
    }
    return true;
  });
  drop_idle(seen);
  for (std::size_t r = 0; r < seen.rows.size(); ++r)
    seen.lengths[r].push_back(length(*seen.rows[r], layout));
  seen.layouts.push_back(layout);
  seen.used.push_back(games_);
}

/// Layouts that had no weight for longest.
void BlockBound::drop_idle(Seen& seen) const {
  constexpr std::size_t most = 64, kept = 40;
  if (seen.layouts.size() < most) return;
  std::vector<std::int64_t> used = seen.used;
  std::ranges::sort(used);
  const std::int64_t oldest = used[used.size() - kept];
  keep_if(seen, [&](std::size_t i) { return seen.used[i] >= oldest; });
}

/// The best weights for the layouts seen, and what they get from them.
double BlockBound::play(Seen& seen, Weights& weights) {
  const GameSolution game = solve_game(seen.lengths);
  ++games_;
  spent_ += game.steps;
  for (std::size_t i = 0; i < seen.layouts.size(); ++i) {
    if (game.columns[i] > 0) seen.used[i] = games_;
  }
  weights.clear();
  for (std::size_t r = 0; r < seen.rows.size(); ++r) {
    if (game.rows[r] == 0) continue;
    weights.push_back({seen.rows[r], game.rows[r]});
    seen.rows[r]->used = games_;
  }
  seen.mixture = game.columns;
  return game.value;
}

/// Best weights of few layouts are too sure of themselves.
BlockBound::Weights BlockBound::half_way(const Weights& from, const Weights& to) {
  Weights middle = from;
  for (Weight& own : middle) own.weight /= 2;
  for (const auto& [row, weight] : to) {
    const auto same = std::ranges::find(middle, row, &Weight::row);
    if (same != middle.end()) {
      same->weight += weight / 2;
    } else {
      middle.push_back({row, weight / 2});
    }
  }
  constexpr double tiny = 1e-6;  // not worth the time
  std::erase_if(middle, [](const Weight& own) { return own.weight < tiny; });
  double all = 0;
  for (const Weight& own : middle) all += own.weight;
  for (Weight& own : middle) own.weight /= all;
  return middle;
}

void BlockBound::raise(int rounds) {
  if (rows_.empty()) begin();
  constexpr double close = 1e-3;
  Seen seen;
  for (const RowRef& row : rows_) take_part(seen, row);
  Weights weights = weights_, best;
  for (int round = 0; round < rounds; ++round) {
    if (!weigh(weights)) {
      bound_ = infinite;
      return;
    }
    if (value_ > bound_) {
      bound_ = value_;
      weights_ = weights;
    }
    add(seen, chosen_);
    if (!timed_.contains(chosen_)) {
      is_too_long(chosen_);
      take_part(seen, rows_.back());
    }
    if (play(seen, best) < bound_ + close) return;
    weights = half_way(weights_, best);
  }
}

Time BlockBound::bound() const {
  if (safe * bound_ > 1) return packing_.limit() + 1;
  return static_cast<Time>(std::floor(safe * bound_ * limit_));
}

}  // namespace stagecraft
