// Costs of ranges of layers: prefix sums over a profile's layers, cached for every device kind and
// share of a microbatch. The evaluator and the relaxations of the search use the same book.

#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/costs/layer_cost_memo.hpp"
#include "planner/plan/plan.hpp"
#include "profiles/collectives.hpp"
#include "profiles/profile.hpp"
#include "profiles/served_costs.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

inline Bytes scaled_by(Bytes bytes, double part) {
  return std::llround(static_cast<double>(bytes) * part);
}
inline Duration scaled_by(Duration time, double part) {
  return Duration{scaled_by(time.count(), part)};
}

/// Numbers of devices that hold the same part of a stage's layers, and of each of its experts.
struct Holders {
  int all = 1;
  int experts = 1;
  bool operator==(const Holders&) const = default;
};
/// The holders for `replicas` replicas with `peers` (tensor x context) peers each.
Holders holders_of(const Parallelism& parallelism, int replicas, int peers);

/// A number of bytes or nanoseconds, with the part that belongs to experts.
template <class Quantity>
struct WithExperts {
  Quantity all{0};
  Quantity experts{0};
};

/// The experts' part of a layer's gradients, states or update, in proportion to parameters.
template <class Quantity>
WithExperts<Quantity> expert_part(const LayerCost& cost, Quantity all) {
  if (cost.expert_parameters == 0) return {all, Quantity{0}};
  const double part =
      static_cast<double>(cost.expert_parameters) / static_cast<double>(cost.parameters);
  return {all, std::min(all, scaled_by(all, part))};
}

/// Prefix sums of the layers' costs for one device kind and number of rows (samples).
class CostTable {
 public:
  /// `in_pairs`: a microbatch's forward overlaps with the backward of the one before it (see
  /// `MessageOverlap::experts`), so one more microbatch is in flight, since Megatron-LM starts one
  /// more (`get_pp_rank_microbatches` of megatron/core/pipeline_parallel/schedules.py). It also
  /// counts in a short step that has started all microbatches.
  CostTable(const Model& model, const std::vector<LayerCost>& costs, bool in_pairs = false);

  /// Times of a chunk; recomputation of a whole stage takes as long as the forward. `again`:
  /// recomputation of each layer, empty for none.
  ChunkCosts times(const LayerRange& layers, const std::vector<Recomputed>& again = {}) const;
  Duration forward(const LayerRange& layers) const { return between(forward_, layers); }
  Duration backward(const LayerRange& layers) const { return between(backward_, layers); }
  Duration backward_input(const LayerRange& layers) const {
    return between(backward_input_, layers);
  }
  Duration backward_weight(const LayerRange& layers) const {
    return between(backward_weight_, layers);
  }
  /// The part of `forward` and `backward` that is token exchange between experts.
  Duration forward_exchange(const LayerRange& layers) const {
    return between(forward_exchange_, layers);
  }
  Duration backward_exchange(const LayerRange& layers) const {
    return between(backward_exchange_, layers);
  }
  WithExperts<Duration> update(const LayerRange& layers) const {
    return {between(update_, layers), between(expert_update_, layers)};
  }
  ChunkMemory memory(const LayerRange& layers, OptimizerKind optimizer,
                     const std::vector<Recomputed>& again = {}) const;
  const LayerCost& layer(int which) const { return costs_[static_cast<std::size_t>(which)]; }
  WithExperts<Bytes> parameters(const LayerRange& layers) const {
    return {between(parameters_, layers), between(expert_parameters_, layers)};
  }
  WithExperts<Bytes> gradients(const LayerRange& layers) const {
    return {between(gradients_, layers), between(expert_gradients_, layers)};
  }
  /// Bytes that cross the cut before layer `cut`, for these rows; zero at both ends of the model.
  Bytes crossing(int cut) const { return crossing_[static_cast<std::size_t>(cut)]; }
  Provenance provenance() const { return provenance_; }

 private:
  template <class Sum>
  static Sum between(const std::vector<Sum>& sums, const LayerRange& layers) {
    return sums[static_cast<std::size_t>(layers.end)] -
           sums[static_cast<std::size_t>(layers.first)];
  }
  Bytes largest_workspace(const LayerRange& layers) const;
  Bytes saved_of_loss(const LayerRange& layers) const;
  Bytes output_left_out(int which, int first, const std::vector<Recomputed>& again) const;

  std::vector<LayerCost> costs_;
  std::vector<Duration> forward_, backward_, backward_input_, backward_weight_, update_,
      expert_update_, forward_exchange_, backward_exchange_;
  std::vector<Bytes> parameters_, gradients_, optimizer_, saved_, saved_for_weight_, output_kept_;
  std::vector<Bytes> expert_parameters_, expert_gradients_, expert_optimizer_;
  std::vector<Bytes> crossing_;
  std::vector<int> last_reader_;
  std::vector<std::vector<Bytes>> workspace_;  ///< [k][i]: largest of the 2^k layers from i on
  int end_of_head_ = 0;                        ///< number of layers if the last one is the head
  bool in_pairs_ = false;
  Provenance provenance_ = Provenance::measured;
};

/// The setting that all tables of a book share; see CostSetting.
struct CostBookSetting {
  Precision precision = Precision::float32;
  std::int64_t sequence = 0;
  Parallelism parallelism = {};
  Sharding sharding = Sharding::none;  ///< costs include the collectives of ZeRO-2 and 3 in each
                                       ///< pass
  LayerKernels kernels = {};
  std::int64_t chunk = 0;  ///< see CostSetting
  /// Recomputation of each of the model's layers that is part of its costs; empty: none.
  std::vector<Recomputed> again = {};
};
CostBookSetting book_setting(const Plan& plan);

