#include "planner/analysis/changes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "planner/layouts/layouts.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/plan/sharding_words.hpp"
#include "planner/problem/defaults.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "planner/timing/fast_clock.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// What else a key of `change_kinds` is called.
struct OtherName {
  std::string_view name;
  std::string_view key;
};

constexpr std::array other_names{
    OtherName{"gbs", "batch"},
    OtherName{"global-batch", "batch"},
    OtherName{"micro-batch", "mbs"},
    OtherName{"virtual", "vpp"},
    OtherName{"virtual-stages", "vpp"},
    OtherName{"tensor-parallel", "tp"},
    OtherName{"stages", "pp"},
    OtherName{"pipeline-parallel", "pp"},
    OtherName{"data-parallel", "dp"},
    OtherName{"replicas", "dp"},
    OtherName{"context-parallel", "cp"},
    OtherName{"expert-parallel", "ep"},
    OtherName{"sequence-parallel", "sp"},
    OtherName{"seq", "sequence"},
    OtherName{"overlap-gradients", "gradient-bucket"},
};

std::int64_t whole_number(const Change& change, std::int64_t most) {
  std::int64_t number = 0;
  const char* end = change.value.data() + change.value.size();
  const auto [stopped, error] = std::from_chars(change.value.data(), end, number);
  if (error != std::errc{} || stopped != end || number < 1 || number > most) {
    fail_usage("--set ", change.key, ": expected an integer from 1 to ", most, ", found \"",
               change.value, "\"");
  }
  return number;
}

int small_number(const Change& change, int most = most_devices) {
  return static_cast<int>(whole_number(change, most));
}

template <class Quantity>
Quantity quantity(const Change& change, Quantity (*parse)(std::string_view)) {
  try {
    return parse(change.value);
  } catch (const Error& error) {
    fail_usage("--set ", change.key, ": ", error.message());
  }
}

/// "50%" as 0.5; nothing for what is no percentage.
std::optional<double> percentage(const Change& change) {
  if (!change.value.ends_with('%')) return {};
  double value = 0;
  const char* end = change.value.data() + change.value.size() - 1;
  const auto [stopped, error] = std::from_chars(change.value.data(), end, value);
  if (error != std::errc{} || stopped != end || !(value > 0 && value <= 1e6)) {
    fail_usage("--set ", change.key, ": expected a percentage above 0%, found \"", change.value,
               "\"");
  }
  return value / 100;
}

/// The number in "link0.latency", and what follows it: "latency".
struct NumberedKey {
  int number = 0;
  std::string_view rest;
};

/// Nothing unless the key is WORD, a number, and perhaps a dot and more.
std::optional<NumberedKey> numbered(std::string_view key, std::string_view word) {
  if (!key.starts_with(word)) return {};
  key.remove_prefix(word.size());
  int number = 0;
  const auto [stopped, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc{}) return {};
  key.remove_prefix(static_cast<std::size_t>(stopped - key.data()));
  if (!key.empty() && !key.starts_with('.')) return {};
  return NumberedKey{number, key.empty() ? key : key.substr(1)};
}

Bandwidth times_as_wide(Bandwidth bandwidth, double factor) {
  const double rate = std::round(static_cast<double>(bandwidth.bytes_per_second) * factor);
  constexpr double most = 1e18;
  return {static_cast<std::int64_t>(std::clamp(rate, 1.0, most))};
}

/// A bandwidth, or a percentage of the one there is.
Bandwidth new_bandwidth(const Change& change, Bandwidth now) {
  const auto part = percentage(change);
  if (!part) return quantity(change, parse_bandwidth);
  if (now.is_unlimited()) {
    fail_usage(
        "--set ", change.key, "=", change.value,
        ": the bandwidth is unlimited, so there is no part of it; give a rate such as 25GB/s");
  }
  return times_as_wide(now, *part);
}

/// Collectives keep their share of the line.
void set_bandwidth(const Change& change, Link& link) {
  const Bandwidth before = link.point_to_point;
  link.point_to_point = new_bandwidth(change, before);
  const bool is_share = !before.is_unlimited() && !link.collective.is_unlimited();
  const double factor = static_cast<double>(link.point_to_point.bytes_per_second) /
                        static_cast<double>(before.bytes_per_second);
  link.collective = is_share ? times_as_wide(link.collective, factor) : link.point_to_point;
}

