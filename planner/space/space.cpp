#include "planner/space/space.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/costs/stage_recompute.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/plan/parallelism_fault.hpp"
#include "planner/plan/plan_fault.hpp"
#include "planner/plan/schedule_size.hpp"
#include "planner/problem/objective.hpp"
#include "planner/space/schedule_choices.hpp"
#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft {

namespace {

/// The least number of microbatches that is at least the number of devices and a multiple of every
/// stage's replicas.
int least_group_of_turns(const std::vector<int>& replicas) {
  const int round = common_multiple(replicas);
  const int devices = std::accumulate(replicas.begin(), replicas.end(), 0);
  return (devices + round - 1) / round * round;
}

/// Microbatches in flight in the steady state of a schedule without drains: the number of pipeline
/// devices, or of all devices with round-robin replicas, or the schedule's warm-up.
int window_of(const ScheduleChoice& choice, ReplicaPolicy policy,
              const std::vector<int>& replicas) {
  const bool in_turn = policy == ReplicaPolicy::round_robin;
  const int devices = in_turn ? std::accumulate(replicas.begin(), replicas.end(), 0)
                              : static_cast<int>(replicas.size());
  return choice.warm_up.empty() ? devices : std::max(devices, choice.warm_up.front());
}

/// The reason if a plan without drains has too few microbatches for an iteration to reach the
/// memory of its steady state; else empty.
std::string too_short(const ScheduleChoice& choice, int devices, int microbatches) {
  if (microbatches >= 2 * devices) return "";
  return concat(choice.name, " on ", devices, devices == 1 ? " device" : " devices",
                " has a steady state from ", 2 * devices, " microbatches on, not with ",
                microbatches);
}

/// Whether this many ranks, on nodes of this width, are on one node or fill several.
bool are_whole_nodes(int ranks, int width) {
  return ranks <= width || ranks % width == 0;
}

/// All devices of the plan, by pipeline device, replica and peer.
std::vector<int> ranks_of(const Plan& plan) {
  std::vector<int> ranks;
  for (int device = 0; device < pipeline_devices(plan); ++device) {
    for (const auto& peers : plan.stages[static_cast<std::size_t>(device)].devices)
      ranks.insert(ranks.end(), peers.begin(), peers.end());
  }
  return ranks;
}

/// The reason why a framework that numbers its ranks stage by stage cannot have these stages; else
/// empty.
std::string against_ranks(const Plan& plan, int width) {
  if (!plan.order.empty()) return "layers are in an order of their own";
  const std::vector<int> ranks = ranks_of(plan);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank] != static_cast<int>(rank)) return "devices are not numbered stage by stage";
  }
  return are_whole_nodes(static_cast<int>(ranks.size()), width) ? "" : "nodes are used in part";
}

/// The reason why the stages are not equal; empty if they are.
std::string against_stages(const Plan& plan) {
  const auto& first = plan.stages.front().devices;
  for (const Stage& stage : plan.stages) {
    if (stage.devices.size() != first.size()) return "stages have unequal numbers of replicas";
    for (const auto& peers : stage.devices) {
      if (peers.size() != first.front().size()) return "stages have unequal numbers of peers";
    }
  }
  if (first.size() > 1 && plan.replicas == ReplicaPolicy::round_robin) return "replicas take turns";
  if (plan.batch.microbatch % static_cast<std::int64_t>(first.size()) != 0)
    return "replicas have unequal shares of a microbatch";
  return "";
}

/// The reason why a plan of equal stages violates the pinned degrees; else empty.
std::string against_pins(const Plan& plan, const Problem& problem) {
  const PinnedDegrees& pinned = problem.pinned;
  const auto replicas = static_cast<int>(plan.stages.front().devices.size());
  if (pipeline_devices(plan) != pinned.pipeline.value_or(pipeline_devices(plan)))
    return "it has another number of pipeline devices";
  if (replicas != pinned.replicas.value_or(replicas)) return "it has another number of replicas";
  if (!pinned.samples_per_replica) return "";
  const auto& sizes = problem.microbatches;
  const std::int64_t samples = plan.batch.microbatch / replicas;
  const bool is_asked = std::ranges::find(sizes, samples) != sizes.end();
  return is_asked ? "" : "replicas have other shares of a microbatch";
}

