// What ranges of layers cost: sums over a profile's layers, each in constant time, kept for every
// device kind and share of a microbatch that was asked for. The evaluator and the bounds of the
// search read the same book.

#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "planner/plan.hpp"
#include "profiles/collectives.hpp"
#include "profiles/profile.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// Prefix sums of the layers' costs for one device kind and number of rows (samples).
class CostTable {
 public:
  CostTable(const Model& model, const std::vector<LayerCost>& costs);

  /// A recomputation, if the program has one, takes as long as the forward.
  /// `again`: what each layer does again by itself, empty for nothing.
  ChunkCosts times(const LayerRange& layers, const std::vector<Recomputed>& again = {}) const;
  Duration forward(const LayerRange& layers) const { return between(forward_, layers); }
  Duration backward(const LayerRange& layers) const { return between(backward_, layers); }
  Duration backward_input(const LayerRange& layers) const {
    return between(backward_input_, layers);
  }
  Duration backward_weight(const LayerRange& layers) const {
    return between(backward_weight_, layers);
  }
  Duration update(const LayerRange& layers) const { return between(update_, layers); }
  ChunkMemory memory(const LayerRange& layers, OptimizerKind optimizer,
                     const std::vector<Recomputed>& again = {}) const;
  const LayerCost& layer(int which) const { return costs_[static_cast<std::size_t>(which)]; }
  Bytes parameters(const LayerRange& layers) const { return between(parameters_, layers); }
  Bytes gradients(const LayerRange& layers) const { return between(gradients_, layers); }
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

  std::vector<LayerCost> costs_;
  std::vector<Duration> forward_, backward_, backward_input_, backward_weight_, update_;
  std::vector<Bytes> parameters_, gradients_, optimizer_, saved_, saved_for_weight_, output_;
  std::vector<Bytes> layer_output_, crossing_;
  std::vector<std::vector<Bytes>> workspace_;  ///< [k][i]: largest of the 2^k layers from i on
  Provenance provenance_ = Provenance::measured;
};

/// The setting that all tables of a book share; see CostSetting.
struct CostBookSetting {
  Precision precision = Precision::float32;
  std::int64_t sequence = 0;
};

/// What tensor-parallel peers of degree t sum for these costs, which estimates leave out and
/// measurements contain: Megatron-LM's two all-reduces of a block's output in forward and two in
/// backward, one of the embedding's output, and one of the gradient of the head's input (Shoeybi
/// et al. 2019).
std::vector<LayerCost> with_peer_sums(std::vector<LayerCost> costs, const Model& model,
                                      const Link& link, int degree);

/// Makes tables when they are asked for: one thread at a time.
class CostBook {
 public:
  CostBook(const Profile& profile, const Cluster& cluster, CostBookSetting setting)
      : profile_(profile), cluster_(cluster), setting_(setting) {}

  /// Costs of `rows` samples of a microbatch on this kind of device: of an entry for exactly so
  /// many; else, where the microbatch was measured, its costs scaled by rows and rounded up; else
  /// as estimated. The device is one of `degree` tensor-parallel peers, joined by the cluster's
  /// innermost links. Throws Error (input) without any.
  const CostTable& table(int kind, std::int64_t microbatch, std::int64_t rows, int degree = 1);

  /// What `table` sums up, as an entry of a profile for exactly so many rows.
  ProfileEntry entry_for(int kind, std::int64_t microbatch, std::int64_t rows,
                         int degree = 1) const;

  const Profile& profile() const { return profile_; }
  const Cluster& cluster() const { return cluster_; }
  const CostBookSetting& setting() const { return setting_; }
  /// Whether the table of these rows had to be scaled.
  bool is_scaled(int kind, std::int64_t microbatch, std::int64_t rows, int degree = 1) const;

 private:
  CostSetting setting_for(int kind, std::int64_t samples, int degree) const;
  const ProfileEntry* entry(int kind, std::int64_t samples, int degree) const;
  std::vector<LayerCost> layer_costs_of(int kind, std::int64_t microbatch, std::int64_t rows,
                                        int degree) const;

  const Profile& profile_;
  const Cluster& cluster_;
  CostBookSetting setting_;
  using Key = std::tuple<int, std::int64_t, std::int64_t, int>;
  std::map<Key, CostTable> tables_;
  std::pair<Key, const CostTable*>
      last_;  ///< asked for: who goes over devices asks again and again
};

/// Whether messages from one device to the other take the profile's measured hand-over.
bool takes_hand_over(const Profile& profile, const Cluster& cluster, int from, int to);

/// What a message takes: the measured hand-over where the profile has one for such devices, else
/// the cluster's link.
Link message_link(const Profile& profile, const Cluster& cluster, int from, int to);

/// What each of so many replicas updates, and keeps of the optimizer's state: all, or its shard,
/// rounded up.
Duration update_share(Duration update, Sharding sharding, int replicas);
ChunkMemory memory_share(ChunkMemory memory, Sharding sharding, int replicas);

/// Before and after the updates of a stage's replicas: gradients are summed, sharded parameters
/// collected. Nothing for a single one.
Duration sum_time(const DeviceGroup& replicas, Sharding sharding, Bytes gradients);
Duration collect_time(const DeviceGroup& replicas, Sharding sharding, Bytes parameters);

/// Bytes of the tied weights' gradient; `table` is of a device that holds the owner. Gradients may
/// be wider than weights.
Bytes tie_bytes(const Tie& tie, const CostTable& table, Precision precision);

}  // namespace stagecraft
