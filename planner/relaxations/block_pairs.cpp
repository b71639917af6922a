#include "planner/relaxations/block_pairs.hpp"

#include <algorithm>
#include <utility>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

double pairs_of(const BlockDomains& domains) {
  double pairs = 0;
  for (std::size_t d = 0; d + 1 < domains.size(); ++d)
    pairs += static_cast<double>(domains[d].size() * domains[d + 1].size());
  return pairs;
}

}  // namespace

double BlockPairs::steps_to_look_at(const BlockDomains& domains) const {
  return pairs_of(domains) / StageClock::lanes *
         static_cast<double>(StageClock::steps_per_run(order_.order.size()));
}

void BlockPairs::begin(const BlockDomains& domains, BlockWalk::Learn learn) {
  constexpr double most_pairs = 1e7;
  if (pairs_of(domains) > most_pairs) return;
  clock_ = std::make_unique<StageClock>(costs_, order_, microbatches_);
  choices_ = domains;
  std::vector<BlockWalk::Device> devices;
  for (std::size_t d = 0; d < domains.size(); ++d) {
    BlockWalk::Device& device = devices.emplace_back();
    device.stages = packing_.stages_of(static_cast<int>(d));
    for (const int c : domains[d])
      device.items.push_back({.blocks = table_.blocks_of(c), .stages = table_.times_of(c)});
  }
  walk_ = std::make_unique<BlockWalk>(*clock_, std::move(devices), costs_.layers() - 2);
  walk_->learn_by(std::move(learn));
  whole_ = walk_->state();
}

/// The walk's item for a choice; -1 if the walk does not have the choice.
int BlockPairs::to_walk(std::size_t device, int choice) const {
  const BlockNumbers& own = choices_[device];
  const auto place = std::ranges::lower_bound(own, choice);
  return place != own.end() && *place == choice ? static_cast<int>(place - own.begin()) : -1;
}

/// The walk's items for these domains; choices that the walk does not have are left out.
BlockWalk::Items BlockPairs::to_walk(const BlockDomains& domains) const {
  BlockWalk::Items items(domains.size());
  for (std::size_t d = 0; d < domains.size(); ++d) {
    for (const int choice : domains[d]) {
      const int item = to_walk(d, choice);
      if (item >= 0) items[d].push_back(item);
    }
  }
  return items;
}

BlockLayout BlockPairs::from_walk(const std::vector<int>& items) const {
  BlockLayout layout;
  for (std::size_t d = 0; d < items.size(); ++d) layout.push_back(choices_[d][index(items[d])]);
  return layout;
}

void BlockPairs::enter_case(const BlockDomains& domains) {
  if (is_of_case_) {
    narrow(domains);
  } else {
    walk_->restore(whole_);
    walk_->keep(to_walk(domains));
  }
}

BlockDomains BlockPairs::left() const {
  BlockDomains domains = walk_->left();
  for (std::size_t d = 0; d < domains.size(); ++d) {
    for (int& choice : domains[d]) choice = choices_[d][index(choice)];
  }
  return domains;
}

bool BlockPairs::allows(const BlockLayout& layout) const {
  std::vector<int> items;
  for (std::size_t d = 0; d < layout.size(); ++d) items.push_back(to_walk(d, layout[d]));
  return std::ranges::min(items) >= 0 && walk_->allows(items);
}

BlockWalk::Costs BlockPairs::by_devices(const std::vector<double>& of_choices) const {
  BlockWalk::Costs costs;
  for (const BlockNumbers& choices : choices_) {
    std::vector<double>& own = costs.emplace_back();
    for (const int c : choices) own.push_back(of_choices[index(c)]);
  }
  return costs;
}

bool BlockPairs::thin_out(double limit, std::int64_t effort, const std::stop_token& stop) {
  const bool is_left = walk_->thin_out(limit, effort, stop);
  is_of_case_ = true;
  return is_left;
}

std::optional<BlockSum> BlockPairs::cover(const std::vector<double>& of_choices, double most) {
  const auto row = walk_->weigh(by_devices(of_choices), most);
  if (!row) return {};
  return BlockSum{row->sum, from_walk(row->items)};
}

bool BlockPairs::walk(double limit, std::int64_t effort,
                      const std::function<void(const BlockLayout&)>& visit,
                      const std::stop_token& stop) {
  return walk_->walk(
      limit, effort, [&](const std::vector<int>& items, double) { visit(from_walk(items)); }, stop);
}

}  // namespace stagecraft