/// The chunk of prompts (see CostSetting); 0 for training.
std::int64_t chunk_of(const Problem& problem) {
  return serves(problem) ? problem.requests.value_or(Requests{}).chunk : 0;
}

bool is_one_f_one_b(const ScheduleChoice& choice) {
  return find_schedule(choice.name).generate == one_f_one_b;
}

}  // namespace

Space::Space(const Problem& problem)
    : problem_(problem),
      cluster_(with_usable_memory(problem)),
      parallelism_(parallelism_choices(problem)) {
  choose_devices();
  require_searchable(problem);
  const Model& model = problem.profile.model;
  const bool keeps_ends =
      problem.target != nullptr && problem.target->keeps_ends && model.transformer;
  cuts_ = {0, layers()};
  if (keeps_ends) cuts_ = transformer_layers(model);
  if (keeps_ends && problem.target->predicts_last) cuts_.end = decoder_layers(model).end;
  for (const RecomputeEverywhere what : problem.recompute_everywhere)
    again_everywhere_.push_back(again_everywhere(problem.profile.model, what));
  // Recomputation in all layers is part of the layers' costs: longer backwards and fewer saved
  // bytes.
  const bool is_one = again_everywhere_.size() == 1;
  const std::vector<Recomputed> again =
      is_one ? again_everywhere_.front() : std::vector<Recomputed>{};
  if (problem.known_costs != nullptr && problem.known_costs->is_of(problem.profile, cluster_)) {
    known_costs_ = problem.known_costs;
  } else if (problem.profile.entries.empty()) {
    known_costs_ = std::make_shared<LayerCostMemo>(problem.profile, cluster_);
  }
  for (const Parallelism& parallelism : parallelism_) {
    CostBookSetting setting{.precision = problem.precision,
                            .sequence = problem.sequence,
                            .parallelism = parallelism,
                            .sharding = problem.optimizer.sharding,
                            .kernels = problem.kernels,
                            .chunk = chunk_of(problem)};
    if (!again.empty()) {
      plain_books_.push_back(
          std::make_unique<CostBook>(problem.profile, cluster_, setting, known_costs_));
    }
    setting.again = again;
    books_.push_back(
        std::make_unique<CostBook>(problem.profile, cluster_, std::move(setting), known_costs_));
  }
  std::optional<Error> missing;
  const auto choices = static_cast<int>(parallelism_.size());
  for (int choice = 0; choices > 1 && choice < choices; ++choice) {
    add_settings(choice, true, missing);
  }
  // If only such settings were asked for, they are kept, and each plan is refused with its reason.
  if (settings_.empty()) add_settings(0, false, missing);
  if (settings_.empty() && missing) throw Error(*missing);
  if (settings_.empty()) {
    const int context = problem.parallelism.context;
    fail_usage(
        "--tensor-parallel: no degree asked for",
        context > 1 ? concat(", times ", context, " context-parallel peers,") : std::string(),
        " divides the devices that the innermost links join into groups of one kind",
        context > 1 ? ", or is a multiple of them" : "");
  }
}

int Space::most_filled_devices(const Setting& setting) const {
  if (setting.depth) return *setting.depth;
  const int per_device = std::max(setting.schedule.virtual_stages, 1);
  const int stages = std::min(layers() / std::max(problem_.min_layers_per_stage, 1),
                              problem_.max_stages.value_or(layers()));
  return std::min(devices(setting), stages / per_device);
}

int Space::most_pipeline_devices(const Setting& setting) const {
  if (setting.depth || !has_empty_stages()) return most_filled_devices(setting);
  const int per_device = std::max(setting.schedule.virtual_stages, 1);
  const int stages = problem_.max_stages.value_or(std::numeric_limits<int>::max());
  // A single layer makes a single stage.
  if (layers() == 1) return most_filled_devices(setting);
  return std::min(devices(setting), stages / per_device);
}

