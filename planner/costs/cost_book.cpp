#include "planner/costs/cost_book.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "planner/costs/sharded_costs.hpp"
#include "profiles/error.hpp"
#include "profiles/peer_messages.hpp"

namespace stagecraft {

namespace {

/// Sums of `figure` over the first n layers, for n = 0 … layers.
template <class Sum, class Figure>
std::vector<Sum> prefix_sums(const std::vector<LayerCost>& costs, Figure figure) {
  std::vector<Sum> sums{Sum{0}};
  for (const LayerCost& cost : costs) sums.push_back(sums.back() + figure(cost));
  return sums;
}

/// The costs, if sums over them and a few thousand microbatches are numbers at all. Throws Error
/// (input).
const std::vector<LayerCost>& plausible(const std::vector<LayerCost>& costs) {
  constexpr double most_time = 1e15, most_bytes = 1e16;
  double time = 0, bytes = 0;
  for (const LayerCost& cost : costs) {
    for (const Duration part :
         {cost.forward, cost.backward_input, cost.backward_weight, cost.update}) {
      time += static_cast<double>(part.count());
    }
    for (const Bytes part : {cost.parameters, cost.gradients, cost.optimizer, cost.saved,
                             cost.saved_for_weight, cost.output, cost.workspace}) {
      bytes += static_cast<double>(part);
    }
  }
  if (time > most_time) {
    fail("the layers need ", static_cast<std::int64_t>(time / 1e9 / 86400),
         " days for one microbatch; expected at most 11: look at the units of their times");
  }
  if (bytes > most_bytes) {
    fail("the layers need ", static_cast<std::int64_t>(bytes / 1e15),
         " PB for one microbatch; expected at most 10: look at the units of their memory");
  }
  return costs;
}

Bytes scaled(Bytes bytes, std::int64_t rows, std::int64_t whole) {
  // Quotient and remainder apart, so that no product overflows.
  return bytes / whole * rows + (bytes % whole * rows + whole - 1) / whole;
}

Duration scaled(Duration time, std::int64_t rows, std::int64_t whole) {
  return Duration{scaled(time.count(), rows, whole)};
}

/// The cost of some rows of a measured microbatch; what depends on weights only stays.
LayerCost scaled(LayerCost cost, std::int64_t rows, std::int64_t whole) {
  cost.forward = scaled(cost.forward, rows, whole);
  cost.backward_input = scaled(cost.backward_input, rows, whole);
  cost.backward_weight = scaled(cost.backward_weight, rows, whole);
  cost.split_overhead = std::min(scaled(cost.split_overhead, rows, whole),
                                 cost.backward_input + cost.backward_weight);
  cost.forward_exchange = scaled(cost.forward_exchange, rows, whole);
  cost.backward_exchange = scaled(cost.backward_exchange, rows, whole);
  cost.saved = scaled(cost.saved, rows, whole);
  cost.saved_for_weight = scaled(cost.saved_for_weight, rows, whole);
  cost.output = scaled(cost.output, rows, whole);
  cost.output_freed = std::min(cost.output, scaled(cost.output_freed, rows, whole));
  cost.workspace = scaled(cost.workspace, rows, whole);
  if (cost.selective) {
    cost.selective->again = scaled(cost.selective->again, rows, whole);
    cost.selective->saved = scaled(cost.selective->saved, rows, whole);
  }
  return cost;
}

/// Of each layer, the last one that reads its output; itself where nobody does.
std::vector<int> last_readers(const Model& model) {
  std::vector<int> last(model.layers.size());
  std::iota(last.begin(), last.end(), 0);
  for (const Edge& edge : model.edges) {
    int& reader = last[static_cast<std::size_t>(edge.from)];
    reader = std::max(reader, edge.to);
  }
  return last;
}

/// Levels of a sparse table: the largest of any range is the larger of two overlapping powers of
/// two.
std::vector<std::vector<Bytes>> range_maxima(const std::vector<LayerCost>& costs) {
  std::vector<std::vector<Bytes>> levels(1);
  for (const LayerCost& cost : costs) levels[0].push_back(cost.workspace);
  for (std::size_t width = 2; width <= costs.size(); width *= 2) {
    const std::vector<Bytes>& half = levels.back();
    std::vector<Bytes> level;
    for (std::size_t i = 0; i + width <= costs.size(); ++i) {
      level.push_back(std::max(half[i], half[i + width / 2]));
    }
    levels.push_back(std::move(level));
  }
  return levels;
}

}  // namespace

CostTable::CostTable(const Model& model, const std::vector<LayerCost>& costs, bool in_pairs)
    : costs_(plausible(costs)),
      forward_(prefix_sums<Duration>(costs, [](const auto& c) { return c.forward; })),
      backward_(prefix_sums<Duration>(costs, [](const auto& c) { return c.backward(); })),
      backward_input_(prefix_sums<Duration>(costs, [](const auto& c) { return c.backward_input; })),
      backward_weight_(
          prefix_sums<Duration>(costs, [](const auto& c) { return c.backward_weight; })),
      update_(prefix_sums<Duration>(costs, [](const auto& c) { return c.update; })),
      expert_update_(prefix_sums<Duration>(
          costs, [](const auto& c) { return expert_part(c, c.update).experts; })),
      forward_exchange_(
          prefix_sums<Duration>(costs, [](const auto& c) { return c.forward_exchange; })),
      backward_exchange_(
          prefix_sums<Duration>(costs, [](const auto& c) { return c.backward_exchange; })),
      parameters_(prefix_sums<Bytes>(costs, [](const auto& c) { return c.parameters; })),
      gradients_(prefix_sums<Bytes>(costs, [](const auto& c) { return c.gradients; })),
      optimizer_(prefix_sums<Bytes>(costs, [](const auto& c) { return c.optimizer; })),
      saved_(prefix_sums<Bytes>(costs, [](const auto& c) { return c.saved; })),
      saved_for_weight_(
          prefix_sums<Bytes>(costs, [](const auto& c) { return c.saved_for_weight; })),
      output_kept_(
          prefix_sums<Bytes>(costs, [](const auto& c) { return c.output - c.output_freed; })),
      expert_parameters_(
          prefix_sums<Bytes>(costs, [](const auto& c) { return c.expert_parameters; })),
      expert_gradients_(prefix_sums<Bytes>(
          costs, [](const auto& c) { return expert_part(c, c.gradients).experts; })),
      expert_optimizer_(prefix_sums<Bytes>(
          costs, [](const auto& c) { return expert_part(c, c.optimizer).experts; })),
      crossing_(crossing_bytes(model, costs)),
      last_reader_(last_readers(model)),
      workspace_(range_maxima(costs)),
      end_of_head_(
          model.layers.back().kind == LayerKind::head ? static_cast<int>(model.layers.size()) : 0),
      in_pairs_(in_pairs) {
  for (const LayerCost& cost : costs) provenance_ = std::max(provenance_, cost.provenance);
}

ChunkCosts CostTable::times(const LayerRange& layers, const std::vector<Recomputed>& again) const {
  ChunkCosts costs{.forward = forward(layers),
                   .backward = backward(layers),
                   .backward_input = between(backward_input_, layers),
                   .backward_weight = between(backward_weight_, layers),
                   .recompute = forward(layers),
                   .update = update(layers).all};
  for (std::size_t i = 0; i < again.size(); ++i) {
    const LayerCost& plain = layer(layers.first + static_cast<int>(i));
    const Duration longer = recomputed(plain, again[i]).backward_input - plain.backward_input;
    costs.backward += longer;
    costs.backward_input += longer;
  }
  return costs;
}

Bytes CostTable::largest_workspace(const LayerRange& layers) const {
  const auto level =
      static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(layers.size())) - 1);
  const auto first = static_cast<std::size_t>(layers.first);
  const auto end = static_cast<std::size_t>(layers.end);
  const std::vector<Bytes>& largest = workspace_[level];
  return std::max(largest[first], largest[end - (std::size_t{1} << level)]);
}

