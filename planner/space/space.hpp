// The plans that a problem allows, for every strategy: settings (schedule, microbatch size, replica
// policy) times layouts (pipeline devices and their replicas, cuts, recomputation).
//
// Devices are taken in order: pipeline device 0 gets the first replicas[0] devices of the cluster,
// and so on, so a device's number determines the link of its messages. In a setting with t peers
// (tensor- times context-parallel degree), a "device" of layouts and bounds is a group of t
// neighbouring devices, led by the first. A group lies within the innermost links, or, with distant
// context-parallel peers, consists of several whole parts that these join.
//
// In a setting with c columns, or pipeline replicas (planner/costs/columns.hpp), a "device" is a
// block of c neighbouring groups: each block holds one replica of every column, and a layout
// describes one column.
//
// If devices are excluded, groups and blocks within the innermost links consist of the remaining
// devices there, in order; larger blocks must have no excluded device. Plans always use the device
// numbers of the whole cluster.

#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include "planner/costs/compile.hpp"
#include "planner/problem/problem.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

/// All properties of a plan except its stages.
struct Setting {
  ScheduleChoice schedule;
  std::int64_t microbatch = 1;
  int microbatches = 1;
  ReplicaPolicy replicas = ReplicaPolicy::split;
  int peers = 1;   ///< devices per replica, for all stages: tensor- times context-parallel
  int choice = 0;  ///< index in `parallelism_choices`
  /// Number of pipeline replicas; `microbatch` and `microbatches` are those of one replica.
  int columns = 1;
  /// The columns process the microbatches round-robin. Each runs its own in the order of the
  /// schedule of all, with fewer in flight than if it were alone; a layout is timed as the first
  /// column, which has the most microbatches.
  bool in_turns = false;
  /// Number of pipeline devices, with one replica each (in each column); nothing: any number, with
  /// any replicas.
  std::optional<int> depth;
  StagePlacement placement = StagePlacement::linear;  ///< property of the schedule
  bool splits_backward = false;                       ///< property of the schedule
  bool trains = true;                                 ///< false: forwards only (inference)
  bool drains = true;                                 ///< false: the steady state counts, not the
                                                      ///< step

  /// Samples of the plan's microbatch: over all columns, unless these are round-robin.
  std::int64_t whole() const { return in_turns ? microbatch : microbatch * columns; }
  /// Number of the plan's microbatches.
  int all_microbatches() const { return in_turns ? microbatches * columns : microbatches; }
  /// The pipeline device of a stage, of `devices` pipeline devices.
  int device_of(int stage, int devices) const { return device_of_stage(placement, stage, devices); }
};

/// The stages of a plan under a setting.
struct Layout {
  std::vector<int> replicas;  ///< number of replicas per pipeline device
  std::vector<int> cuts;      ///< stage s holds the layers [cuts[s], cuts[s + 1])
  std::vector<Recompute> recompute;
  std::vector<std::vector<Recomputed>> again = {};  ///< `Stage::again` of each stage; empty: no
                                                    ///< recomputation per layer
  const std::vector<Recomputed>& again_of(int stage) const;
  int pipeline_devices() const { return static_cast<int>(replicas.size()); }
  int stages() const { return static_cast<int>(cuts.size()) - 1; }
};