/// The groups of devices that hold a stage's layers, and each of its experts.
struct StageGroups {
  DeviceGroup all, experts;
  bool operator==(const StageGroups&) const = default;
};

/// Fills tables on demand, so only one thread at a time may use it.
class CostBook {
 public:
  /// `memo`: shared layer costs of this profile and cluster, or null.
  CostBook(const Profile& profile, const Cluster& cluster, CostBookSetting setting,
           std::shared_ptr<LayerCostMemo> memo = nullptr)
      : profile_(profile),
        cluster_(cluster),
        setting_(std::move(setting)),
        memo_(std::move(memo)) {}

  /// Costs of `rows` samples of a microbatch on this kind of device: from a profile entry for
  /// exactly these rows; else, if the microbatch was measured, its costs scaled by rows and rounded
  /// up; else estimated. The device is one of `peers` (tensor x context) neighbouring devices of a
  /// replica, and replicas are neighbours, too. Messages between peers are added if the costs leave
  /// them out, as estimates do (profiles/peer_messages.hpp). If each microbatch's gradients are
  /// scattered, there are microbatch / rows replicas. Throws Error (input) if there are no costs.
  const CostTable& table(int kind, std::int64_t microbatch, std::int64_t rows, int peers = 1);

  /// Bytes of these rows that cross the cut before layer `cut`: from their table, or, if neither
  /// they nor the microbatch were measured, from a measured number of rows that divides them.
  Bytes crossing(int kind, std::int64_t microbatch, std::int64_t rows, int peers, int cut);

  /// The layer costs of `table`, as a profile entry for exactly these rows.
  ProfileEntry entry_for(int kind, std::int64_t microbatch, std::int64_t rows, int peers = 1) const;

  /// The tokens of these rows that one pass computes: all of them unless prompts are processed in
  /// chunks (served_costs.hpp).
  PassTokens tokens_of_pass(int kind, std::int64_t microbatch, std::int64_t rows, int peers) const;

  const Profile& profile() const { return profile_; }
  const Cluster& cluster() const { return cluster_; }
  const CostBookSetting& setting() const { return setting_; }
  /// Whether the table of these rows had to be scaled.
  bool is_scaled(int kind, std::int64_t microbatch, std::int64_t rows, int peers = 1) const;

 private:
  CostSetting setting_for(int kind, std::int64_t samples, int peers) const;
  const ProfileEntry* entry(int kind, std::int64_t samples, int peers) const;
  std::vector<LayerCost> layer_costs_without_again(int kind, std::int64_t microbatch,
                                                   std::int64_t rows, int peers) const;
  std::vector<LayerCost> costs_of_rows(int kind, std::int64_t microbatch, std::int64_t rows,
                                       int peers) const;
  std::vector<LayerCost> layer_costs_of(int kind, std::int64_t microbatch, std::int64_t rows,
                                        int peers) const;
  /// The groups of `replicas` replicas with `peers` peers on the cluster's first devices.
  const StageGroups& groups_of_neighbours(int replicas, int peers) const;
  std::int64_t measured_part(int kind, std::int64_t microbatch, std::int64_t rows, int peers) const;

  const Profile& profile_;
  const Cluster& cluster_;
  CostBookSetting setting_;
  std::shared_ptr<LayerCostMemo> memo_;
  using Key = std::tuple<int, std::int64_t, std::int64_t, int>;
  std::map<Key, CostTable> tables_;
  mutable std::map<std::pair<int, int>, StageGroups> groups_;  ///< keys: replicas, peers
  std::map<Key, std::int64_t> parts_;  ///< rows whose table gives the bytes that cross a cut
  std::pair<Key, const CostTable*>
      last_;  ///< the latest table, since loops over devices ask for it repeatedly
};

/// Whether messages between the devices take the profile's measured transfer time.
bool takes_hand_over(const Profile& profile, const Cluster& cluster, int from, int to);

/// The link of a message: the measured transfer if the profile has one for such devices, else the
/// cluster's link.
Link message_link(const Profile& profile, const Cluster& cluster, int from, int to);

/// The update time and the sharded memory of one holder of a stage: its share, rounded up.
Duration update_share(const WithExperts<Duration>& update, Sharding sharding,
                      const Holders& holders);
ChunkMemory memory_share(const ChunkMemory& memory, Sharding sharding, const Holders& holders);

/// For replicas with their (tensor x context) peers: the first device of each set of
/// tensor-parallel peers.
std::vector<int> holding_devices(const Parallelism& parallelism,
                                 const std::vector<std::vector<int>>& replicas);
StageGroups stage_groups(const Cluster& cluster, const Parallelism& parallelism,
                         const std::vector<std::vector<int>>& replicas);

/// Time to sum gradients before, and to collect sharded parameters after, the updates of a stage's
/// holders; experts after the others. Zero for a single holder, and if each microbatch does it
/// (ZeRO-2 and 3).
Duration sum_time(const StageGroups& groups, Sharding sharding,
                  const WithExperts<Bytes>& gradients);
Duration collect_time(const StageGroups& groups, Sharding sharding,
                      const WithExperts<Bytes>& parameters);

/// Bytes of the tied weights' gradient, which may be wider than the weights; `table` must be that
/// of a device that holds the owner.
Bytes tie_bytes(const Tie& tie, const CostTable& table, Precision precision);

}  // namespace stagecraft