/// A layer's `saved` does not contain its input. Inside a stage that is the output of the layer
/// before, which somebody must keep (but for what is freed): so all outputs but the last are saved,
/// and the stage's own input is counted apart. Without layers there is what comes in, until it has
/// gone out.
ChunkMemory CostTable::memory(const LayerRange& layers, OptimizerKind optimizer,
                              const std::vector<Recomputed>& again) const {
  if (layers.size() == 0) {
    return {.input = crossing(layers.first), .output = crossing(layers.end), .keeps_input = false};
  }
  const Bytes inner = between(output_kept_, {layers.first, layers.end - 1});
  const bool has_states = optimizer == OptimizerKind::adamw;
  ChunkMemory memory{.parameters = between(parameters_, layers),
                     .gradients = between(gradients_, layers),
                     .optimizer = has_states ? between(optimizer_, layers) : 0,
                     .experts = {.parameters = between(expert_parameters_, layers),
                                 .gradients = between(expert_gradients_, layers),
                                 .optimizer = has_states ? between(expert_optimizer_, layers) : 0},
                     .saved = between(saved_, layers) + inner,
                     .saved_for_weight = between(saved_for_weight_, layers) + inner,
                     .input = crossing(layers.first),
                     .output = crossing(layers.end),
                     .workspace = largest_workspace(layers)};
  Bytes rebuilt = 0;  // by the layers of a run so far
  for (std::size_t i = 0; i < again.size(); ++i) {
    const int place = layers.first + static_cast<int>(i);
    const LayerCost& plain = layer(place);
    const LayerCost changed = recomputed(plain, again[i]);
    memory.saved += changed.saved - plain.saved;
    memory.workspace = std::max(memory.workspace, changed.workspace + rebuilt);
    if (again[i] != Recomputed::with_next) {
      rebuilt = 0;
      continue;
    }
    const Bytes left_out = output_left_out(place, layers.first, again);
    memory.saved -= left_out;
    rebuilt += changed.workspace - plain.workspace + left_out;
  }
  if (in_pairs_) memory.workspace += memory.input + memory.saved - saved_of_loss(layers);
  return memory;
}