void set_link(const Change& change, const NumberedKey& key, Cluster& cluster) {
  const int levels = static_cast<int>(cluster.levels.size());
  if (key.number >= levels) {
    if (levels == 0) fail_usage("--set ", change.key, ": the cluster has no links");
    fail_usage("--set ", change.key, ": ", cluster.name, " has link0",
               levels > 1 ? concat(" (outermost) to link", levels - 1) : std::string(" only"));
  }
  Link& link = cluster.levels[index(key.number)].link;
  if (key.rest.empty()) {
    set_bandwidth(change, link);
  } else if (key.rest == "collective") {
    link.collective = new_bandwidth(change, link.collective);
  } else if (key.rest == "latency") {
    link.latency = quantity(change, parse_duration);
  } else {
    fail_unknown("property of a link", key.rest, {"latency", "collective"});
  }
}

SlowDevice slow_device(const Change& change, const NumberedKey& key, const Cluster& cluster) {
  if (key.rest != "slow") {
    fail_usage("--set ", change.key, ": of a device only its slowness can be set: device",
               key.number, ".slow=20%");
  }
  if (key.number >= device_count(cluster)) {
    fail_usage("--set ", change.key, ": ", cluster.name, " has the devices 0 to ",
               device_count(cluster) - 1);
  }
  if (!percentage(change)) {
    fail_usage("--set ", change.key,
               ": expected how much longer it computes, such as 20%, found \"", change.value, "\"");
  }
  return {key.number, change.value};
}

/// How many of each; all stages have the same.
struct Shape {
  int pipeline = 1;
  int virtual_stages = 1;
  int data = 1;
  int tensor = 1;
  int context = 1;
  int devices() const { return pipeline * data * tensor * context; }
  int stages() const { return pipeline * virtual_stages; }
  bool operator==(const Shape&) const = default;
};

/// Nothing where stages differ.
std::optional<Shape> shape_of_all(const Plan& plan) {
  const Stage& first = plan.stages.front();
  for (const Stage& stage : plan.stages) {
    if (stage.devices.size() != first.devices.size()) return {};
    for (const std::vector<int>& peers : stage.devices) {
      if (peers.size() != first.devices.front().size()) return {};
    }
  }
  return Shape{.pipeline = pipeline_devices(plan),
               .virtual_stages = plan.schedule.virtual_stages,
               .data = static_cast<int>(first.devices.size()),
               .tensor = tensor_degree(plan),
               .context = plan.parallelism.context};
}

Shape require_one_shape(const Plan& plan, std::string_view what) {
  const auto shape = shape_of_all(plan);
  if (shape) return *shape;
  fail("--set ", what,
       ": the plan's stages have different numbers of replicas or peers, which no one number "
       "replaces; make a plan with stagecraft plan instead");
}

/// The changes by their keys, each of which is looked at in its turn.
class Wishes {
 public:
  explicit Wishes(const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      if (!wishes_.emplace(change.key, change).second)
        fail_usage("--set ", change.key, " is given twice");
    }
  }
  const Change* find(std::string_view key) const {
    const auto found = wishes_.find(key);
    return found == wishes_.end() ? nullptr : &found->second;
  }
  int number(std::string_view key, int otherwise) const {
    const Change* change = find(key);
    return change == nullptr ? otherwise : small_number(*change);
  }
  const std::map<std::string, Change, std::less<>>& all() const { return wishes_; }

 private:
  std::map<std::string, Change, std::less<>> wishes_;
};

void set_cluster(const Wishes& wishes, ChangedPlan& changed) {
  Cluster& cluster = changed.loaded.cluster;
  for (const auto& [key, change] : wishes.all()) {
    if (const auto link = numbered(key, "link")) {
      set_link(change, *link, cluster);
      changed.changes_cluster = true;
    } else if (const auto device = numbered(key, "device")) {
      changed.slow.push_back(slow_device(change, *device, cluster));
    }
  }
  if (changed.changes_cluster && !cluster.overrides.empty()) {
    changed.notes.push_back(
        concat(cluster.overrides.size(),
               " connections that the cluster's file lists one by one stay as they are"));
  }
}

template <class Value>
void set_named(const Wishes& wishes, std::string_view key, Value (*read)(std::string_view),
               Value& value) {
  if (const Change* change = wishes.find(key)) value = quantity(*change, read);
}

bool read_switch(std::string_view text) {
  if (text == "on" || text == "off") return text == "on";
  fail_usage("expected on or off, found \"", text, "\"");
}

