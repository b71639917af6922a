#include "planner/timing/pipeline_costs.hpp"

#include <algorithm>
#include <limits>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

double in_double(Duration time) {
  return static_cast<double>(time.count());
}

}  // namespace

StageTimes StageTimes::of(const StageCosts& costs, double again) {
  return {.forward = costs.forward,
          .backward = again + costs.backward,
          .backward_input = again + costs.backward_input,
          .backward_weight = costs.backward_weight,
          .sum = costs.sum,
          .update = costs.update,
          .collect = costs.collect};
}

void StageTimes::lower_to(const StageTimes& other) {
  forward = std::min(forward, other.forward);
  backward = std::min(backward, other.backward);
  backward_input = std::min(backward_input, other.backward_input);
  backward_weight = std::min(backward_weight, other.backward_weight);
  sum = std::min(sum, other.sum);
  update = std::min(update, other.update);
  collect = std::min(collect, other.collect);
}

void StageTimes::add(const StageTimes& other, double weight) {
  forward += weight * other.forward;
  backward += weight * other.backward;
  backward_input += weight * other.backward_input;
  backward_weight += weight * other.backward_weight;
  sum += weight * other.sum;
  update += weight * other.update;
  collect += weight * other.collect;
}

PipelineCosts::PipelineCosts(const Space& space, const Setting& setting, Time limit)
    : space_(space),
      setting_(setting),
      depth_(*setting.depth),
      stages_(depth_ * std::max(setting.schedule.virtual_stages, 1)),
      layers_(space.layers()) {
  std::vector<int> turns(index(depth_));
  for (int stage = 0; stage < stages_; ++stage) {
    device_of_.push_back(setting.device_of(stage, depth_));
    turn_of_.push_back(turns[index(device_of_.back())]++);
  }
  for (int device = 0; device < depth_; ++device) {
    kind_of_.push_back(kind_of_device(device, limit));
    const DeviceKind& kind = space.kind(setting, device);
    limits_.push_back(kind.memory_unlimited ? std::numeric_limits<double>::infinity()
                                            : static_cast<double>(usable_memory(kind)));
  }
  fill_cuts();
  time_tie();
}

int PipelineCosts::kind_of_device(int device, Time limit) {
  const CostTable& table = space_.whole_microbatch(setting_, device);
  const StageGroups group =
      space_.holders(setting_, 1).all > 1 ? space_.groups(setting_, {device}) : StageGroups{};
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    if (kinds_[k].table == &table && kinds_[k].group == group) return static_cast<int>(k);
  }
  kinds_.push_back(
      {.table = &table, .group = group, .last_end = {}, .first_cost = {}, .costs = {}, .begin = 0});
  if (kinds_.size() > 1) {
    const Kind& before = kinds_[kinds_.size() - 2];
    kinds_.back().begin = before.begin + before.costs.size();
  }
  fill(kinds_.back(), limit);
  return static_cast<int>(kinds_.size()) - 1;
}

void PipelineCosts::fill(Kind& kind, Time limit) const {
  const OptimizerChoice& optimizer = space_.problem().optimizer;
  const Holders holders = space_.holders(setting_, 1);
  const CostTable& table = *kind.table;
  ExposedSums sums(optimizer, setting_.schedule);
  for (int first = 0; first < layers_; ++first) {
    kind.first_cost.push_back(kind.costs.size());
    int end = first + 1;
    for (; end <= layers_; ++end) {
      const LayerRange layers{first, end};
      const Duration pass = table.forward(layers) + table.backward(layers);
      if (setting_.microbatches * pass.count() > limit) break;
      const ChunkMemory memory =
          memory_share(table.memory(layers, optimizer.kind), optimizer.sharding, holders);
      kind.costs.push_back(
          {.forward = in_double(table.forward(layers)),
           .backward = in_double(table.backward(layers)),
           .backward_input = in_double(table.backward_input(layers)),
           .backward_weight = in_double(table.backward_weight(layers)),
           .update = in_double(update_share(table.update(layers), optimizer.sharding, holders)),
           .sum = holders.all < 2 ? 0 : in_double(sums.exposed(table, layers, kind.group)),
           .collect = holders.all < 2 ? 0
                                      : in_double(collect_time(kind.group, optimizer.sharding,
                                                               table.parameters(layers))),
           .memory = memory});
    }
    kind.last_end.push_back(end - 1);
  }
}

void PipelineCosts::fill_cuts() {
  cuts_.assign(index(stages_) * index(layers_ + 1), {});
  for (int stage = 0; stage + 1 < stages_; ++stage) {
    const int here = device_of(stage), next = device_of(stage + 1);
    if (here == next) continue;
    const Link there = space_.message_link(setting_, here, next);
    const Link back = space_.message_link(setting_, next, here);
    for (int layer = 1; layer < layers_; ++layer) {
      const Bytes bytes = space_.boundary(setting_, here, layer);
      cuts_[index(stage) * index(layers_ + 1) + index(layer)] = {
          .there_latency = in_double(there.latency),
          .there_occupancy = in_double(transfer_time(bytes, there.point_to_point)),
          .back_latency = in_double(back.latency),
          .back_occupancy = in_double(transfer_time(bytes, back.point_to_point))};
    }
  }
}

void PipelineCosts::time_tie() {
  const int owner = device_of(0), user = device_of(stages_ - 1);
  const CostTable& table = space_.whole_microbatch(setting_, owner);
  for (const Tie& tie : space_.problem().profile.model.ties) {
    if (tie.owner != 0 || tie.user != layers_ - 1) continue;
    joins_ends_ = owner == user;
    if (joins_ends_) return;
    const Bytes bytes = tie_bytes(tie, table, space_.problem().precision);
    const DeviceGroup group = space_.group(setting_, {owner, user});
    tie_ = std::max(tie_, in_double(collective_time(Collective::all_reduce, group, bytes)));
  }
}

int PipelineCosts::stage_of(int device, int turn) const {
  int stage = 0;
  while (device_of(stage) != device || turn_of(stage) != turn) ++stage;
  return stage;
}

int PipelineCosts::last_end(int stage, int first) const {
  return kind_of(stage).last_end[index(first)];
}

const CutCosts& PipelineCosts::cut(int stage, int layer) const {
  return cuts_[index(stage) * index(layers_ + 1) + index(layer)];
}

bool PipelineCosts::may_take_no_time(int stage) const {
  for (int first = stage; first < layers_ - (stages_ - 1 - stage); ++first) {
    if (last_end(stage, first) > first && this->stage(stage, first, first + 1).backward_input == 0)
      return true;
  }
  return false;
}

}  // namespace stagecraft