/// Logits are gone when the next microbatch comes to the head.
Bytes CostTable::saved_of_loss(const LayerRange& layers) const {
  return layers.end == end_of_head_ ? between(saved_, {layers.end - 1, layers.end}) : 0;
}

/// What need not be kept of the layer's output, as all who read it are in its run.
Bytes CostTable::output_left_out(int which, int first, const std::vector<Recomputed>& again) const {
  const auto does = [&](int layer) { return again[static_cast<std::size_t>(layer - first)]; };
  int end = which;
  while (does(end) == Recomputed::with_next) ++end;
  const bool is_read_later = last_reader_[static_cast<std::size_t>(which)] > end;
  return is_read_later ? 0 : between(output_kept_, {which, which + 1});
}

CostBookSetting book_setting(const Plan& plan) {
  return {.precision = plan.precision,
          .sequence = plan.batch.sequence,
          .parallelism = plan.parallelism,
          .sharding = plan.optimizer.sharding,
          .kernels = plan.kernels,
          .chunk = serves(plan) ? requests_of(plan).chunk : 0};
}

CostSetting CostBook::setting_for(int kind, std::int64_t samples, int peers) const {
  const DeviceKind& device = cluster_.kinds[static_cast<std::size_t>(kind)];
  CostSetting setting{
      .device = device.generic ? "generic" : device.name,
      .microbatch = samples,
      .sequence = setting_.sequence,
      .tensor_parallel = tensor_degree(setting_.parallelism, static_cast<std::size_t>(peers)),
      .precision = setting_.precision,
      .parallelism = setting_.parallelism,
      .kernels = setting_.kernels,
      .chunk = setting_.chunk};
  // One device has all tokens; measurements of it know nothing of peers.
  if (setting.tensor_parallel == 1) setting.parallelism.sequence = false;
  return setting;
}

const ProfileEntry* CostBook::entry(int kind, std::int64_t samples, int peers) const {
  return find_entry(profile_, setting_for(kind, samples, peers));
}

bool CostBook::is_scaled(int kind, std::int64_t microbatch, std::int64_t rows, int peers) const {
  return rows != microbatch && entry(kind, rows, peers) == nullptr &&
         entry(kind, microbatch, peers) != nullptr;
}

std::vector<LayerCost> CostBook::costs_of_rows(int kind, std::int64_t microbatch, std::int64_t rows,
                                               int peers) const {
  const CostSetting setting = setting_for(kind, rows, peers);
  const DeviceKind& device = cluster_.kinds[static_cast<std::size_t>(kind)];
  const auto find = [&] { return served_costs(profile_, cluster_, device, setting); };
  if (memo_ != nullptr) return memo_->costs(kind, setting, find);
  if (!is_scaled(kind, microbatch, rows, peers)) return find();
  const ProfileEntry& whole = *entry(kind, microbatch, peers);
  std::vector<LayerCost> costs = whole.layers;
  for (LayerCost& cost : costs) cost = scaled(cost, rows, microbatch);
  if (whole.has_peer_messages) return costs;
  return with_peer_messages(std::move(costs), profile_.model, cluster_, device, setting);
}

