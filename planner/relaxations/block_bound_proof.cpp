// Proofs: choices in step with their neighbours, weighed and walked through.

#include <algorithm>
#include <utility>

#include "planner/relaxations/block_bound.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

/// Of choices of neighbours.
double BlockBound::pairs_left() const {
  double pairs = 0;
  for (std::size_t d = 0; d + 1 < domains_.size(); ++d)
    pairs += static_cast<double>(domains_[d].size() * domains_[d + 1].size());
  return pairs;
}

/// Effort that the walk's first look at what is left takes.
double BlockBound::steps_to_look_at_pairs() const {
  return pairs_left() / StageClock::lanes *
         static_cast<double>(StageClock::steps_per_run(order_.order.size()));
}

/// Of what the domains have. Not where that is too many pairs of choices.
void BlockBound::prepare_walk() {
  constexpr double most_pairs = 1e7;
  if (pairs_left() > most_pairs) return;
  clock_ = std::make_unique<StageClock>(costs_, order_, setting_.microbatches);
  walk_choices_ = domains_;
  std::vector<BlockWalk::Device> devices;
  for (std::size_t d = 0; d < domains_.size(); ++d) {
    BlockWalk::Device& device = devices.emplace_back();
    device.stages = packing_.stages_of(static_cast<int>(d));
    for (const int c : domains_[d]) {
      WalkItem& item = device.items.emplace_back();
      item.blocks = choices_[index(c)].blocks;
      for (const int cell : cells_of(c)) {
        const Cell& own = cells_[index(cell)];
        item.stages.push_back(StageTimes::of(*own.costs, own.again));
      }
    }
  }
  walk_ = std::make_unique<BlockWalk>(*clock_, std::move(devices), costs_.layers() - 2);
  walk_->learn_by([this](const std::vector<StageTimes>& stages) { return learn(stages); });
  whole_ = walk_->state();
}

int BlockBound::from_walk(std::size_t device, int item) const {
  return walk_choices_[device][index(item)];
}

/// -1 if it does not have it.
int BlockBound::to_walk(std::size_t device, int choice) const {
  const Choices& own = walk_choices_[device];
  const auto place = std::ranges::lower_bound(own, choice);
  return place != own.end() && *place == choice ? static_cast<int>(place - own.begin()) : -1;
}

BlockBound::Chosen BlockBound::from_walk(const std::vector<int>& items) const {
  Chosen layout;
  for (std::size_t d = 0; d < items.size(); ++d) layout.push_back(from_walk(d, items[d]));
  return layout;
}

/// What the walk does not have is left out.
BlockWalk::Items BlockBound::to_walk(const Domains& domains) const {
  BlockWalk::Items items(domains.size());
  for (std::size_t d = 0; d < domains.size(); ++d) {
    for (const int choice : domains[d]) {
      const int item = to_walk(d, choice);
      if (item >= 0) items[d].push_back(item);
    }
  }
  return items;
}

/// Whether the walk has all of these left.
bool BlockBound::is_in_walk(const Chosen& layout) const {
  std::vector<int> items;
  for (std::size_t d = 0; d < layout.size(); ++d) items.push_back(to_walk(d, layout[d]));
  return std::ranges::min(items) >= 0 && walk_->allows(items);
}

/// A figure of each choice, by devices.
BlockWalk::Costs BlockBound::in_walk(const std::vector<double>& of_choices) const {
  BlockWalk::Costs costs;
  for (const Choices& choices : walk_choices_) {
    std::vector<double>& own = costs.emplace_back();
    for (const int c : choices) own.push_back(of_choices[index(c)]);
  }
  return costs;
}

/// The critical path of a pipeline that is too long.
BlockWalk::Lesson BlockBound::learn(const std::vector<StageTimes>& stages) {
  double step = 0;
  add_row(passes_.of(stages, step));
  const Row& row = *rows_.back();
  std::vector<double> lengths;
  for (std::size_t c = 0; c < choices_.size(); ++c)
    lengths.push_back(sum_over_cells(static_cast<int>(c), row.lengths));
  return {.costs = in_walk(lengths),
          .most = worth() / limit_ / safe - row.constant,
          .spent = static_cast<std::int64_t>(order_.order.size()) / 2};
}

void BlockBound::take_what_is_left() {
  domains_ = walk_->left();
  for (std::size_t d = 0; d < domains_.size(); ++d) {
    for (int& choice : domains_[d]) choice = from_walk(d, choice);
  }
}

/// By the clock, then by weights, as long as that goes on. False if nothing of interest is left.
bool BlockBound::fall_in_step(std::int64_t last) {
  constexpr int most_rounds = 4, rounds_of_weights = 60;
  constexpr std::size_t part = 16;
  for (int round = 0; round < most_rounds; ++round) {
    const std::size_t before = choices_left();
    const std::int64_t spent = walk_->spent();
    const bool is_left = walk_->thin_out(worth(), last - spent_, stop_);
    spent_ += walk_->spent() - spent;
    if (!is_left) return false;
    take_what_is_left();
    if (spent_ >= last || stop_.stop_requested()) break;
    in_step_ = true;
    raise(rounds_of_weights, last);
    in_step_ = false;
    if (std::exchange(is_proved_, false)) return false;
    if (before - choices_left() < before / part) break;
  }
  return true;
}

/// Thinned out by the walk's means, with so much effort at most: whether nothing of interest is
/// left.
bool BlockBound::is_out_of_step(std::int64_t effort) {
  // Trials may leave few enough choices.
  if (walk_ == nullptr && cases_ == 1) prepare_walk();
  if (walk_ == nullptr || effort <= 0) return false;
  if (is_in_walk_) {
    walk_->narrow(to_walk(domains_));
  } else {
    walk_->restore(whole_);
    walk_->keep(to_walk(domains_));
  }
  if (!walk_->can_look_at_pairs(effort)) return false;
  const double bound = bound_;
  Weights weights = weights_;
  const bool is_left = fall_in_step(spent_ + effort);
  if (cases_ > 1) {  // that bound is the case's
    bound_ = bound;
    weights_ = std::move(weights);
  }
  is_in_walk_ = true;
  return !is_left;
}

/// Whether a walk gets through all that is left, with so much effort.
bool BlockBound::is_walked_out(std::int64_t effort) {
  if (!is_in_walk_ || effort <= 0) return false;
  walk_->narrow(to_walk(domains_));
  const std::int64_t before = walk_->spent();
  const bool is_done = walk_->walk(
      worth(), effort, [&](const std::vector<int>& items, double) { try_out(from_walk(items)); },
      stop_);
  spent_ += walk_->spent() - before;
  return is_done;
}

}  // namespace stagecraft
