#include "tools/options/scenario.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/engines/repeats.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/schedule_argument.hpp"

namespace stagecraft {

namespace {

/// One quantity is a device's (each of its virtual stages takes its share); a list gives each stage
/// its own.
template <class Quantity>
std::vector<Quantity> per_stage(std::string_view flag, std::vector<Quantity> given,
                                const ScheduleShape& shape) {
  const auto stages = index(shape.devices) * index(shape.virtual_stages);
  if (given.size() == stages && stages > 1) return given;
  if (given.size() != 1)
    fail_usage(flag, ": expected one value or ", stages, " (one per stage), found ", given.size());
  return std::vector<Quantity>(stages, given.front() / shape.virtual_stages);
}

/// Are backwards given in halves? Throws unless they are given in exactly one way, or, for what
/// does not train, not at all.
bool splits_backward(const ScenarioOptions& options, const ScheduleSetting& setting, bool trains) {
  const bool split = !options.backward_input.empty() || !options.backward_weight.empty();
  if (options.forward.empty())
    fail_usage("--schedule needs --forward DURATION, the time of one microbatch on one device");
  const bool whole = !options.backward.empty();
  const bool both = !options.backward_input.empty() && !options.backward_weight.empty();
  if (!trains && (split || whole))
    fail_usage(name_of(setting), " has no backward; leave the times of backwards away");
  if (!trains && options.recompute != "none") {
    fail_usage(name_of(setting),
               " has no backward, so there is nothing to recompute; leave --recompute away");
  }
  if (!trains && options.norm != "none")
    fail_usage(name_of(setting), " has no gradients, and so no norm of them; leave --norm away");
  if (trains && (split == whole || split != both)) {
    fail_usage(
        "--schedule needs either --backward, or both --backward-input and --backward-weight");
  }
  return split;
}

/// Durations of every stage as the flags give them: whole backwards, or halves, one derived from
/// the other.
std::vector<ChunkCosts> stage_costs(const ScenarioOptions& options,
                                    const ScheduleSetting& setting) {
  const ScheduleShape& shape = setting.shape;
  const bool trains =
      setting.file ? setting.file->schedule.trains : setting.kind->generate != inference;
  const bool split = splits_backward(options, setting, trains);
  std::vector<ChunkCosts> costs(index(shape.devices) * index(shape.virtual_stages));
  const auto fill = [&](Duration ChunkCosts::*member, std::string_view flag,
                        const std::string& text) {
    const std::vector<Duration> values = per_stage(flag, read_durations(flag, text), shape);
    for (std::size_t s = 0; s < costs.size(); ++s) costs[s].*member = values[s];
  };
  fill(&ChunkCosts::forward, "--forward", options.forward);
  fill(&ChunkCosts::recompute, "--forward", options.forward);
  if (!trains) return costs;
  if (!options.fused.empty()) {
    const std::vector<Duration> values =
        per_stage("--fused", read_durations("--fused", options.fused), shape);
    for (std::size_t s = 0; s < costs.size(); ++s) costs[s].fused = values[s];
  }
  if (!split) {
    fill(&ChunkCosts::backward, "--backward", options.backward);
    return costs;
  }
  fill(&ChunkCosts::backward_input, "--backward-input", options.backward_input);
  fill(&ChunkCosts::backward_weight, "--backward-weight", options.backward_weight);
  for (ChunkCosts& cost : costs) cost.backward = cost.backward_input + cost.backward_weight;
  return costs;
}

/// The durations are those of a microbatch; an instruction takes its part of it.
void share_among(std::vector<ChunkCosts>& costs, int parts) {
  for (ChunkCosts& cost : costs) {
    for (Duration* time : {&cost.forward, &cost.backward, &cost.backward_input,
                           &cost.backward_weight, &cost.recompute}) {
      *time /= parts;
    }
    if (cost.fused) *cost.fused /= parts;
  }
}

Duration norm_time(const ScenarioOptions& options) {
  if (options.norm_time.empty()) return read_duration("--transfer", options.transfer);
  if (options.norm == "none") fail_usage("--norm-time goes with --norm global or post-validated");
  return read_duration("--norm-time", options.norm_time);
}

void time_norm(const Program& program, Duration time, Costs& costs) {
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    if (program.groups[i].op == Op::reduce_norm) costs.groups[i] = time;
  }
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const Cargo cargo = program.channels[i].cargo;
    if (cargo == Cargo::norm || cargo == Cargo::validation) costs.channels[i] = {.latency = time};
  }
}