int Space::most_replicas(const Setting& setting) const {
  if (problem_.straight || setting.depth || setting.columns > 1) return 1;
  const bool split = setting.replicas == ReplicaPolicy::split;
  const std::int64_t shares = split ? setting.microbatch : setting.microbatches;
  return static_cast<int>(std::min<std::int64_t>(shares, devices(setting)));
}

const CostTable& Space::table(const Setting& setting, int device, std::int64_t rows) const {
  return books_[static_cast<std::size_t>(setting.choice)]->table(
      kind_on(setting, device), setting.whole(), rows, setting.peers);
}

int Space::kind_on(const Setting& setting, int device) const {
  const bool is_mixed = kinds_.size() > 1;
  return is_mixed ? cluster_.devices[static_cast<std::size_t>(lead(setting, device))]
                  : kinds_.front();
}

Bytes Space::boundary(const Setting& setting, int device, int cut) const {
  CostBook& book = *books_[static_cast<std::size_t>(setting.choice)];
  const std::int64_t all = setting.whole();
  const Bytes crossing = book.crossing(kind_on(setting, device), all, all, setting.peers, cut);
  return setting.in_turns ? crossing : crossing / setting.columns;
}

bool Space::may_end_at(const Setting& setting, int used_devices) const {
  const int all = groups(setting.peers), used = used_devices * setting.columns;
  if (numbers_ranks(problem_) && !are_whole_nodes(used * setting.peers, width_)) return false;
  return problem_.use_fewer_devices ? used <= all : used == all;
}

bool Space::uses_enough(const Plan& plan) const {
  const auto degree = static_cast<int>(plan.stages.front().devices.front().size());
  const auto used = static_cast<int>(used_devices(plan).size());
  return problem_.use_fewer_devices || used / degree == groups(degree);
}

/// The index of these degrees in `parallelism_`, without regard to sequence parallelism; 0 if they
/// are not among them.
int Space::choice_of(const Parallelism& parallelism) const {
  Parallelism wanted = parallelism;
  wanted.sequence = problem_.parallelism.sequence;
  const auto found = std::ranges::find(parallelism_, wanted);
  return found == parallelism_.end() ? 0 : static_cast<int>(found - parallelism_.begin());
}

CostBook& Space::book(const Plan& plan) const {
  const int choice = choice_of(plan.parallelism);
  const Sharding sharding = plan.optimizer.sharding;
  const auto& books = plain_books_.empty() ? books_ : plain_books_;
  if (sharding == problem_.optimizer.sharding) return *books[static_cast<std::size_t>(choice)];
  std::unique_ptr<CostBook>& other = books_of_others_[{choice, sharding}];
  if (!other) {
    other = std::make_unique<CostBook>(
        problem_.profile, cluster_,
        CostBookSetting{.precision = problem_.precision,
                        .sequence = problem_.sequence,
                        .parallelism = parallelism_[static_cast<std::size_t>(choice)],
                        .sharding = sharding,
                        .kernels = problem_.kernels,
                        .chunk = chunk_of(problem_)},
        known_costs_);
  }
  return *other;
}

std::string Space::against_shape(const ScheduleChoice& schedule, int devices) const {
  const bool is_alone = devices == 1 && schedule.virtual_stages > 1;
  return problem_.one_stage_alone && is_alone ? "a pipeline of one device has one stage" : "";
}

std::string Space::against_pipeline(const Setting& setting, int devices) const {
  if (std::string why = against_size(devices * setting.schedule.virtual_stages,
                                     setting.microbatches, setting.schedule.sequence_chunks);
      !why.empty()) {
    return why;
  }
  if (std::string why = against_shape(setting.schedule, devices); !why.empty()) return why;
  const bool beside = problem_.kernels.overlap.experts && parallelism(setting).expert > 1;
  const int microbatches = setting.microbatches * setting.columns;
  if (std::string why = beside ? against_exchanges_beside(setting.schedule.name, microbatches) : "";
      !why.empty()) {
    return why;
  }
  if (problem_.target == nullptr) return {};
  return stagecraft::refusal(*problem_.target, {.schedule = setting.schedule,
                                                .devices = devices,
                                                .microbatches = setting.microbatches,
                                                .sharding = problem_.optimizer.sharding,
                                                .exchanges_beside = beside});
}