/// Of what layers are, whatever devices they are on.
void set_training(const Wishes& wishes, const Profile& profile, Plan& plan) {
  set_named(wishes, "precision", read_precision, plan.precision);
  if (wishes.find("kernels") != nullptr) require_estimated_kernels(profile);
  set_named(wishes, "kernels", read_framework, plan.kernels);
  set_named(wishes, "sharding", sharding_of_word, plan.optimizer.sharding);
  set_named(wishes, "sp", read_switch, plan.parallelism.sequence);
  plan.parallelism.expert = wishes.number("ep", plan.parallelism.expert);
  if (const Change* change = wishes.find("gradient-bucket")) {
    plan.optimizer.gradient_bucket =
        change->value == "off" ? Bytes{0} : quantity(*change, parse_bytes);
  }
  if (const Change* change = wishes.find("sequence")) {
    if (plan.batch.sequence == 0)
      fail_usage("--set sequence: samples of \"", plan.model, "\" are not sequences");
    plan.batch.sequence = whole_number({change->key, with_thousands_written_out(change->value)},
                                       std::int64_t{1} << 40);
  }
}

/// What all stages do again: none, selective (each block its attention), blocks (each block all of
/// itself, by itself) or full (each stage as a whole).
void recompute_all(std::string_view what, const Model& model, std::vector<Stage>& stages) {
  const LayerRange blocks = model.transformer ? decoder_layers(model) : LayerRange{};
  for (Stage& stage : stages) {
    stage.again.clear();
    stage.recompute = what == "full" ? Recompute::full : Recompute::none;
    if (what != "selective" && what != "blocks") continue;
    stage.again.assign(index(stage.layers.size()), Recomputed::none);
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      if (layer < blocks.first || layer >= blocks.end) continue;
      stage.again[index(layer - stage.layers.first)] =
          what == "blocks" ? Recomputed::full : Recomputed::selective;
    }
  }
}

void set_recompute(const Wishes& wishes, const Model& model, Plan& plan) {
  const Change* change = wishes.find("recompute");
  if (change == nullptr) return;
  const std::vector<std::string> known{"none", "selective", "blocks", "full"};
  if (std::ranges::find(known, change->value) == known.end())
    fail_unknown("way to recompute", change->value, known);
  const bool is_of_blocks = change->value == "selective" || change->value == "blocks";
  if (is_of_blocks && !model.transformer) {
    fail_usage("--set recompute=", change->value, ": \"", plan.model,
               "\" is no transformer, so there are no blocks to recompute; say none or full");
  }
  recompute_all(change->value, model, plan.stages);
}

/// Stages per device of the schedule that is wished for.
int virtual_stages_for(const Wishes& wishes, const ScheduleKind& kind, const Plan& plan,
                       std::vector<std::string>& notes) {
  if (const Change* change = wishes.find("vpp")) return small_number(*change);
  const int now = plan.schedule.virtual_stages;
  if (wishes.find("schedule") == nullptr || kind.name == plan.schedule.name) return now;
  int fitting = now;
  const int fewest = fewest_virtual_stages(kind.placement);
  if (kind.placement == StagePlacement::linear || kind.placement == StagePlacement::bidirectional)
    fitting = 1;
  if (kind.placement == StagePlacement::vee) fitting = 2;
  if (kind.placement == StagePlacement::loop || kind.placement == StagePlacement::wave)
    fitting = std::max({now, fewest, 2});
  if (fitting != now) {
    notes.push_back(concat(kind.name, " with ", fitting,
                           fitting == 1 ? " stage per device" : " stages per device",
                           "; --set vpp=N sets another number"));
  }
  return fitting;
}

/// Devices of each pipeline device, replica by replica.
std::vector<std::vector<std::vector<int>>> devices_by_rank(const Plan& plan) {
  const StagePlacement placement = find_schedule(plan.schedule.name).placement;
  const int pipeline = pipeline_devices(plan);
  std::vector<std::vector<std::vector<int>>> devices(index(pipeline));
  for (int stage = 0; stage < static_cast<int>(plan.stages.size()); ++stage) {
    devices[index(device_of_stage(placement, stage, pipeline))] = plan.stages[index(stage)].devices;
  }
  return devices;
}

