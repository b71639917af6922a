// The plans a problem allows, for every strategy: settings (schedule, microbatch size, how replicas
// share the work) times layouts (pipeline devices and their replicas, where stages are cut, which
// recompute).
//
// Devices are taken in order: pipeline device 0 gets the first replicas[0] devices of the cluster,
// and so on, so that a device's number says which link its messages take. A setting with
// t peers (tensor- times context-parallel ones) takes groups of t neighbours for devices, within
// the innermost links or, where context-parallel peers are farther away, all that several of these
// join; what a layout or a bound calls device d is the d-th group, led by its first device.
//
// A setting with c columns (planner/costs/columns.hpp) takes blocks of c neighbouring groups for
// devices: each block holds one replica of every column, and a layout describes one column.
//
// Where devices are excluded, groups and blocks inside the innermost links are made of those that
// are left there, in order; larger blocks are whole ones, of which no device is excluded. Plans
// name devices by their numbers in the whole cluster all the same.

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

/// Everything about a plan but its stages.
struct Setting {
  ScheduleChoice schedule;
  std::int64_t microbatch = 1;
  int microbatches = 1;
  ReplicaPolicy replicas = ReplicaPolicy::split;
  int peers = 1;   ///< devices per replica, for all stages: tensor- times context-parallel
  int choice = 0;  ///< of `parallelism_choices`
  /// Copies of the pipeline that a layout describes; microbatch and microbatches are those of one.
  int columns = 1;
  /// The columns take turns at the microbatches of all. Each has its own in the order in which they
  /// are in the schedule of all, with fewer in flight than if they were its only ones; a layout is
  /// timed as the first column, which has most.
  bool in_turns = false;
  /// Pipeline devices, of one replica (in each column); nothing: any, with any replicas.
  std::optional<int> depth;
  StagePlacement placement = StagePlacement::linear;  ///< of the schedule
  bool splits_backward = false;                       ///< of the schedule
  bool trains = true;                                 ///< else there are forwards only
  bool drains = true;                                 ///< else its steady state is what counts

  /// Samples of a plan's microbatch: of all columns, unless they take turns.
  std::int64_t whole() const { return in_turns ? microbatch : microbatch * columns; }
  /// A plan's microbatches.
  int all_microbatches() const { return in_turns ? microbatches * columns : microbatches; }
  /// Where stage s stands among p pipeline devices.
  int device_of(int stage, int devices) const { return device_of_stage(placement, stage, devices); }
};

/// The stages of a plan.
struct Layout {
  std::vector<int> replicas;  ///< per pipeline device
  std::vector<int> cuts;      ///< stage s holds the layers [cuts[s], cuts[s + 1])
  std::vector<Recompute> recompute;
  std::vector<std::vector<Recomputed>> again = {};  ///< `Stage::again` of each; empty: of none
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
  /// Whether the plan has the setting's degrees.
  bool is_of(const Setting& setting, const Plan& plan) const {
    return choice_of(plan.parallelism) == setting.choice;
  }
  /// Costs under the degrees of a plan of the problem, and under the plan's own sharding.
  CostBook& book(const Plan& plan) const;
  /// The problem's cluster with only the memory that may be used.
  const Cluster& cluster() const { return cluster_; }
  int layers() const { return static_cast<int>(problem_.profile.model.layers.size()); }
  /// Columns that the devices allow, of any depth, each with a microbatch of the setting's size
  /// (`Problem::microbatch_per_copy`), where the plan's own, that of all of them, is not asked for.
  std::vector<Setting> copies(const Setting& setting) const;
  /// Settings of columns that the devices allow beside this one, which has none: every number of
  /// columns that divides the microbatch, and copies, of every depth. Where replicas take turns,
  /// columns that do, on few devices of limited memory; not under GPipe and 1F1B, where copies do
  /// the same.
  std::vector<Setting> columns(const Setting& setting) const;
  /// Whether replicas may also take turns at the setting's microbatches.
  bool may_take_turns(const Setting& setting) const;
  /// Groups of peers, or blocks of them.
  int devices(const Setting& setting) const {
    if (is_whole_) return groups(setting.peers) / setting.columns;
    const int size = setting.peers * setting.columns;
    return static_cast<int>(blocks(size).size()) / size;
  }
  /// Of the cluster, joined by the innermost links.
  int innermost_devices() const { return width_; }
  int lead(const Setting& setting, int device) const {
    return lead_of(setting, device * setting.columns);
  }
  /// The cluster's devices of a group (without columns).
  std::vector<int> peers(const Setting& setting, int group) const;
  /// How many of the cluster's devices, those excluded not counted, come up to the end of so many
  /// groups.
  int devices_up_to(const Setting& setting, int groups) const;
  /// Whether no device of the plan is excluded or beyond those that may be used.
  bool has_usable_devices(const Plan& plan) const;
  const DeviceKind& kind(const Setting& setting, int device) const;
  /// The first device of each kind among the setting's.
  std::vector<int> one_of_each_kind(const Setting& setting) const;
  /// Costs of so many rows of a microbatch on the device.
  const CostTable& table(const Setting& setting, int device, std::int64_t rows) const;
  const CostTable& whole_microbatch(const Setting& setting, int device) const {
    return table(setting, device, setting.microbatch);
  }
  /// What one column hands on of a microbatch at a cut of layers.
  Bytes boundary(const Setting& setting, int device, int cut) const;
  /// What messages between two devices take, and what a collective of several does.
  Link message_link(const Setting& setting, int from, int to) const;
  DeviceGroup group(const Setting& setting, const std::vector<int>& devices) const;
  const StageGroups& groups(const Setting& setting, const std::vector<int>& devices) const;
  /// The cluster's devices, the first of each set of tensor-parallel peers, that stand in so many
  /// devices' place in all columns.
  std::vector<int> members(const Setting& setting, const std::vector<int>& devices) const;
  /// Devices that hold the same layers as so many replicas of a column do.
  Holders holders(const Setting& setting, int replicas) const {
    return holders_of(parallelism(setting), replicas * setting.columns, setting.peers);
  }