std::string Space::against_question(const Plan& plan) const {
  if (std::string why = against_shape(plan.schedule, pipeline_devices(plan)); !why.empty())
    return why;
  if (has_equal_stages(problem_)) {
    std::string why = against_stages(plan);
    if (why.empty()) why = against_pins(plan, problem_);
    if (why.empty() && numbers_ranks(problem_)) why = against_ranks(plan, width_);
    if (!why.empty()) return why;
  }
  const auto does = [&](std::size_t choice) {
    return std::ranges::all_of(plan.stages, [&](const Stage& stage) {
      Stage expected = stage;
      recompute_everywhere(expected, problem_.recompute_everywhere[choice],
                           again_everywhere_[choice]);
      return expected == stage;
    });
  };
  bool is_one = again_everywhere_.empty();
  for (std::size_t choice = 0; choice < again_everywhere_.size(); ++choice)
    is_one = is_one || does(choice);
  if (!is_one) return "stages do not all recompute the same";
  if (problem_.target == nullptr) return {};
  return stagecraft::refusal(*problem_.target,
                             {.schedule = plan.schedule,
                              .devices = pipeline_devices(plan),
                              .microbatches = plan.batch.microbatches,
                              .sharding = plan.optimizer.sharding,
                              .exchanges_beside = stagecraft::exchanges_beside(plan)});
}

bool Space::allows_stages(int stages) const {
  if (stages > problem_.max_stages.value_or(stages)) return false;
  return std::all_of(problem_.fixed.begin(), problem_.fixed.end(),
                     [&](const FixedStage& fixed) { return fixed.stage < stages; });
}

/// Whether a stage may end before this layer.
bool Space::may_cut(int layer) const {
  return layer == 0 || layer == layers() || (cuts_.first <= layer && layer <= cuts_.end);
}

bool Space::allows(int stage, const LayerRange& layers) const {
  if (layers.size() < problem_.min_layers_per_stage) return false;
  if (!may_cut(layers.first) || !may_cut(layers.end)) return false;
  const bool is_inside = layers.first > 0 && layers.end < this->layers();
  if (layers.size() < 1 && !(layers.size() == 0 && is_inside)) return false;
  return std::all_of(problem_.fixed.begin(), problem_.fixed.end(), [&](const FixedStage& fixed) {
    return fixed.stage != stage || fixed.layers == layers;
  });
}

std::optional<LayerRange> Space::fixed_layers(int stage) const {
  for (const FixedStage& fixed : problem_.fixed) {
    if (fixed.stage == stage) return fixed.layers;
  }
  return {};
}

bool Space::allows(Recompute recompute) const {
  const auto& allowed = problem_.recompute;
  return std::find(allowed.begin(), allowed.end(), recompute) != allowed.end();
}

bool Space::layers_choose() const {
  return !problem_.recompute_layers.empty();
}

bool Space::wants(const Setting& setting, const std::vector<int>& replicas) const {
  if (has_equal_stages(problem_)) {
    const int first = replicas.front();
    if (setting.microbatch % first != 0) return false;
    if (std::ranges::any_of(replicas, [&](int count) { return count != first; })) return false;
    const PinnedDegrees& pinned = problem_.pinned;
    const int depth = static_cast<int>(replicas.size()), copies = first * setting.columns;
    if (depth != pinned.pipeline.value_or(depth)) return false;
    if (copies != pinned.replicas.value_or(copies)) return false;
    if (pinned.samples_per_replica && first > 1) return false;
  }
  const int whole_sets = replicas_of_experts(parallelism(setting), setting.peers);
  const auto has_experts = [&](int count) { return count * setting.columns % whole_sets == 0; };
  if (!std::all_of(replicas.begin(), replicas.end(), has_experts)) return false;
  if (needs_equal_shares(parallelism(setting), problem_.optimizer.sharding)) {
    const auto divides = [&](int count) { return setting.microbatch % count == 0; };
    if (!std::all_of(replicas.begin(), replicas.end(), divides)) return false;
  }
  // Without replicas the two policies give the same plan, which belongs to `split`.
  if (setting.replicas == ReplicaPolicy::split || setting.columns > 1) return true;
  return std::any_of(replicas.begin(), replicas.end(), [](int count) { return count > 1; });
}

