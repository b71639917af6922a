#include "planner/relaxations/block_packing.hpp"

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <numeric>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Whether stages with equally many layers, neither the first nor the last of the model, have equal
/// costs.
bool has_alike_blocks(const CostTable& table, int layers, OptimizerKind optimizer) {
  const auto one = [](int layer) { return LayerRange{layer, layer + 1}; };
  for (int layer = 2; layer + 1 < layers; ++layer) {
    const bool alike = table.forward(one(layer)) == table.forward(one(1)) &&
                       table.backward(one(layer)) == table.backward(one(1)) &&
                       table.backward_input(one(layer)) == table.backward_input(one(1)) &&
                       table.crossing(layer) == table.crossing(1) &&
                       table.memory(one(layer), optimizer) == table.memory(one(1), optimizer);
    if (!alike) return false;
  }
  return table.crossing(layers - 1) == table.crossing(1);
}

constexpr std::int64_t steps_per_spread = 10, steps_per_choice = 10;

/// A small fixed-size array. It allocates nothing, since there are millions of choices.
template <class Value, std::size_t most>
using Few = boost::container::static_vector<Value, most>;

template <std::size_t most>
Few<Recompute, most> as_choices(unsigned again, std::size_t stages) {
  Few<Recompute, most> choices;
  for (std::size_t t = 0; t < stages; ++t) {
    choices.push_back(((again >> t) & 1u) != 0 ? Recompute::full : Recompute::none);
  }
  return choices;
}

}  // namespace

/// Costs of a device's stages with given numbers of blocks.
struct BlockPacking::Spread {
  Few<ChunkMemory, most_turns> memory;
  Few<Time, most_turns> forward;
  Few<char, most_turns> computes;  ///< per stage: whether its backward takes any time
  Time pass = 0;
};

bool BlockPacking::applies(const Space& space, const Setting& setting) {
  if (space.layers() < 4 || space.layers_choose()) return false;
  const CostTable* before = nullptr;
  for (int device = 0; device < *setting.depth; ++device) {
    const CostTable* table = &space.whole_microbatch(setting, device);
    if (table == before) continue;
    before = table;
    if (!has_alike_blocks(*table, space.layers(), space.problem().optimizer.kind)) return false;
  }
  return true;
}

BlockPacking::BlockPacking(const Space& space, const Setting& setting, const TimedOrder& order,
                           Time limit)
    : space_(space),
      setting_(setting),
      order_(order),
      limit_(limit),
      depth_(*setting.depth),
      stages_(depth_ * std::max(setting.schedule.virtual_stages, 1)),
      layers_(space.layers()),
      stages_of_(index(depth_)),
      shares_(index(stages_)),
      choices_(index(depth_)) {
  for (int s = 0; s < stages_; ++s) stages_of_[index(setting.device_of(s, depth_))].push_back(s);
  // Devices with far fewer blocks than the others are left out of the estimate.
  constexpr int most_below_even = 2;
  fewest_ = std::max((layers_ - 2) / depth_ - most_below_even, 0);
  for (int device = 0; device < depth_; ++device) most_held_.push_back(most_held(device));
  if (!is_worth_it()) return;
  for (int s = 0; s < stages_; ++s) list_shares(s);
  for (int device = 0; device < depth_; ++device) list_choices(device);
  find_bound();
  if (bound_ <= limit_) make_layout();
}

/// Whether there are few enough choices within the limit.
bool BlockPacking::is_worth_it() const {
  constexpr double most = 2e7;
  const int turns = stages_ / depth_;
  if (turns > most_turns) return false;
  const CostTable& table = space_.whole_microbatch(setting_, 0);
  const Time block = (table.forward({1, 2}) + table.backward({1, 2})).count();
  const Time top = block == 0 ? layers_ - 2 : limit_ / setting_.microbatches / block;
  const int in_stages = turns * std::max(space_.problem().min_layers_per_stage, 1);
  double choices = 0;
  const int held = *std::ranges::max_element(most_held_);
  for (int blocks = fewest_; blocks <= std::min<Time>(top, held); ++blocks) {
    const double free = blocks - in_stages + 2;  // the first and the last stage may have no block
    double ways = free < 0 ? 0 : 1;
    for (int t = 1; t < turns; ++t) ways *= (free + t) / t;
    choices += ways;
  }
  for (int t = 0; t < turns; ++t) choices *= 2;
  std::size_t moments = 0;
  for (const auto& of_device : order_.moments) moments += of_device.size();
  return choices * static_cast<double>(moments) < most;
}