/// The plan's own where there are as many, else the cluster's first ones; tensor-parallel peers
/// stand next to each other, then context-parallel ones, replicas, and pipeline devices, or with
/// `pipelines_first` pipeline devices, and replicas.
std::vector<std::vector<std::vector<int>>> devices_for(const Shape& shape, const Plan& plan,
                                                       const Cluster& cluster,
                                                       bool pipelines_first) {
  std::vector<int> devices = used_devices(plan);
  if (shape.devices() > device_count(cluster)) {
    fail("pp ", shape.pipeline, " x dp ", shape.data, " x tp ", shape.tensor, " x cp ",
         shape.context, " are ", shape.devices(), " devices; ", cluster.name, " has ",
         device_count(cluster));
  }
  if (static_cast<int>(devices.size()) < shape.devices()) {
    devices.resize(index(shape.devices()));
    for (std::size_t device = 0; device < devices.size(); ++device)
      devices[device] = static_cast<int>(device);
  }
  std::vector<std::vector<std::vector<int>>> ranks(index(shape.pipeline));
  const int peers = shape.tensor * shape.context;
  for (int rank = 0; rank < shape.pipeline; ++rank) {
    for (int replica = 0; replica < shape.data; ++replica) {
      const int place =
          pipelines_first ? replica * shape.pipeline + rank : rank * shape.data + replica;
      const auto first = devices.begin() + place * peers;
      ranks[index(rank)].emplace_back(first, first + peers);
    }
  }
  return ranks;
}

constexpr std::string_view pipelines_outermost = "tp-cp-dp-pp";
constexpr std::string_view pipelines_inside_replicas = "tp-cp-pp-dp";

/// Whether pipeline devices stand closer than replicas.
bool wants_pipelines_first(const Wishes& wishes) {
  const Change* change = wishes.find("order");
  if (change == nullptr) return false;
  if (change->value != pipelines_outermost && change->value != pipelines_inside_replicas) {
    fail_unknown("order of devices, innermost first", change->value,
                 {std::string(pipelines_outermost), std::string(pipelines_inside_replicas)});
  }
  return change->value == pipelines_inside_replicas;
}

/// What the planner would be asked for just this shape.
Problem problem_for(const LoadedPlan& loaded, const Shape& shape) {
  const Plan& plan = loaded.plan;
  Problem problem;
  problem.model_name = plan.model;
  problem.cluster_name = plan.cluster;
  problem.profile_hash = plan.profile;
  problem.profile = loaded.profile;
  problem.order = plan.order;
  problem.cluster = loaded.cluster;
  problem.precision = plan.precision;
  problem.kernels = plan.kernels;
  problem.global_batch = plan.batch.global;
  problem.microbatches = {plan.batch.microbatch};
  problem.sequence = plan.batch.sequence;
  problem.optimizer = plan.optimizer;
  problem.parallelism = plan.parallelism;
  ScheduleChoice choice = plan.schedule;
  choice.warm_up.clear();
  problem.schedules = {choice};
  problem.tensor_parallel = {shape.tensor};
  problem.devices = shape.devices();
  if (plan.schedule.name != "1f1b" &&
      find_schedule(plan.schedule.name).weights != WeightPolicy::flush)
    problem.objective = ObjectiveKind::throughput;
  return problem;
}

/// The best that moving layers one by one makes of the layouts; nothing where the clock does not
/// know the schedule.
std::optional<Layout> improved(const Space& space, const Setting& setting,
                               const std::vector<Layout>& layouts) {
  if (!setting.trains || !setting.drains || is_only_simulated(setting.schedule)) return {};
  FastClock clock(space, setting);
  if (clock.order_for(layouts.front().replicas) == nullptr) return {};
  std::optional<Layout> best;
  for (const Layout& start : layouts) {
    constexpr std::int64_t steps = 20'000'000;
    Effort effort{.left = steps};
    Layout layout = improve(clock, space, setting, start, effort);
    const auto rank = [&](const Layout& of) {
      return std::pair(!may_fit(clock, of), clock.step(of));
    };
    if (!best || rank(layout) < rank(*best)) best = std::move(layout);
  }
  return best;
}