/// Round-robin replicas hold 1/r of the microbatches in flight each, so 1F1B's warm-up must count
/// devices, not stages: as many microbatches as there are devices from here on (PipeDream's rule).
/// 2BW's groups hold as many, in whole rounds of every stage.
ScheduleChoice Space::choice_for(const Setting& setting, const std::vector<int>& replicas) const {
  ScheduleChoice choice = setting.schedule;
  const bool takes_turns =
      setting.replicas == ReplicaPolicy::round_robin &&
      std::any_of(replicas.begin(), replicas.end(), [](int r) { return r > 1; });
  if (!takes_turns || !choice.warm_up.empty()) return choice;
  if (setting.drains && !is_one_f_one_b(choice)) return choice;
  choice.warm_up = round_robin_warm_up(replicas, setting.microbatches);
  if (find_schedule(choice.name).weights == WeightPolicy::double_buffered && !choice.group) {
    choice.group = least_group_of_turns(replicas);
  }
  return choice;
}

Plan Space::plan(const Setting& setting, const Layout& layout) const {
  Plan plan;
  plan.model = problem_.model_name;
  plan.cluster = problem_.cluster_name;
  plan.profile = problem_.profile_hash;
  plan.precision = problem_.precision;
  plan.kernels = problem_.kernels;
  plan.batch = {problem_.global_batch, setting.whole(), setting.all_microbatches(),
                problem_.sequence};
  plan.requests = problem_.requests;
  plan.schedule = choice_for(setting, layout.replicas);
  plan.weights = find_schedule(plan.schedule.name).weights;
  plan.replicas = setting.in_turns ? ReplicaPolicy::round_robin : setting.replicas;
  plan.optimizer = problem_.optimizer;
  plan.parallelism = parallelism(setting);
  if (tensor_degree(plan.parallelism, static_cast<std::size_t>(setting.peers)) == 1) {
    plan.parallelism.sequence = false;
  }
  plan.order = problem_.order;
  std::vector<std::vector<std::vector<int>>> devices;
  int next = 0;
  for (const int count : layout.replicas) {
    devices.push_back(place(setting, next, count));
    next += count;
  }
  for (int stage = 0; stage < layout.stages(); ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    const int device = setting.device_of(stage, layout.pipeline_devices());
    plan.stages.push_back({{layout.cuts[s], layout.cuts[s + 1]},
                           devices[static_cast<std::size_t>(device)],
                           layout.recompute[s],
                           layout.again_of(stage)});
    if (again_everywhere_.size() != 1) continue;
    recompute_everywhere(plan.stages.back(), problem_.recompute_everywhere.front(),
                         again_everywhere_.front());
  }
  return plan;
}

/// The first column's part of the schedule of all columns.
std::optional<Schedule> Space::schedule_in_turns(const Setting& setting, int depth) const {
  const int columns = setting.columns;
  Setting all = setting;
  all.in_turns = false;
  all.columns = 1;
  all.replicas = ReplicaPolicy::round_robin;
  all.microbatches *= columns;
  auto found = schedule(all, std::vector<int>(static_cast<std::size_t>(depth), columns));
  if (!found) return {};
  if (!found->fused.empty()) {
    refusal_ = concat(found->name, " runs passes of different microbatches as one");
    return {};
  }
  found->microbatches /= columns;
  for (std::vector<Instruction>& device : found->devices) {
    std::erase_if(device, [&](const Instruction& instruction) {
      return instruction.microbatch % columns != 0;
    });
    for (Instruction& instruction : device) instruction.microbatch /= columns;
  }
  return found;
}