/// Number of layers other than the first and the last of the model.
int BlockPacking::blocks_in(const LayerRange& layers) const {
  return std::max(std::min(layers.end, layers_ - 1) - std::max(layers.first, 1), 0);
}

LayerRange BlockPacking::range(int stage, int blocks) const {
  if (stages_ == 1) return {0, layers_};
  if (stage == 0) return {0, 1 + blocks};
  if (stage + 1 == stages_) return {layers_ - 1 - blocks, layers_};
  return {1, 1 + blocks};
}

/// Maximum number of blocks whose parameters, gradients and optimizer states fit on the device,
/// without the model's first and last layer.
int BlockPacking::most_held(int device) const {
  const DeviceKind& kind = space_.kind(setting_, device);
  if (kind.memory_unlimited) return layers_ - 2;
  const CostTable& table = space_.whole_microbatch(setting_, device);
  const OptimizerChoice& optimizer = space_.problem().optimizer;
  for (int blocks = 1; blocks <= layers_ - 2; ++blocks) {
    // Shares are rounded up, so the shares of several stages add up to at least the share of all
    // their blocks.
    const ChunkMemory memory = memory_share(table.memory({1, 1 + blocks}, optimizer.kind),
                                            optimizer.sharding, space_.holders(setting_, 1));
    if (memory.parameters + memory.gradients + memory.optimizer > usable_memory(kind))
      return blocks - 1;
  }
  return layers_ - 2;
}

void BlockPacking::list_shares(int stage) {
  const int device = setting_.device_of(stage, depth_);
  const CostTable& table = space_.whole_microbatch(setting_, device);
  const OptimizerChoice& optimizer = space_.problem().optimizer;
  for (int blocks = 0; blocks <= most_held_[index(device)]; ++blocks) {
    const LayerRange of_blocks{1, 1 + blocks};
    const Time pass = (table.forward(of_blocks) + table.backward(of_blocks)).count();
    if (setting_.microbatches * pass > limit_) break;
    const LayerRange layers = range(stage, blocks);
    if (layers.first == layers.end) {
      shares_[index(stage)].emplace_back();  // no stage is empty
      continue;
    }
    shares_[index(stage)].push_back(
        {.memory = memory_share(table.memory(layers, optimizer.kind), optimizer.sharding,
                                space_.holders(setting_, 1)),
         .forward = table.forward(layers).count(),
         .pass = (table.forward(layers) + table.backward(layers)).count(),
         .computes = table.backward_input(layers) > Duration{0}});
  }
}

void BlockPacking::list_choices(int device) {
  choices_[index(device)].assign(index(layers_ - 1), {});
  std::vector<int> blocks(stages_of_[index(device)].size());
  spread(device, blocks, 0, [&](const std::vector<int>& found) { consider(device, found); });
}

/// Enumerates the numbers of blocks of the device's stages from `turn` on, pruned by the device's
/// load.
void BlockPacking::spread(int device, std::vector<int>& blocks, std::size_t turn,
                          const Visit& visit) const {
  if (turn == blocks.size()) return visit(blocks);
  const CostTable& table = space_.whole_microbatch(setting_, device);
  const int stage = stages_of_[index(device)][turn];
  const bool is_end = stage == 0 || stage + 1 == stages_;
  const int least = std::max(space_.problem().min_layers_per_stage, 1) - (is_end ? 1 : 0);
  const int before = std::accumulate(blocks.begin(), blocks.begin() + static_cast<long>(turn), 0);
  const auto fixed = space_.fixed_layers(stage);
  if (fixed && blocks_in(*fixed) < least) return;
  const int most = most_held_[index(device)];
  for (int count = fixed ? blocks_in(*fixed) : least; before + count <= most; ++count) {
    const LayerRange all{1, 1 + before + count};
    const Time pass = (table.forward(all) + table.backward(all)).count();
    if (setting_.microbatches * pass > limit_) break;
    blocks[turn] = count;
    spread(device, blocks, turn + 1, visit);
    if (fixed) break;
  }
  blocks[turn] = 0;
}

bool BlockPacking::fits(int device, const Spread& spread, unsigned again) const {
  const DeviceKind& kind = space_.kind(setting_, device);
  if (kind.memory_unlimited) return true;
  const auto recompute = as_choices<most_turns>(again, spread.memory.size());
  const auto steps = static_cast<std::int64_t>(spread.memory.size()) / 2 + 1;
  const auto& moments = order_.moments[index(device)];
  return std::all_of(moments.begin(), moments.end(), [&](const FullMoment& moment) {
    spent_ += steps;
    // A backward that takes no time ends at the instant it begins, so it makes no peak.
    const bool shows = spread.computes[index(moment.turn)] != 0;
    return bytes_at(moment, {spread.memory.data(), spread.memory.size()},
                    {recompute.data(), recompute.size()}, shows) <= usable_memory(kind);
  });
}