/// The layers of each stage, for equal time on every device; with `now`, the cuts that there are,
/// moved one by one while that shortens the step, and to where they fit.
std::vector<int> cuts_for(const LoadedPlan& loaded, const Shape& shape,
                          const std::optional<std::vector<int>>& now) {
  const int layers = static_cast<int>(loaded.profile.model.layers.size());
  if (shape.stages() > layers) {
    fail(shape.stages(), " stages (pp ", shape.pipeline, " x vpp ", shape.virtual_stages,
         ") are more than the ", layers, " layers of \"", loaded.plan.model, "\"");
  }
  const Problem problem = problem_for(loaded, shape);
  const Space space(problem);
  const auto& settings = space.settings();
  const auto setting = std::ranges::find_if(settings, [&](const Setting& candidate) {
    return candidate.peers == shape.tensor * shape.context && candidate.columns == 1 &&
           candidate.replicas == loaded.plan.replicas;
  });
  if (setting == settings.end()) return even_cuts(layers, shape.stages());
  Layout layout = balanced(space, *setting, std::vector<int>(index(shape.pipeline), shape.data));
  const bool all = recompute_of_all(loaded.plan, loaded.profile.model) == "full";
  layout.recompute.assign(index(shape.stages()), all ? Recompute::full : Recompute::none);
  if (!now) return layout.cuts;
  std::vector<Layout> starts{layout};
  if (now->size() == layout.cuts.size()) {
    starts.push_back(layout);
    starts.back().cuts = *now;
  }
  if (auto best = improved(space, *setting, starts)) return best->cuts;
  return layout.cuts;
}

/// "12-12-12-10", layers of each stage, as cuts; nothing for the words that `layers` knows.
std::optional<std::vector<int>> counted_cuts(const Change& change, int layers, int stages) {
  if (change.value.find_first_not_of("0123456789-") != std::string::npos) return {};
  std::vector<int> cuts{0};
  for (const std::string& word : split(change.value, '-')) {
    const Change count{change.key, word};
    cuts.push_back(cuts.back() + small_number(count, layers));
    if (cuts.back() > layers) break;
  }
  if (cuts.back() != layers || static_cast<int>(cuts.size()) != stages + 1) {
    fail_usage("--set layers=", change.value, ": expected the layers of each of ", stages,
               " stages, ", layers, " together");
  }
  return cuts;
}

/// As many blocks in every stage; what is before the first with it, what is behind the last, too.
std::vector<int> even_block_cuts(const Model& model, int stages) {
  const int layers = static_cast<int>(model.layers.size());
  const LayerRange blocks = model.transformer ? decoder_layers(model) : LayerRange{0, layers};
  if (blocks.size() % stages != 0) {
    fail("--set layers=even: ", blocks.size(), model.transformer ? " blocks" : " layers", " over ",
         stages, " stages are no whole number each; say layers=balanced, or each stage's: 9-10-…");
  }
  std::vector<int> cuts{0};
  for (int stage = 1; stage < stages; ++stage)
    cuts.push_back(blocks.first + blocks.size() / stages * stage);
  cuts.push_back(layers);
  return cuts;
}

/// The cuts that `layers` asks for; nothing where it is not said, or says balanced.
std::optional<std::vector<int>> wished_cuts(const Wishes& wishes, const Model& model, int stages) {
  const Change* change = wishes.find("layers");
  if (change == nullptr || change->value == "balanced") return {};
  if (change->value == "even") return even_block_cuts(model, stages);
  if (auto cuts = counted_cuts(*change, static_cast<int>(model.layers.size()), stages)) return cuts;
  fail_usage("--set layers: expected even, balanced or the layers of each stage as 9-10-10-9, ",
             "found \"", change->value, "\"");
}

std::vector<int> cuts_of(const Plan& plan) {
  std::vector<int> cuts{0};
  for (const Stage& stage : plan.stages) cuts.push_back(stage.layers.end);
  return cuts;
}

void set_cuts(const std::vector<int>& cuts,
              const std::vector<std::vector<std::vector<int>>>& devices, Plan& plan) {
  const StagePlacement placement = find_schedule(plan.schedule.name).placement;
  const int pipeline = static_cast<int>(devices.size());
  plan.stages.assign(cuts.size() - 1, {});
  for (int stage = 0; stage < static_cast<int>(plan.stages.size()); ++stage) {
    plan.stages[index(stage)] = {
        .layers = {cuts[index(stage)], cuts[index(stage) + 1]},
        .devices = devices[index(device_of_stage(placement, stage, pipeline))]};
  }
}