/// Of a microbatch's activations, by stages of a pipe: what a forward keeps, and the part of it
/// that the input gradient leaves for the weight gradient.
struct KeptActivations {
  std::vector<Bytes> saved, for_weight;
};

bool is_percentage(const std::string& text) {
  return text.ends_with('%');
}

std::vector<Bytes> for_weight_of(const ScenarioOptions& options, const ScheduleShape& shape,
                                 const std::vector<Bytes>& saved) {
  const char* const flag = "--activations-for-weight";
  const std::string& text = options.activations_for_weight;
  if (text.empty()) return saved;
  if (is_percentage(text)) {
    const double part = read_percent(flag, text);
    std::vector<Bytes> parts;
    for (const Bytes bytes : saved)
      parts.push_back(std::llround(part * static_cast<double>(bytes)));
    return parts;
  }
  const std::vector<Bytes> parts = per_stage(flag, read_byte_list(flag, text), shape);
  for (std::size_t s = 0; s < parts.size(); ++s) {
    if (parts[s] <= saved[s]) continue;
    fail_usage(flag, ": ", format_bytes(parts[s]), " of stage ", s,
               " are more than its activations, ", format_bytes(saved[s]));
  }
  return parts;
}

/// Without sizes they are all as large, and only the part matters.
KeptActivations activations_of(const ScenarioOptions& options, const ScheduleShape& shape) {
  constexpr Bytes unit = 1'000'000;
  const std::vector<Bytes> saved =
      options.activations.empty()
          ? std::vector<Bytes>(index(shape.devices) * index(shape.virtual_stages), unit)
          : per_stage("--activations", read_byte_list("--activations", options.activations), shape);
  return {saved, for_weight_of(options, shape, saved)};
}

/// Their sums as hints, of which only the ratio matters: schedules multiply them by microbatches.
void add_activations(const KeptActivations& kept, ScheduleHints& hints) {
  constexpr double most = double{1} * (Bytes{1} << 32);
  const auto sum = [](const std::vector<Bytes>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), 0.0,
                           [](double all, Bytes one) { return all + static_cast<double>(one); });
  };
  const double saved = sum(kept.saved), for_weight = sum(kept.for_weight);
  if (saved < 1) return;
  const double scale = std::min(1.0, most / saved);
  hints.saved = std::llround(scale * saved);
  hints.saved_for_weight = std::llround(scale * for_weight);
}

/// Automatic schedules reckon with these.
ScheduleHints hints_of(const std::vector<ChunkCosts>& stages, int devices, Duration transfer) {
  ScheduleHints hints{.forward = {}, .backward_input = {}, .backward_weight = {}};
  for (const ChunkCosts& stage : stages) {
    hints.forward += stage.forward;
    hints.backward_input += stage.backward_input;
    hints.backward_weight += stage.backward_weight;
  }
  for (Duration* time : {&hints.forward, &hints.backward_input, &hints.backward_weight}) {
    *time /= devices;
  }
  hints.transfer = transfer;
  return hints;
}

bool splits_backward(const Schedule& schedule) {
  const auto half = [](const Instruction& it) { return it.op == Op::backward_weight; };
  return std::any_of(schedule.devices.begin(), schedule.devices.end(), [&](const auto& order) {
    return std::any_of(order.begin(), order.end(), half);
  });
}

void require_halves(const ScenarioOptions& options, const ScheduleSetting& setting) {
  if (options.backward.empty()) return;
  fail_usage(name_of(setting),
             " splits backwards in two; give --backward-input and --backward-weight ",
             "instead of --backward");
}

/// Bytes of each stage, if any are given; what a message carries is kept at both of its ends.
void add_memory(const ScenarioOptions& options, const ScheduleSetting& setting,
                const Schedule& schedule, LowerOptions& lowering) {
  if (options.message.empty() && options.activations.empty()) return;
  const auto stages = static_cast<std::size_t>(schedule.stages);
  const auto in_pipe = static_cast<std::size_t>(stages_per_pipe(schedule));
  KeptActivations activations{std::vector<Bytes>(in_pipe, 0), std::vector<Bytes>(in_pipe, 0)};
  if (!options.activations.empty()) activations = activations_of(options, setting.shape);
  const Bytes message =
      options.message.empty() ? 0 : read_bytes("--message", options.message) / schedule.parts;
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t in_model = s % activations.saved.size();
    const bool is_first = s % in_pipe == 0, is_last = (s + 1) % in_pipe == 0;
    lowering.boundary.push_back(is_last ? 0 : message);
    lowering.memory.push_back(
        {{.saved = activations.saved[in_model] / schedule.parts,
          .saved_for_weight = activations.for_weight[in_model] / schedule.parts,
          .input = is_first ? 0 : message,
          .output = is_last ? 0 : message}});
  }
}