std::vector<LayerCost> CostBook::layer_costs_of(int kind, std::int64_t microbatch,
                                                std::int64_t rows, int peers) const {
  std::vector<LayerCost> costs = layer_costs_without_again(kind, microbatch, rows, peers);
  for (std::size_t layer = 0; layer < setting_.again.size(); ++layer)
    costs[layer] = recomputed(costs[layer], setting_.again[layer]);
  return costs;
}

std::vector<LayerCost> CostBook::layer_costs_without_again(int kind, std::int64_t microbatch,
                                                           std::int64_t rows, int peers) const {
  std::vector<LayerCost> costs = costs_of_rows(kind, microbatch, rows, peers);
  if (!shards_gradients(setting_.sharding)) return costs;
  const auto replicas = static_cast<int>(std::max<std::int64_t>(microbatch / rows, 1));
  if (replicas * peers > device_count(cluster_)) return costs;  // no such plan
  const StageGroups& groups = groups_of_neighbours(replicas, peers);
  // Many layers in a row cost the same.
  LayerCost before, after;
  bool is_first = true;
  for (LayerCost& cost : costs) {
    if (is_first || cost != before) {
      before = cost;
      after = with_shards(cost, setting_.sharding, groups);
    }
    is_first = false;
    cost = after;
  }
  return costs;
}

const StageGroups& CostBook::groups_of_neighbours(int replicas, int peers) const {
  const auto [known, is_new] = groups_.try_emplace({replicas, peers});
  if (is_new) {
    std::vector<std::vector<int>> neighbours(static_cast<std::size_t>(replicas));
    int device = 0;
    for (std::vector<int>& list : neighbours) {
      for (int peer = 0; peer < peers; ++peer) list.push_back(device++);
    }
    known->second = stage_groups(cluster_, setting_.parallelism, neighbours);
  }
  return known->second;
}

/// The largest part of these rows that was measured; all of them where that is no question.
std::int64_t CostBook::measured_part(int kind, std::int64_t microbatch, std::int64_t rows,
                                     int peers) const {
  const bool is_measured =
      entry(kind, rows, peers) != nullptr || entry(kind, microbatch, peers) != nullptr;
  std::int64_t part = 0;
  for (const ProfileEntry& measured : profile_.entries) {
    const std::int64_t size = measured.setting.microbatch;
    if (rows % size == 0 && size > part && entry(kind, size, peers) != nullptr) part = size;
  }
  return is_measured || part == 0 ? rows : part;
}

Bytes CostBook::crossing(int kind, std::int64_t microbatch, std::int64_t rows, int peers, int cut) {
  if (profile_.entries.empty()) return table(kind, microbatch, rows, peers).crossing(cut);
  const auto [known, is_new] = parts_.try_emplace({kind, microbatch, rows, peers}, 0);
  if (is_new) known->second = measured_part(kind, microbatch, rows, peers);
  const std::int64_t part = known->second;
  const std::int64_t whole = part == rows ? microbatch : part;
  return rows / part * table(kind, whole, part, peers).crossing(cut);
}

ProfileEntry CostBook::entry_for(int kind, std::int64_t microbatch, std::int64_t rows,
                                 int peers) const {
  const ProfileEntry* known = entry(kind, rows, peers);
  return {.setting = known != nullptr ? known->setting : setting_for(kind, rows, peers),
          .layers = costs_of_rows(kind, microbatch, rows, peers)};
}

PassTokens CostBook::tokens_of_pass(int kind, std::int64_t microbatch, std::int64_t rows,
                                    int peers) const {
  CostSetting setting = setting_for(kind, rows, peers);
  if (entry(kind, rows, peers) != nullptr || entry(kind, microbatch, peers) != nullptr)
    setting.chunk = 0;
  return stagecraft::tokens_of_pass(profile_.model, setting);
}

const CostTable& CostBook::table(int kind, std::int64_t microbatch, std::int64_t rows, int peers) {
  // Of estimates only what shards gradients depends on the number of replicas.
  const bool is_alike = profile_.entries.empty() && !shards_gradients(setting_.sharding);
  const Key key(kind, is_alike ? rows : microbatch, rows, peers);
  if (last_.second != nullptr && last_.first == key) return *last_.second;
  auto known = tables_.find(key);
  if (known == tables_.end()) {
    const bool in_pairs = setting_.kernels.overlap.experts && setting_.parallelism.expert > 1;
    CostTable table(profile_.model, layer_costs_of(kind, microbatch, rows, peers), in_pairs);
    known = tables_.emplace(key, std::move(table)).first;
  }
  last_ = {key, &known->second};
  return known->second;
}