std::optional<Schedule> Space::schedule(const Setting& setting,
                                        const std::vector<int>& replicas) const {
  if (setting.in_turns) return schedule_in_turns(setting, static_cast<int>(replicas.size()));
  const ScheduleChoice choice = choice_for(setting, replicas);
  const ScheduleKind& kind = find_schedule(choice.name);
  if (kind.placement == StagePlacement::linear && choice.virtual_stages != 1) {
    refusal_ = concat(choice.name, " has one stage per device");
    return {};
  }
  const std::string against = against_pipeline(setting, static_cast<int>(replicas.size()));
  if (!against.empty()) {
    refusal_ = against;
    return {};
  }
  if (!setting.drains) {
    refusal_ =
        too_short(choice, window_of(choice, setting.replicas, replicas), setting.microbatches);
    if (!refusal_.empty()) return {};
  }
  try {
    Schedule schedule = kind.generate({.devices = static_cast<int>(replicas.size()),
                                       .microbatches = setting.microbatches,
                                       .virtual_stages = choice.virtual_stages,
                                       .group = choice.group,
                                       .warm_up = choice.warm_up,
                                       .sequence_chunks = choice.sequence_chunks,
                                       .pipes = choice.pipes});
    if (setting.replicas == ReplicaPolicy::split) return schedule;
    const auto fault = find_turns_fault(schedule, replicas);
    if (!fault) return schedule;
    refusal_ = concat(fault->what, "; ", fault->remedy);
    return {};
  } catch (const Error& error) {
    refusal_ = error.message();
    return {};
  }
}

Candidate Space::evaluate(const std::string& name, const Plan& plan) const {
  Candidate candidate{
      .name = name, .plan = plan, .prediction = {}, .objective = {}, .rejected = {}};
  candidate.plan.kernels = problem_.kernels;
  candidate.plan.requests = problem_.requests;
  // The stages of other planners' plans may have other tensor-parallel degrees.
  candidate.plan.parallelism = parallelism_[static_cast<std::size_t>(choice_of(plan.parallelism))];
  candidate.plan.parallelism.sequence =
      problem_.parallelism.sequence && tensor_degree(candidate.plan) > 1;
  candidate.rejected = against_question(candidate.plan);
  if (!candidate.rejected.empty()) return candidate;
  const auto find = cuts_microbatches(candidate.plan.schedule) ? find_fault : find_structural_fault;
  if (const auto fault = find(candidate.plan, problem_.profile.model, cluster_)) {
    candidate.rejected = fault->message;
    return candidate;
  }
  if (plan.weights != WeightPolicy::flush) {
    const int window = window_of(plan.schedule, plan.replicas, replicas_of_stages(plan));
    candidate.rejected = too_short(plan.schedule, window, plan.batch.microbatches);
    if (!candidate.rejected.empty()) return candidate;
  }
  const Abandonable may_be_given_up;
  try {
    const Compiled compiled = compile_column(candidate.plan, book(candidate.plan));
    candidate.prediction = predict(candidate.plan, compiled);
    add_steady_state(*candidate.prediction, plan, compiled);
  } catch (const Error& error) {
    candidate.rejected = error.message();
  }
  return candidate;
}

int available_devices(const Problem& problem) {
  return device_count(problem.cluster) - static_cast<int>(problem.excluded.size());
}

const std::vector<Recomputed>& Layout::again_of(int stage) const {
  static const std::vector<Recomputed> nothing;
  return again.empty() ? nothing : again[static_cast<std::size_t>(stage)];
}

Bytes shortfall(const Prediction& prediction) {
  Bytes most = std::numeric_limits<Bytes>::min();
  for (std::size_t d = 0; d < prediction.peaks.size(); ++d) {
    most = std::max(most, prediction.peaks[d].bytes - prediction.memory_limits[d]);
  }
  return most;
}

}  // namespace stagecraft