/// Samples of a microbatch per replica, where replicas split it.
std::int64_t samples_per_replica(const Plan& plan, const Shape& shape) {
  if (plan.replicas == ReplicaPolicy::round_robin) return plan.batch.microbatch;
  if (plan.batch.microbatch % shape.data != 0) {
    fail("--set dp: a microbatch of ", plan.batch.microbatch, " samples on ", shape.data,
         " replicas is no whole number for each; add --set mbs=N");
  }
  return plan.batch.microbatch / shape.data;
}

/// Degrees as wished; replicas take the devices that the others leave.
Shape wished_shape(const Wishes& wishes, const Shape& now, const Plan& plan) {
  Shape shape = now;
  shape.pipeline = wishes.number("pp", now.pipeline);
  shape.tensor = wishes.number("tp", now.tensor);
  shape.context = wishes.number("cp", now.context);
  if (wishes.find("dp") != nullptr) {
    shape.data = wishes.number("dp", now.data);
    return shape;
  }
  const int devices = static_cast<int>(used_devices(plan).size());
  const std::int64_t model = std::int64_t{shape.pipeline} * shape.tensor * shape.context;
  if (model > devices || devices % model != 0) {
    fail("pp ", shape.pipeline, " x tp ", shape.tensor, " x cp ", shape.context, " = ", model,
         " does not divide the plan's ", devices, devices == 1 ? " device" : " devices",
         " into whole replicas; set dp, too, or other degrees");
  }
  shape.data = static_cast<int>(devices / model);
  return shape;
}

void set_schedule(const ScheduleKind& kind, int virtual_stages, Plan& plan) {
  if (kind.name != plan.schedule.name) {
    plan.schedule = {.name = std::string(kind.name),
                     .sequence_chunks = plan.schedule.sequence_chunks};
    plan.weights = kind.weights;
  }
  if (virtual_stages != plan.schedule.virtual_stages) plan.schedule.group.reset();
  plan.schedule.virtual_stages = virtual_stages;
  plan.schedule.warm_up.clear();
}

std::string words_for(const std::vector<int>& cuts) {
  std::string text;
  for (std::size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
    if (stage == 16) return text + " ...";
    text += concat(stage == 0 ? "" : " ", cuts[stage + 1] - cuts[stage]);
  }
  return text;
}

/// Whether the plan's stages stay where they are, whatever the schedule is called.
bool keeps_stages(const Wishes& wishes, bool balance, const StagePlacement before,
                  const StagePlacement after, const Plan& plan, int virtual_stages) {
  const bool has_degrees =
      std::ranges::any_of(std::array{"pp", "tp", "cp", "dp", "order", "layers"},
                          [&](auto key) { return wishes.find(key) != nullptr; });
  return !has_degrees && !balance && before == after &&
         virtual_stages == plan.schedule.virtual_stages;
}

const ScheduleKind& wished_schedule(const Wishes& wishes, const Plan& plan) {
  const Change* change = wishes.find("schedule");
  return find_schedule(change == nullptr ? plan.schedule.name : change->value);
}

/// Where stages stand is asked before the plan is checked as a whole. Throws Error (input) with the
/// schedule's own sentence.
void require_takes(const ScheduleKind& kind, const Shape& shape, int microbatches) {
  const int stages = shape.virtual_stages;
  const auto is_taken = [&] {
    switch (kind.placement) {
      case StagePlacement::linear:
      case StagePlacement::bidirectional: return stages == 1;
      case StagePlacement::vee: return stages == 2;
      case StagePlacement::loop:
      case StagePlacement::wave: return true;
    }
    return true;
  };
  if (is_taken()) return;
  try {
    kind.generate(
        {.devices = shape.pipeline, .microbatches = microbatches, .virtual_stages = stages});
  } catch (const Error& error) {
    fail("--set vpp=", stages, ": ", error.message());
  }
  fail("--set vpp=", stages, ": ", kind.name, " takes no such number of stages per device");
}