/// Generic devices; with two bandwidths in nodes.
Cluster cluster_for(const ScenarioOptions& options, int devices) {
  Cluster cluster{.name = "flags",
                  .kinds = {builtin_device_kind("generic")},
                  .devices = {},
                  .levels = {},
                  .overrides = {}};
  std::vector<Bandwidth> bandwidths{Bandwidth::unlimited()};
  if (!options.bandwidth.empty()) {
    if (options.message.empty())
      fail_usage("--bandwidth needs --message SIZE, what each message carries");
    bandwidths = read_bandwidths("--bandwidth", options.bandwidth);
  }
  const bool nested = bandwidths.size() == 2;
  if (bandwidths.size() > 2 || nested != options.devices_per_node.has_value()) {
    fail_usage("--bandwidth: expected one rate, or two (between nodes, inside) together with ",
               "--devices-per-node N");
  }
  const int inner = options.devices_per_node.value_or(1);
  const auto level = [&](int count, Bandwidth bandwidth) {
    return Level{.count = count, .link = {.point_to_point = bandwidth, .collective = bandwidth}};
  };
  cluster.levels.push_back(level((devices + inner - 1) / inner, bandwidths.front()));
  if (nested) cluster.levels.push_back(level(inner, bandwidths.back()));
  cluster.devices.assign(index((devices + inner - 1) / inner) * index(inner), 0);
  return cluster;
}

void add_occupancy(const Program& program, const Cluster& cluster, Costs& costs) {
  const auto device = [&](int chunk) {
    return program.chunks[static_cast<std::size_t>(chunk)].device;
  };
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const Channel& channel = program.channels[i];
    const Link link = link_between(cluster, device(channel.from), device(channel.to));
    costs.channels[i].occupancy = transfer_time(channel.bytes, link.point_to_point);
  }
}

/// A file's ranks and stages as a shape, so that durations of devices mean the same as elsewhere.
ScheduleSetting setting_of_file(Console& console, const std::string& path,
                                const ShapeOptions& shape_options) {
  const TorchReading reading{.pipes = shape_options.pipes.value_or(1),
                             .sequence_chunks = shape_options.sequence_chunks};
  auto file = std::make_shared<const TorchSchedule>(read_schedule_file(console, path, reading));
  const int ranks = static_cast<int>(file->schedule.devices.size());
  const std::vector<int>& rank_of_stage = file->schedule.device_of_stage;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto held = std::count(rank_of_stage.begin(), rank_of_stage.end(), rank);
    if (held * ranks != file->schedule.stages) {
      fail_usage(path, ": rank ", rank, " holds ", held, " of ", file->schedule.stages,
                 " stages; durations of devices need the same number on each of the ", ranks,
                 " ranks");
    }
  }
  const Schedule& given = file->schedule;
  const ScheduleShape shape{
      .devices = ranks,
      .microbatches = given.microbatches * given.pipes / given.sequence_chunks,
      .virtual_stages = std::max(1, stages_per_pipe(given) / ranks)};
  return {.kind = nullptr, .shape = shape, .file = std::move(file)};
}

}  // namespace