bool BlockPacking::may_fit(int device, const Spread& spread) const {
  const auto [first, last] = recompute_choices(device);
  return fits(device, spread, last);
}

Time BlockPacking::pass_of(int device, const std::vector<int>& blocks) const {
  Time pass = 0;
  for (std::size_t t = 0; t < blocks.size(); ++t) {
    pass += shares_[index(stages_of_[index(device)][t])][index(blocks[t])].pass;
  }
  return pass;
}

BlockPacking::Spread BlockPacking::measured(int device, const std::vector<int>& blocks) const {
  Spread spread;
  for (std::size_t t = 0; t < blocks.size(); ++t) {
    const Share& share = shares_[index(stages_of_[index(device)][t])][index(blocks[t])];
    spread.memory.push_back(share.memory);
    spread.forward.push_back(share.forward);
    spread.pass += share.pass;
    spread.computes.push_back(share.computes ? 1 : 0);
  }
  return spread;
}

/// With the stages of these bits recomputing.
Time BlockPacking::load(const Spread& spread, unsigned again) const {
  Time pass = spread.pass;
  for (std::size_t t = 0; t < spread.forward.size() && !order_.places_recompute; ++t) {
    if (((again >> t) & 1u) != 0) pass += spread.forward[t];
  }
  return setting_.microbatches * pass;
}

/// The range of sets of recomputing stages, as bits, that the space allows.
std::pair<unsigned, unsigned> BlockPacking::recompute_choices(int device) const {
  const unsigned all = (1u << stages_of_[index(device)].size()) - 1;
  const bool may_keep = space_.allows(Recompute::none) && !order_.places_recompute;
  const bool may_recompute = space_.allows(Recompute::full) || order_.places_recompute;
  return {may_keep ? 0 : all, may_recompute ? all : 0};
}

/// Records the least load of these blocks, over all choices of recomputation that fit.
void BlockPacking::consider(int device, const std::vector<int>& blocks) {
  const int all_blocks = std::accumulate(blocks.begin(), blocks.end(), 0);
  spent_ += steps_per_spread;
  if (all_blocks < fewest_) return;
  BlockChoice& best = choices_[index(device)][index(all_blocks)];
  const Time without = setting_.microbatches * pass_of(device, blocks);
  if (without >= best.load || without > limit_) return;
  const Spread spread = measured(device, blocks);
  const auto [first, last] = recompute_choices(device);
  const Time least = load(spread, first);
  if (least >= best.load || least > limit_ || !may_fit(device, spread)) return;
  for (unsigned again = first; again <= last; ++again) {
    const Time load = this->load(spread, again);
    if (load >= best.load || load > limit_) continue;
    spent_ += steps_per_choice;
    if (fits(device, spread, again)) {
      const auto recompute = as_choices<most_turns>(again, blocks.size());
      best = {load, blocks, {recompute.begin(), recompute.end()}};
    }
  }
}

/// Adds the minimal sets of recomputing stages that fit.
void BlockPacking::add_choices(int device, const std::vector<int>& blocks,
                               std::vector<BlockChoice>& choices) const {
  if (setting_.microbatches * pass_of(device, blocks) > limit_) return;
  const Spread spread = measured(device, blocks);
  const auto [first, last] = recompute_choices(device);
  if (load(spread, first) > limit_ || !may_fit(device, spread)) return;
  std::vector<unsigned> fitting;
  for (unsigned again = first; again <= last; ++again) {
    // In counting order every set comes after its subsets.
    const auto contains = [&](unsigned other) { return (again & other) == other; };
    if (std::any_of(fitting.begin(), fitting.end(), contains)) continue;
    const Time load = this->load(spread, again);
    spent_ += steps_per_choice;
    if (load > limit_) continue;
    if (!fits(device, spread, again)) continue;
    fitting.push_back(again);
    const auto recompute = as_choices<most_turns>(again, blocks.size());
    choices.push_back({load, blocks, {recompute.begin(), recompute.end()}});
  }
}