/// Schedule, degrees and stages.
void set_shape(const Wishes& wishes, bool balance, ChangedPlan& changed) {
  Plan& plan = changed.loaded.plan;
  const ScheduleKind& before = find_schedule(plan.schedule.name);
  const ScheduleKind& after = wished_schedule(wishes, plan);
  const int virtual_stages = virtual_stages_for(wishes, after, plan, changed.notes);
  if (keeps_stages(wishes, balance, before.placement, after.placement, plan, virtual_stages)) {
    if (&before != &after) set_schedule(after, virtual_stages, plan);
    return;
  }
  const std::string what = wishes.all().empty() ? "" : to_string({wishes.all().begin()->second});
  const Shape now = require_one_shape(plan, what);
  Shape shape = wished_shape(wishes, now, plan);
  shape.virtual_stages = virtual_stages;
  const Model& model = changed.loaded.profile.model;
  // More stages than layers is said of any schedule, where they are cut.
  if (shape.stages() <= static_cast<int>(model.layers.size()))
    require_takes(after, shape, plan.batch.microbatches);
  const auto recompute = recompute_of_all(plan, model);
  const auto cuts_as_wished = wished_cuts(wishes, model, shape.stages());
  const bool keeps_cuts = (!cuts_as_wished || *cuts_as_wished == cuts_of(plan)) && !balance &&
                          shape.stages() == now.stages();
  const std::vector<Stage> before_cuts = plan.stages;
  if (!keeps_cuts && !recompute && wishes.find("recompute") == nullptr) {
    fail("--set ", what,
         ": the plan's stages recompute differently, and would become other stages; ",
         "add --set recompute=none, selective, blocks or full for all of them");
  }
  const bool same_ranks = shape.pipeline == now.pipeline && shape.data == now.data &&
                          shape.tensor == now.tensor && shape.context == now.context;
  const bool pipelines_first = wants_pipelines_first(wishes);
  const auto devices = same_ranks && wishes.find("order") == nullptr
                           ? devices_by_rank(plan)
                           : devices_for(shape, plan, changed.loaded.cluster, pipelines_first);
  const std::int64_t samples = samples_per_replica(plan, now);
  plan.parallelism.context = shape.context;
  if (plan.replicas == ReplicaPolicy::split) {
    plan.batch.microbatch = samples * shape.data;
    if (plan.batch.global % plan.batch.microbatch == 0)
      plan.batch.microbatches = static_cast<int>(plan.batch.global / plan.batch.microbatch);
  }
  set_schedule(after, virtual_stages, plan);
  std::vector<int> cuts = cuts_of(plan);
  if (cuts_as_wished) {
    cuts = *cuts_as_wished;
  } else if (balance || shape.stages() != now.stages()) {
    cuts = cuts_for(changed.loaded, shape, balance ? std::optional(cuts) : std::nullopt);
    changed.notes.push_back(
        balance ? concat("layers are cut anew, for the shortest step: ", words_for(cuts))
                : concat("layers are cut anew, for equal time on every device: ", words_for(cuts)));
  }
  set_cuts(cuts, devices, plan);
  if (!keeps_cuts) return recompute_all(recompute.value_or("none"), model, plan.stages);
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    plan.stages[stage].recompute = before_cuts[stage].recompute;
    plan.stages[stage].again = before_cuts[stage].again;
  }
}

/// Samples per step and per microbatch.
void set_batch(const Wishes& wishes, Plan& plan) {
  Batch& batch = plan.batch;
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (const Change* change = wishes.find("batch")) batch.global = whole_number(*change, most);
  const Change* per_replica = wishes.find("mbs");
  const Change* whole = wishes.find("microbatch");
  if (per_replica != nullptr && whole != nullptr)
    fail_usage("--set mbs (of each replica) and --set microbatch (of all) say the same twice");
  if (whole != nullptr) batch.microbatch = whole_number(*whole, most);
  if (per_replica != nullptr) {
    const Shape shape = require_one_shape(plan, "mbs");
    const bool in_turns = plan.replicas == ReplicaPolicy::round_robin;
    batch.microbatch = whole_number(*per_replica, most / shape.data) * (in_turns ? 1 : shape.data);
  }
  if (batch.global % batch.microbatch != 0 || batch.global / batch.microbatch > INT32_MAX) {
    fail("a batch of ", batch.global, " samples is no whole number of microbatches of ",
         batch.microbatch, "; set batch or microbatch, too");
  }
  batch.microbatches = static_cast<int>(batch.global / batch.microbatch);
}

void require_known(const Change& change) {
  if (numbered(change.key, "link") || numbered(change.key, "device")) return;
  std::vector<std::string> known;
  for (const ChangeKind& kind : change_kinds()) {
    if (kind.key == change.key) return;
    known.emplace_back(kind.key);
  }
  fail_unknown("change", change.key, known);
}

}  // namespace