  /// Pipeline devices at most; of plans without empty stages.
  int most_pipeline_devices(const Setting& setting) const;
  int most_filled_devices(const Setting& setting) const;
  /// Replicas of one stage at most.
  int most_replicas(const Setting& setting) const;
  /// Whether plans that leave devices idle count.
  bool may_end_at(const Setting& setting, int used_devices) const;
  bool uses_enough(const Plan& plan) const;
  bool allows_stages(int stages) const;
  bool allows(int stage, const LayerRange& layers) const;
  /// Whether stages between the first and the last one may be empty.
  bool has_empty_stages() const { return problem_.min_layers_per_stage == 0; }
  /// Where the ends of a stage from this layer on begin, and those of one with so many stages
  /// behind it end: all that `allows` could allow, but for what is wanted of each stage.
  int first_end(int first) const { return first + (has_empty_stages() && first > 0 ? 0 : 1); }
  int last_end(int stages_behind) const {
    return layers() - (has_empty_stages() ? std::min(stages_behind, 1) : stages_behind);
  }
  /// What the user wants this stage to hold.
  std::optional<LayerRange> fixed_layers(int stage) const;
  bool allows(Recompute recompute) const;
  /// Why the framework that plans are for does not run this one, or why its pipeline or its
  /// recomputation is not as it was asked everywhere; empty if there is nothing against it. Of a
  /// plan with the space's settings and layers.
  std::string against_question(const Plan& plan) const;
  /// The same of pipelines of so many devices, each with the setting's microbatches.
  std::string against_pipeline(const Setting& setting, int devices) const;
  /// Whether layers may choose for themselves what they do again.
  bool layers_choose() const;
  /// Whether a layout replicates, if this setting is only there for that.
  bool wants(const Setting& setting, const std::vector<int>& replicas) const;

  /// The setting's schedule, with the window that these replicas need.
  ScheduleChoice choice_for(const Setting& setting, const std::vector<int>& replicas) const;
  Plan plan(const Setting& setting, const Layout& layout) const;
  /// The schedule, or nothing if it refuses the shape; then `refusal` says why.
  std::optional<Schedule> schedule(const Setting& setting, const std::vector<int>& replicas) const;
  const std::string& refusal() const { return refusal_; }

  /// Compiles and simulates.
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
  /// Their replicas in all columns, each with its peers.
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
  int width_ = 1;                                   ///< devices that the innermost links join
  std::vector<bool> usable_;                        ///< per device of the cluster
  std::vector<int> kinds_;                          ///< of devices that may be used, each once
  bool is_whole_ = true;                            ///< no device is excluded
  std::vector<int> groups_;                         ///< per small tensor-parallel degree
  mutable std::map<int, std::vector<int>> blocks_;  ///< by size: their devices, block after block
  std::vector<Parallelism> parallelism_;            ///< to try
  std::shared_ptr<LayerCostMemo> known_costs_;      ///< of estimates
  std::vector<std::unique_ptr<CostBook>> books_;    ///< of each, for searches
  /// Of each, for plans that say layer by layer what they do again, where `books_` have that in
  /// their costs; else empty.
  std::vector<std::unique_ptr<CostBook>> plain_books_;
  /// Of plans that shard otherwise than the question, by choice.
  mutable std::map<std::pair<int, Sharding>, std::unique_ptr<CostBook>> books_of_others_;
  /// Of each `Problem::recompute_everywhere`, what the model's layers do.
  std::vector<std::vector<Recomputed>> again_everywhere_;
  std::vector<Setting> settings_;
  LayerRange cuts_;  ///< where the framework may cut, both ends included
  /// By the setting's choice, peers and columns, and devices.
  mutable std::map<std::tuple<int, int, int, std::vector<int>>, StageGroups> stage_groups_;
  mutable std::string refusal_;
};

/// Devices of the cluster that are not excluded.
int available_devices(const Problem& problem);

/// Bytes by which the fullest device exceeds its limit; negative if it fits.
Bytes shortfall(const Prediction& prediction);

}  // namespace stagecraft