class Space {
 public:
  /// Throws Error (usage) if a microbatch size does not divide the batch, Error (input) if there
  /// are no costs at all.
  explicit Space(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const std::vector<Setting>& settings() const { return settings_; }
  /// The degrees of parallelism of a setting.
  const Parallelism& parallelism(const Setting& setting) const {
    return parallelism_[static_cast<std::size_t>(setting.choice)];
  }
  /// Whether the plan has the setting's degrees of parallelism.
  bool is_of(const Setting& setting, const Plan& plan) const {
    return choice_of(plan.parallelism) == setting.choice;
  }
  /// Costs under the plan's degrees and sharding; the plan must be one of the problem.
  CostBook& book(const Plan& plan) const;
  /// The problem's cluster, with its usable memory.
  const Cluster& cluster() const { return cluster_; }
  int layers() const { return static_cast<int>(problem_.profile.model.layers.size()); }
  /// Settings of pipeline copies that the devices allow, of any depth, each copy with a microbatch
  /// of the setting's size (`Problem::microbatch_per_copy`). Copies whose sum is itself a
  /// microbatch asked for are left out.
  std::vector<Setting> copies(const Setting& setting) const;
  /// Settings of columns for this setting, which must have none: every number of columns that
  /// divides the microbatch, and copies, of every depth. Under round-robin replicas, also
  /// round-robin columns, on few devices of limited memory, but not under GPipe and 1F1B, where
  /// copies are equivalent.
  std::vector<Setting> columns(const Setting& setting) const;
  /// Whether replicas may also process the setting's microbatches round-robin.
  bool may_take_turns(const Setting& setting) const;
  /// Number of devices of the setting: groups of peers, or blocks of groups.
  int devices(const Setting& setting) const {
    if (is_whole_) return groups(setting.peers) / setting.columns;
    const int size = setting.peers * setting.columns;
    return static_cast<int>(blocks(size).size()) / size;
  }
  /// Number of the cluster's devices that the innermost links join.
  int innermost_devices() const { return width_; }
  int lead(const Setting& setting, int device) const {
    return lead_of(setting, device * setting.columns);
  }
  /// The cluster's devices of a group; needs a setting without columns.
  std::vector<int> peers(const Setting& setting, int group) const;
  /// Number of the cluster's devices, without excluded ones, up to the end of the first `groups`
  /// groups.
  int devices_up_to(const Setting& setting, int groups) const;
  /// Whether the plan uses no excluded device, and none beyond those that may be used.
  bool has_usable_devices(const Plan& plan) const;
  const DeviceKind& kind(const Setting& setting, int device) const;
  /// The first device of each kind among the setting's.
  std::vector<int> one_of_each_kind(const Setting& setting) const;
  /// Costs of `rows` rows of a microbatch on the device.
  const CostTable& table(const Setting& setting, int device, std::int64_t rows) const;
  const CostTable& whole_microbatch(const Setting& setting, int device) const {
    return table(setting, device, setting.microbatch);
  }
  /// Bytes of one column's message of a microbatch at a cut.
  Bytes boundary(const Setting& setting, int device, int cut) const;
  /// The link of messages between two devices, and of a collective among several.
  Link message_link(const Setting& setting, int from, int to) const;
  DeviceGroup group(const Setting& setting, const std::vector<int>& devices) const;
  const StageGroups& groups(const Setting& setting, const std::vector<int>& devices) const;
  /// The cluster's devices, the first of each group of tensor-parallel peers, that correspond to
  /// these devices in all columns.
  std::vector<int> members(const Setting& setting, const std::vector<int>& devices) const;
  /// The devices that hold the same layers, for `replicas` replicas of each column.
  Holders holders(const Setting& setting, int replicas) const {
    return holders_of(parallelism(setting), replicas * setting.columns, setting.peers);
  }

  /// Maximum number of pipeline devices of plans without empty stages.
  int most_pipeline_devices(const Setting& setting) const;
  int most_filled_devices(const Setting& setting) const;
  /// Maximum number of replicas of one stage.
  int most_replicas(const Setting& setting) const;
  /// Whether plans that use only this many devices are in the space.
  bool may_end_at(const Setting& setting, int used_devices) const;
  bool uses_enough(const Plan& plan) const;
  bool allows_stages(int stages) const;
  bool allows(int stage, const LayerRange& layers) const;
  /// Whether stages between the first and the last one may be empty.
  bool has_empty_stages() const { return problem_.min_layers_per_stage == 0; }
  /// The first possible end of a stage that begins at this layer, and the last possible end of a
  /// stage with a number of stages behind it; `allows` also checks the constraints on each stage.
  int first_end(int first) const { return first + (has_empty_stages() && first > 0 ? 0 : 1); }
  int last_end(int stages_behind) const {
    return layers() - (has_empty_stages() ? std::min(stages_behind, 1) : stages_behind);
  }
  /// The layers that the problem fixes for this stage.
  std::optional<LayerRange> fixed_layers(int stage) const;
  bool allows(Recompute recompute) const;
  /// The reason why the target framework cannot run this plan, or why its pipeline or recomputation
  /// violates the problem's constraints; empty if there is none. The plan must have the space's
  /// settings and layers.
  std::string against_question(const Plan& plan) const;
  /// The reason against all pipelines of `devices` devices under the setting; empty if there is
  /// none.
  std::string against_pipeline(const Setting& setting, int devices) const;
  /// Whether recomputation is chosen per layer.
  bool layers_choose() const;
  /// Whether the problem allows these replicas under the setting: equal stages, pinned degrees and
  /// whole sets of experts where they are required; a round-robin setting must have a stage with
  /// several replicas.
  bool wants(const Setting& setting, const std::vector<int>& replicas) const;

  /// The setting's schedule, with the warm-up that these replicas need.
  ScheduleChoice choice_for(const Setting& setting, const std::vector<int>& replicas) const;
  Plan plan(const Setting& setting, const Layout& layout) const;
  /// The generated schedule; nothing if it does not accept the shape, with the reason in `refusal`.
  std::optional<Schedule> schedule(const Setting& setting, const std::vector<int>& replicas) const;
  const std::string& refusal() const { return refusal_; }

  /// Compiles and simulates the plan.
  Candidate evaluate(const std::string& name, const Plan& plan) const;

 private:
  void choose_devices();
  std::string against_shape(const ScheduleChoice& schedule, int devices) const;
  bool may_cut(int layer) const;
  const std::vector<int>& blocks(int size) const;
  bool has_groups(int tensor, int context) const;
  int count_groups(int degree) const;
  int groups(int degree) const {
    const auto known = static_cast<std::size_t>(degree);
    return known < groups_.size() ? groups_[known] : count_groups(degree);
  }
  int lead_of(const Setting& setting, int group) const;
  /// The replicas of these devices in all columns, each with its peers.
  std::vector<std::vector<int>> replicas_on(const Setting& setting,
                                            const std::vector<int>& devices) const;
  void add_settings(int choice, bool are_some, std::optional<Error>& missing);
  void add_settings(std::int64_t microbatch, int degree, int choice);
  int choice_of(const Parallelism& parallelism) const;
  bool may_share(const Parallelism& parallelism, std::int64_t microbatch, int tensor) const;
  bool is_another_name(int choice, int tensor) const;
  int kind_on(const Setting& setting, int device) const;
  bool has_columns(const Setting& setting, int columns) const;
  bool has_asked_microbatch(const Setting& setting) const;
  std::vector<Setting> columns_in_turns(const Setting& setting) const;
  std::vector<Setting> of_every_depth(std::vector<Setting> columns) const;
  std::optional<Schedule> schedule_in_turns(const Setting& setting, int depth) const;
  std::vector<std::vector<int>> place(const Setting& setting, int first, int count) const;

  const Problem& problem_;
  Cluster cluster_;
  int devices_ = 0;
  int width_ = 1;                                   ///< number of devices that the innermost links
                                                    ///< join
  std::vector<bool> usable_;                        ///< per device of the cluster: it may be used
  std::vector<int> kinds_;                          ///< kinds of the usable devices, each once
  bool is_whole_ = true;                            ///< no device is excluded
  std::vector<int> groups_;                         ///< number of groups, per small tensor-parallel
                                                    ///< degree
  mutable std::map<int, std::vector<int>> blocks_;  ///< by size of a block: devices, block after
                                                    ///< block
  std::vector<Parallelism> parallelism_;            ///< degrees to try
  std::shared_ptr<LayerCostMemo> known_costs_;      ///< shared estimates of layer costs
  std::vector<std::unique_ptr<CostBook>> books_;    ///< one for each of `parallelism_`, for
                                                    ///< searches
  /// One for each of `parallelism_`, for plans that list recomputation layer by layer, if the costs
  /// of `books_` include it; else empty.
  std::vector<std::unique_ptr<CostBook>> plain_books_;
  /// Costs of plans with another sharding than the problem's, by choice.
  mutable std::map<std::pair<int, Sharding>, std::unique_ptr<CostBook>> books_of_others_;
  /// For each `Problem::recompute_everywhere`, the recomputation of the model's layers.
  std::vector<std::vector<Recomputed>> again_everywhere_;
  std::vector<Setting> settings_;
  LayerRange cuts_;  ///< range of layers between which the framework may cut, both ends included
  /// By (the setting's choice, peers, columns; devices).
  mutable std::map<std::tuple<int, int, int, std::vector<int>>, StageGroups> stage_groups_;
  mutable std::string refusal_;
};

/// Number of the cluster's devices that are not excluded.
int available_devices(const Problem& problem);

/// Bytes by which the fullest device exceeds its limit; negative if it fits.
Bytes shortfall(const Prediction& prediction);

}  // namespace stagecraft