Holders holders_of(const Parallelism& parallelism, int replicas, int peers) {
  const int tensor = tensor_degree(parallelism, static_cast<std::size_t>(peers));
  const int sharing = parallelism.expert * expert_tensor_of(parallelism, tensor);
  return {.all = replicas * parallelism.context,
          .experts = std::max(replicas * peers / sharing, 1)};
}

Duration update_share(const WithExperts<Duration>& update, Sharding sharding,
                      const Holders& holders) {
  if (sharding == Sharding::none) return update.all;
  const auto share = [](Duration time, int parts) {
    return Duration{(time.count() + parts - 1) / parts};
  };
  return share(update.all - update.experts, holders.all) + share(update.experts, holders.experts);
}

ChunkMemory memory_share(const ChunkMemory& memory, Sharding sharding, const Holders& holders) {
  return shard_of(memory, sharding, holders.all, holders.experts);
}

std::vector<int> holding_devices(const Parallelism& parallelism,
                                 const std::vector<std::vector<int>>& replicas) {
  std::vector<int> devices;
  for (const std::vector<int>& peers : replicas) {
    const auto tensor = static_cast<std::size_t>(tensor_degree(parallelism, peers.size()));
    for (std::size_t peer = 0; peer < peers.size(); peer += tensor) devices.push_back(peers[peer]);
  }
  return devices;
}

StageGroups stage_groups(const Cluster& cluster, const Parallelism& parallelism,
                         const std::vector<std::vector<int>>& replicas) {
  const DeviceGroup all = device_group(cluster, holding_devices(parallelism, replicas));
  if (parallelism.expert == 1 && parallelism.expert_tensor == 0) return {all, all};
  const int tensor = tensor_degree(parallelism, replicas.front().size());
  const int sharing = parallelism.expert * expert_tensor_of(parallelism, tensor);
  std::vector<int> devices, holders;
  for (const std::vector<int>& peers : replicas) {
    devices.insert(devices.end(), peers.begin(), peers.end());
  }
  for (std::size_t i = 0; i < devices.size(); i += static_cast<std::size_t>(sharing)) {
    holders.push_back(devices[i]);
  }
  return {all, device_group(cluster, std::move(holders))};
}

Duration sum_time(const StageGroups& groups, Sharding sharding,
                  const WithExperts<Bytes>& gradients) {
  if (shards_gradients(sharding)) return Duration{0};
  const bool shards = sharding != Sharding::none;
  return one_after_another(shards ? Collective::reduce_scatter : Collective::all_reduce, groups,
                           gradients);
}

Duration collect_time(const StageGroups& groups, Sharding sharding,
                      const WithExperts<Bytes>& parameters) {
  if (sharding == Sharding::none || sharding == Sharding::zero3) return Duration{0};
  return one_after_another(Collective::all_gather, groups, parameters);
}

Bytes tie_bytes(const Tie& tie, const CostTable& table, Precision precision) {
  const LayerRange owner{tie.owner, tie.owner + 1};
  const Bytes weights = tie.parameters * element_bytes(precision);
  const Bytes parameters = table.parameters(owner).all;
  const double wider = parameters == 0 ? 1.0
                                       : static_cast<double>(table.gradients(owner).all) /
                                             static_cast<double>(parameters);
  return static_cast<Bytes>(static_cast<double>(weights) * wider);
}

namespace {

/// Devices that only the innermost level joins.
bool are_neighbours(const Cluster& cluster, int from, int to) {
  const int width = cluster.levels.empty() ? 1 : cluster.levels.back().count;
  return position_of(cluster, from) / width == position_of(cluster, to) / width;
}

bool was_measured_on(const Profile& profile, const std::string& device) {
  return std::any_of(profile.entries.begin(), profile.entries.end(),
                     [&](const ProfileEntry& entry) { return entry.setting.device == device; });
}

}  // namespace

bool takes_hand_over(const Profile& profile, const Cluster& cluster, int from, int to) {
  return profile.hand_over && are_neighbours(cluster, from, to) &&
         was_measured_on(profile, kind_of(cluster, from).name) &&
         kind_of(cluster, from).name == kind_of(cluster, to).name;
}

Link message_link(const Profile& profile, const Cluster& cluster, int from, int to) {
  return takes_hand_over(profile, cluster, from, to) ? *profile.hand_over
                                                     : link_between(cluster, from, to);
}

}  // namespace stagecraft
