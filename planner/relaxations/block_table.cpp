#include "planner/relaxations/block_table.hpp"

#include "planner/timing/stage_clock.hpp"

namespace stagecraft {

BlockTable::BlockTable(const PipelineCosts& costs, const TimedOrder& order,
                       const BlockPacking& packing)
    : all_choices_(packing.all_choices()) {
  if (all_choices_) list_choices(costs, order, packing);
}

void BlockTable::list_choices(const PipelineCosts& costs, const TimedOrder& order,
                              const BlockPacking& packing) {
  turns_ = packing.stages_of(0).size();
  std::map<std::vector<int>, int> numbers;
  const auto cell_of = [&](int stage, int blocks, bool again) {
    const auto [known, is_new] = numbers.try_emplace(std::vector<int>{stage, blocks, again ? 1 : 0},
                                                     static_cast<int>(cells_.size()));
    if (is_new) {
      const LayerRange layers = packing.range(stage, blocks);
      const StageCosts& own = costs.stage(stage, layers.first, layers.end);
      cells_.push_back({stage, &own, again ? own.forward : 0});
    }
    return known->second;
  };
  for (int device = 0; device < costs.depth(); ++device) {
    const std::vector<int>& stages = packing.stages_of(device);
    BlockNumbers& domain = domains_.emplace_back();
    for (const BlockChoice& choice : (*all_choices_)[index(device)]) {
      domain.push_back(size());
      choices_.push_back({&choice, device, choice.all_blocks()});
      for (std::size_t t = 0; t < turns_; ++t) {
        const bool again = choice.recompute[t] == Recompute::full && !order.places_recompute;
        choice_cells_.push_back(cell_of(stages[t], choice.blocks[t], again));
      }
    }
  }
}

std::vector<StageTimes> BlockTable::times_of(int choice) const {
  std::vector<StageTimes> times;
  for (const int cell : cells_of(choice))
    times.push_back(StageTimes::of(*cells_[index(cell)].costs, cells_[index(cell)].again));
  return times;
}

}  // namespace stagecraft