void declare_scenario(CLI::App& app, ScenarioOptions& options) {
  const std::size_t others = app.get_options().size();
  app.add_option(
         "--schedule", options.schedule,
         "Schedule: a name of `stagecraft schedule list`, or a torch CSV; a list makes a sweep")
      ->type_name("NAME");
  declare_shape(app, options.shape);
  app.add_option("--microbatches", options.microbatches,
                 "Microbatches per iteration; a list or range (4..128) makes a sweep")
      ->type_name("M");
  app.add_option("--forward", options.forward,
                 "Time of a microbatch's forward on a device, or one time per stage")
      ->type_name("D");
  app.add_option("--backward", options.backward, "Time of a microbatch's backward")->type_name("D");
  app.add_option("--backward-input", options.backward_input,
                 "Time of the backward's input gradient")
      ->type_name("D");
  app.add_option("--backward-weight", options.backward_weight,
                 "Time of the backward's weight gradient")
      ->type_name("D");
  app.add_option("--fused", options.fused,
                 "Time of a fused forward and backward, in schedules that have them (their sum)")
      ->type_name("D");
  app.add_option("--transfer", options.transfer, "Latency of each message between devices (0)")
      ->type_name("D");
  app.add_option("--message", options.message, "Size of a microbatch's message (0B)")
      ->type_name("SIZE");
  app.add_option("--bandwidth", options.bandwidth,
                 "Bandwidth of a device's link, or of links between and inside nodes; a message "
                 "occupies its link (unlimited)")
      ->type_name("RATE[,RATE]");
  app.add_option("--devices-per-node", options.devices_per_node,
                 "Devices per node, with two bandwidths")
      ->type_name("N")
      ->check(CLI::Range(1, most_devices));
  app.add_option("--activations", options.activations,
                 "Memory of a microbatch's activations on a device, or one size per stage (0B)")
      ->type_name("SIZE");
  app.add_option("--activations-for-weight", options.activations_for_weight,
                 "With split backwards: the part of the activations that the input gradient leaves "
                 "for the weight gradient, a percentage or, with --activations, a size (100%)")
      ->type_name("PERCENT|SIZE");
  app.add_option("--recompute", options.recompute, "Recomputation: none or full (none)")
      ->type_name("R")
      ->check(CLI::IsMember({"none", "full"}));
  app.add_option("--norm", options.norm,
                 "Gradient norm that updates wait for: none, global or post-validated (none)")
      ->type_name("N");
  app.add_option(
         "--norm-time", options.norm_time,
         "Time of the norm's all-reduce, or of each message that passes the norm on (--transfer)")
      ->type_name("D");
  const std::vector<CLI::Option*> all = app.get_options([](const CLI::Option*) { return true; });
  for (std::size_t i = others; i < all.size(); ++i) all[i]->group(of_schedules);
}

std::string name_of(const ScheduleSetting& setting) {
  return setting.kind != nullptr ? std::string(setting.kind->name) : setting.file->schedule.name;
}

namespace {

/// --fused, where no schedule has such a pass.
void refuse_idle_fused(const ScenarioOptions& options,
                       const std::vector<ScheduleSetting>& settings) {
  const bool has_pairs = std::ranges::any_of(settings, [](const ScheduleSetting& setting) {
    if (setting.kind != nullptr) return setting.kind->hides_messages;
    return std::ranges::any_of(setting.file->schedule.fused,
                               [](const auto& pairs) { return !pairs.empty(); });
  });
  if (options.fused.empty() || has_pairs) return;
  fail_usage(
      "--fused is the time of a forward and a backward in one pass, as in dualpipe and "
      "dualpipev; ",
      options.schedule, " has none");
}

/// Whether the order depends on what activations take, and what of them waits for the weight
/// gradient.
bool reckons_with_memory(const ScheduleSetting& setting) {
  constexpr std::array reckoning{zb_auto, zb_1p, zb_2p, zbv_auto, v_half, v_min};
  return setting.kind != nullptr &&
         std::ranges::find(reckoning, setting.kind->generate) != reckoning.end();
}

/// A part of activations waits only where backwards are split, and is told apart only where sizes
/// are given, or where the order itself reckons with them.
void refuse_idle_part(const ScenarioOptions& options,
                      const std::vector<ScheduleSetting>& settings) {
  const char* const flag = "--activations-for-weight";
  const std::string& text = options.activations_for_weight;
  if (text.empty()) return;
  const bool any_splits = std::ranges::any_of(settings, [](const ScheduleSetting& setting) {
    return setting.file ? splits_backward(setting.file->schedule) : setting.kind->splits_backward;
  });
  if (!any_splits) {
    fail_usage(flag, " is of backwards in two parts, as in zb-h1 and zb-2p; ", options.schedule,
               " has whole ones");
  }
  if (!options.activations.empty()) return;
  if (!is_percentage(text)) {
    fail_usage(flag, " ", text, " is a part of the activations, whose size is missing: ",
               "add --activations SIZE, or give a percentage");
  }
  if (std::ranges::any_of(settings, reckons_with_memory)) return;
  fail_usage(flag, " changes nothing here without --activations SIZE, for ", options.schedule,
             " has the same order in any memory; zb-auto, zb-2p and zbv-auto have not");
}

}  // namespace