std::optional<std::vector<std::vector<BlockChoice>>> BlockPacking::all_choices() const {
  constexpr std::int64_t most_steps = 10'000'000;
  constexpr std::size_t most_choices = 100'000;
  if (bound_ == 0 || bound_ > limit_) return {};
  std::vector<int> most;
  for (int device = 0; device < depth_; ++device) most.push_back(most_blocks(device, limit_));
  const int room = std::accumulate(most.begin(), most.end(), 0);
  const std::int64_t last = spent_ + most_steps;
  std::size_t listed = 0;
  const auto is_too_much = [&] { return spent_ > last || listed > most_choices; };
  std::vector<std::vector<BlockChoice>> all(index(depth_));
  for (int device = 0; device < depth_; ++device) {
    // The other devices have no room for more blocks than this leaves.
    const int fewest = layers_ - 2 - (room - most[index(device)]);
    std::vector<BlockChoice>& own = all[index(device)];
    std::vector<int> blocks(stages_of_[index(device)].size());
    spread(device, blocks, 0, [&](const std::vector<int>& found) {
      const int count = std::accumulate(found.begin(), found.end(), 0);
      spent_ += steps_per_spread;
      if (count < fewest || count > most[index(device)] || is_too_much()) return;
      const std::size_t before = own.size();
      add_choices(device, found, own);
      listed += own.size() - before;
    });
    if (is_too_much()) return {};
  }
  return all;
}

/// Maximum number of blocks on the device within the limit.
int BlockPacking::most_blocks(int device, Time limit) const {
  const auto& choices = choices_[index(device)];
  for (int blocks = static_cast<int>(choices.size()) - 1; blocks >= 0; --blocks) {
    if (choices[index(blocks)].load <= limit) return blocks;
  }
  return fewest_ - 1;
}

std::vector<int> BlockPacking::most_layers() const {
  std::vector<int> most;
  if (bound_ == 0) return most;
  for (int device = 0; device < depth_; ++device) most.push_back(most_blocks(device, limit_));
  for (const int end : {0, stages_ - 1}) ++most[index(setting_.device_of(end, depth_))];
  return most;
}

void BlockPacking::find_bound() {
  std::vector<Time> loads;
  for (const auto& choices : choices_) {
    for (const BlockChoice& choice : choices) {
      if (choice.load < never) loads.push_back(choice.load);
    }
  }
  std::sort(loads.begin(), loads.end());
  const auto has_room = [&](Time limit) {
    std::int64_t blocks = 0;
    for (int device = 0; device < depth_; ++device) blocks += most_blocks(device, limit);
    return blocks >= layers_ - 2;
  };
  const auto least = std::partition_point(loads.begin(), loads.end(),
                                          [&](Time limit) { return !has_room(limit); });
  bound_ = least == loads.end() ? limit_ + 1 : *least;
}

void BlockPacking::make_layout() {
  std::vector<int> counts;
  for (int device = 0; device < depth_; ++device) counts.push_back(most_blocks(device, bound_));
  int excess = std::accumulate(counts.begin(), counts.end(), 0) - (layers_ - 2);
  for (int device = 0; device < depth_; ++device) {
    if (counts[index(device)] < std::max(fewest_, 0)) return;
  }
  // The excess blocks are taken from the devices with the highest load first.
  while (excess > 0) {
    int giver = -1;
    for (int device = 0; device < depth_; ++device) {
      const auto load = [&](int d, int n) {
        return n < 0 ? never : choices_[index(d)][index(n)].load;
      };
      if (load(device, counts[index(device)] - 1) >= never) continue;
      if (giver < 0 || load(device, counts[index(device)]) > load(giver, counts[index(giver)])) {
        giver = device;
      }
    }
    if (giver < 0) return;
    --counts[index(giver)];
    --excess;
  }
  std::vector<const BlockChoice*> choices;
  for (int device = 0; device < depth_; ++device) {
    choices.push_back(&choices_[index(device)][index(counts[index(device)])]);
  }
  layout_ = layout_of(choices);
}

Layout BlockPacking::layout_of(const std::vector<const BlockChoice*>& choices) const {
  Layout layout{.replicas = std::vector<int>(index(depth_), 1), .cuts = {0}, .recompute = {}};
  std::vector<std::size_t> turn(index(depth_));
  for (int s = 0; s < stages_; ++s) {
    const int device = setting_.device_of(s, depth_);
    const BlockChoice& choice = *choices[index(device)];
    const std::size_t t = turn[index(device)]++;
    const int ends = (s == 0 ? 1 : 0) + (s + 1 == stages_ ? 1 : 0);
    layout.cuts.push_back(layout.cuts.back() + choice.blocks[t] + ends);
    layout.recompute.push_back(choice.recompute[t]);
  }
  return layout;
}

}  // namespace stagecraft