const std::vector<ChangeKind>& change_kinds() {
  static const std::vector<ChangeKind> kinds{
      {"batch", "batch=512", "samples per step", true},
      {"mbs", "mbs=2", "samples per microbatch and replica", true},
      {"microbatch", "microbatch=8", "samples per microbatch, over all replicas", true},
      {"sequence", "sequence=8192", "tokens per sample; 32k are 32768", true},
      {"pp", "pp=4", "pipeline devices", true},
      {"vpp", "vpp=2", "stages per pipeline device", true},
      {"tp", "tp=4", "tensor-parallel degree", true},
      {"cp", "cp=2", "context-parallel degree", true},
      {"ep", "ep=8", "expert-parallel degree", true},
      {"dp", "dp=2", "replicas of each stage", true},
      {"sp", "sp=off", "sequence parallelism"},
      {"schedule", "schedule=zb-h1", "a name of `stagecraft schedule list`"},
      {"recompute", "recompute=selective", "of all stages: none, selective, blocks or full"},
      {"sharding", "sharding=zero1", "none, zero1, zero2 or zero3"},
      {"gradient-bucket", "gradient-bucket=25MiB",
       "gradients are summed beside the last backward, so many bytes at a time; or off"},
      {"layers", "layers=balanced", "of each stage: balanced, even, or 9-10-10-9"},
      {"order", "order=tp-cp-pp-dp", "of devices, innermost first: tp-cp-dp-pp or tp-cp-pp-dp"},
      {"precision", "precision=fp8", "as of `stagecraft plan`"},
      {"kernels", "kernels=torch", "whose kernels estimated layers have: megatron or torch"},
      {"linkN", "link0=50%", "bandwidth of a level of the cluster, outermost 0: a rate or a part"},
      {"linkN.latency", "link0.latency=5us", "its latency"},
      {"linkN.collective", "link0.collective=40GB/s", "its bandwidth in collectives"},
      {"deviceN.slow", "device5.slow=20%", "how much longer a device computes"},
  };
  return kinds;
}

Change read_change(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    fail_usage("--set: expected KEY=VALUE such as tp=4, found \"", text, "\"");
  Change change{.key = trim(text.substr(0, equals)), .value = trim(text.substr(equals + 1))};
  const auto other = std::ranges::find(other_names, std::string_view(change.key), &OtherName::name);
  if (other != other_names.end()) change.key = other->key;
  require_known(change);
  return change;
}

bool takes_integers(const Change& change) {
  return std::ranges::any_of(change_kinds(), [&](const ChangeKind& kind) {
    return kind.key == change.key && kind.is_list_of_integers;
  });
}

std::string to_string(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes)
    text += concat(text.empty() ? "" : " ", change.key, "=", change.value);
  return text;
}

std::optional<std::string_view> recompute_of_all(const Plan& plan, const Model& model) {
  const auto done_again = [](const Stage& stage) {
    std::vector<Recomputed> again = stage.again;
    again.resize(index(stage.layers.size()), Recomputed::none);
    return again;
  };
  for (const std::string_view what : {"none", "full", "selective", "blocks"}) {
    std::vector<Stage> stages = plan.stages;
    recompute_all(what, model, stages);
    const bool is_so = std::ranges::equal(stages, plan.stages, [&](const auto& a, const auto& b) {
      return a.recompute == b.recompute && done_again(a) == done_again(b);
    });
    if (is_so) return what;
  }
  return {};
}

ChangedPlan changed(LoadedPlan loaded, const std::vector<Change>& changes, bool balance) {
  const Wishes wishes(changes);
  const Change* layers = wishes.find("layers");
  if (layers != nullptr && layers->value == "balanced") balance = true;
  if (layers != nullptr && layers->value != "balanced" && balance)
    fail_usage("--replan looks for the layers of each stage itself; leave out --set layers=",
               layers->value);
  ChangedPlan result{.loaded = std::move(loaded), .slow = {}, .notes = {}};
  Plan& plan = result.loaded.plan;
  plan.predicted.reset();
  plan.search.reset();
  set_cluster(wishes, result);
  set_training(wishes, result.loaded.profile, plan);
  set_recompute(wishes, result.loaded.profile.model, plan);
  set_shape(wishes, balance, result);
  set_batch(wishes, plan);
  try {
    validate(plan, result.loaded.profile.model, result.loaded.cluster);
  } catch (const Error& error) {
    throw Error(error.kind(), concat("--set ", to_string(changes), ": ", error.message()), {},
                error.help());
  }
  return result;
}

}  // namespace stagecraft