std::vector<ScheduleSetting> settings_of(const ScenarioOptions& options, Console& console) {
  std::vector<ScheduleSetting> settings;
  Sweep sweep;
  for (const std::string& name : read_words("--schedule", options.schedule)) {
    if (is_schedule_file(name)) {
      settings.push_back(setting_of_file(console, name, options.shape));
      continue;
    }
    const ScheduleKind& kind = find_schedule(name);
    if (options.shape.stages.empty() || options.microbatches.empty())
      fail_usage("--schedule needs --stages P and --microbatches M");
    if (options.shape.virtual_stages.empty() &&
        usual_virtual_stages(kind) > fewest_virtual_stages(kind.placement)) {
      console.note(concat(kind.name, ": ", usual_virtual_stages(kind),
                          " stages on each device; --virtual V for another number"));
    }
    const std::vector<int> microbatches =
        read_small_integers("--microbatches", options.microbatches, 1, most_microbatches);
    for (const ScheduleShape& shape : shapes_from(options.shape, kind, microbatches, sweep)) {
      settings.push_back({.kind = &kind, .shape = shape});
    }
  }
  refuse_idle_fused(options, settings);
  refuse_idle_part(options, settings);
  return settings;
}

nlohmann::ordered_json setting_json(const ScheduleSetting& setting) {
  nlohmann::ordered_json json{{"schedule", name_of(setting)},
                              {"stages", setting.shape.devices},
                              {"microbatches", setting.shape.microbatches},
                              {"virtual", setting.shape.virtual_stages}};
  if (setting.norm != GradientNorm::none) json["norm"] = to_string(setting.norm);
  if (setting.shape.decode_steps > 0) json["decode_steps"] = setting.shape.decode_steps;
  return json;
}

std::optional<Environment> environment_of(const ConditionOptions& options,
                                          const Scenario& scenario) {
  std::vector<int> devices(static_cast<std::size_t>(scenario.program.devices));
  std::iota(devices.begin(), devices.end(), 0);
  return environment_of(options, scenario.program, scenario.costs,
                        {.cluster = scenario.cluster, .devices = devices, .memory_limits = {}});
}

namespace {

/// Of the whole schedule, or of a shorter one that tells of it.
Scenario scenario_of(ScheduleSetting setting, const ScenarioOptions& options,
                     const std::optional<Shortened>& shorter) {
  ScheduleShape& shape = setting.shape;
  const bool halves =
      setting.file ? splits_backward(setting.file->schedule) : setting.kind->splits_backward;
  if (halves) require_halves(options, setting);
  std::vector<ChunkCosts> stages = stage_costs(options, setting);
  const Duration transfer = read_duration("--transfer", options.transfer);
  TorchSchedule given{.schedule = {}, .order = {}};
  if (setting.file) {
    given = *setting.file;
  } else {
    if (setting.kind->splits_backward) {
      shape.hints = hints_of(stages, shape.devices, transfer);
      add_activations(activations_of(options, shape), shape.hints);
    }
    given.schedule = setting.kind->generate(shorter ? shorter->shape : shape);
  }
  share_among(stages, given.schedule.parts);
  LowerOptions lowering;
  lowering.recompute.assign(static_cast<std::size_t>(given.schedule.stages),
                            read_recompute(options.recompute));
  add_memory(options, setting, given.schedule, lowering);
  lowering.norm = setting.norm = read_gradient_norm(options.norm);
  Program program = lower(given, lowering);
  if (shorter) program.left_out = shorter->left_out;
  require_safe(program);
  Costs costs = uniform(program, {}, transfer);
  for (std::size_t c = 0; c < costs.chunks.size(); ++c) {
    const auto stage = static_cast<std::size_t>(program.chunks[c].stage);
    costs.chunks[c] = stages[stage % stages.size()];  // copies cost the same
  }
  Cluster cluster = cluster_for(options, program.devices);
  add_occupancy(program, cluster, costs);
  time_norm(program, norm_time(options), costs);
  return {.setting = std::move(setting),
          .lowering = std::move(lowering),
          .program = std::move(program),
          .costs = std::move(costs),
          .cluster = std::move(cluster)};
}

}  // namespace

Scenario scenario_of(ScheduleSetting setting, const ScenarioOptions& options) {
  const std::int64_t passes = setting.file ? 0 : passes_of(setting.shape);
  for (std::int64_t some = most_in_full / 4; 4 * some < passes; some *= 4) {
    const auto shorter = shortened(*setting.kind, setting.shape, some);
    if (!shorter) {
      require_in_reach(*setting.kind, setting.shape, passes, some);
      break;
    }
    Scenario scenario = scenario_of(setting, options, shorter);
    if (shows_period(scenario.program, scenario.costs)) return scenario;
  }
  return scenario_of(std::move(setting), options, std::nullopt);
}

}  // namespace stagecraft
