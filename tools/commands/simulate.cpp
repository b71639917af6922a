// stagecraft simulate PLAN, or --schedule NAME with durations: the predicted timeline and its
// numbers.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "planner/predict.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/check.hpp"
#include "simulator/draw.hpp"
#include "simulator/lower.hpp"
#include "simulator/schedules.hpp"
#include "simulator/simulate.hpp"
#include "simulator/trace.hpp"
#include "tools/arguments.hpp"
#include "tools/commands.hpp"
#include "tools/link_options.hpp"
#include "tools/results.hpp"
#include "tools/shape_options.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct SimulateArguments {
  std::string plan;
  std::string schedule, microbatches, forward, backward, backward_input, backward_weight, fused,
      transfer = "0ns";
  std::string recompute = "none", barrier = "on", trace;
  ShapeOptions shape{.stages = 0};
  LinkOptions links;
  int iterations = 1;
  bool draw = false;
};

/// A simulated timeline and the settings it belongs to.
struct Outcome {
  ordered_json settings;
  Timeline timeline;
  Timeline all_iterations;
};

/// One duration is a device's (each of its virtual stages takes its share); a list gives each stage
/// its own.
std::vector<Duration> per_stage(std::string_view flag, const std::string& text,
                                const ScheduleShape& shape) {
  const std::vector<Duration> given = read_durations(flag, text);
  const auto stages = static_cast<std::size_t>(shape.devices * shape.virtual_stages);
  if (given.size() == stages && stages > 1) return given;
  if (given.size() != 1)
    fail_usage(flag, ": expected one duration or ", stages, " (one per stage), found ",
               given.size());
  return std::vector<Duration>(stages, given.front() / shape.virtual_stages);
}

/// Durations of every stage as the flags give them: whole backwards, or halves, one derived from
/// the other.
std::vector<ChunkCosts> stage_costs(const SimulateArguments& arguments, const ScheduleShape& shape,
                                    bool trains) {
  const bool split = !arguments.backward_input.empty() || !arguments.backward_weight.empty();
  if (arguments.forward.empty())
    fail_usage("--schedule needs --forward DURATION, the time of one microbatch on one device");
  const bool whole = !arguments.backward.empty();
  const bool both = !arguments.backward_input.empty() && !arguments.backward_weight.empty();
  if (!trains && (split || whole))
    fail_usage(arguments.schedule, " has no backward; leave the times of backwards away");
  if (trains && (split == whole || split != both)) {
    fail_usage(
        "--schedule needs either --backward, or both --backward-input and --backward-weight");
  }
  std::vector<ChunkCosts> costs(static_cast<std::size_t>(shape.devices * shape.virtual_stages));
  const auto fill = [&](Duration ChunkCosts::*member, std::string_view flag,
                        const std::string& text) {
    const std::vector<Duration> values = per_stage(flag, text, shape);
    for (std::size_t s = 0; s < costs.size(); ++s) costs[s].*member = values[s];
  };
  fill(&ChunkCosts::forward, "--forward", arguments.forward);
  fill(&ChunkCosts::recompute, "--forward", arguments.forward);
  if (!trains) return costs;
  if (!arguments.fused.empty()) {
    const std::vector<Duration> values = per_stage("--fused", arguments.fused, shape);
    for (std::size_t s = 0; s < costs.size(); ++s) costs[s].fused = values[s];
  }
  if (!split) {
    fill(&ChunkCosts::backward, "--backward", arguments.backward);
    return costs;
  }
  fill(&ChunkCosts::backward_input, "--backward-input", arguments.backward_input);
  fill(&ChunkCosts::backward_weight, "--backward-weight", arguments.backward_weight);
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

void require_halves(const SimulateArguments& arguments, const ScheduleKind& kind) {
  if (!kind.splits_backward || arguments.backward.empty()) return;
  fail_usage(kind.name, " splits backwards in two; give --backward-input and --backward-weight ",
             "instead of --backward");
}

SimulateOptions options_of(const SimulateArguments& arguments) {
  return {.iterations = arguments.iterations, .barrier = arguments.barrier == "on"};
}

Outcome simulate_schedule(const SimulateArguments& arguments, int microbatches) {
  const ScheduleKind& kind = find_schedule(arguments.schedule);
  require_halves(arguments, kind);
  ScheduleShape shape = shape_from(arguments.shape, kind, microbatches);
  std::vector<ChunkCosts> stages = stage_costs(arguments, shape, kind.generate != inference);
  const Duration transfer = read_duration("--transfer", arguments.transfer);
  if (kind.splits_backward) shape.hints = hints_of(stages, shape.devices, transfer);
  const Schedule schedule = kind.generate(shape);
  share_among(stages, schedule.parts);
  LowerOptions lowering;
  lowering.recompute.assign(static_cast<std::size_t>(schedule.stages),
                            read_recompute(arguments.recompute));
  const Program program = lower(schedule, lowering);
  require_safe(program);
  Costs costs = uniform(program, {}, transfer);
  for (std::size_t c = 0; c < costs.chunks.size(); ++c) {
    const auto stage = static_cast<std::size_t>(program.chunks[c].stage);
    costs.chunks[c] = stages[stage % stages.size()];  // copies cost the same
  }
  Outcome outcome{.settings = {{"schedule", kind.name},
                               {"stages", shape.devices},
                               {"microbatches", microbatches},
                               {"virtual", shape.virtual_stages}},
                  .timeline = simulate_with(arguments.links, program, costs),
                  .all_iterations = {}};
  if (needs_events(arguments.links)) outcome.settings["link_policy"] = arguments.links.policy;
  if (shape.decode_steps > 0) outcome.settings["decode_steps"] = shape.decode_steps;
  if (arguments.iterations > 1)
    outcome.all_iterations = simulate_with(arguments.links, program, costs, options_of(arguments));
  return outcome;
}

/// Exact time per further iteration: the difference between the ends of the last two.
Duration steady_step(const Timeline& timeline, int iterations) {
  std::vector<Duration> ends(static_cast<std::size_t>(iterations), Duration{0});
  for (const Span& span : timeline.spans) {
    Duration& end = ends[static_cast<std::size_t>(span.iteration)];
    end = std::max(end, span.end);
  }
  return ends.back() - ends[ends.size() - 2];
}

ordered_json outcome_json(const Outcome& outcome, int iterations) {
  ordered_json result = outcome.settings;
  result.update(timeline_json(outcome.timeline));
  if (iterations > 1)
    result["steady_step_ns"] = steady_step(outcome.all_iterations, iterations).count();
  return result;
}

std::string sentence(const Timeline& timeline) {
  return fmt::format("step {}   bubble {}   in flight {}\n", format_duration(step_time(timeline)),
                     percent(bubble(timeline)), fmt::join(peak_in_flight(timeline), " "));
}

std::string sweep_table(const std::vector<Outcome>& outcomes, bool unicode) {
  Table table({">microbatches", ">step", ">per microbatch", ">bubble", ">most in flight"});
  for (const Outcome& outcome : outcomes) {
    const std::vector<int> held = peak_in_flight(outcome.timeline);
    const Duration step = step_time(outcome.timeline);
    const int microbatches = outcome.settings["microbatches"];
    table.row({std::to_string(microbatches), format_duration(step),
               format_duration(step / std::max(1, microbatches)), percent(bubble(outcome.timeline)),
               std::to_string(held.empty() ? 0 : *std::max_element(held.begin(), held.end()))});
  }
  return table.text(unicode);
}

void write_trace_file(const std::string& path, const Timeline& timeline,
                      std::map<std::string, std::string> about) {
  if (path.empty()) return;
  about["kind"] = "predicted";
  write_file(path, write_trace({.timeline = timeline, .about = std::move(about)}));
}

int show_schedules(Console& console, const SimulateArguments& arguments) {
  if (arguments.shape.stages < 1 || arguments.microbatches.empty())
    fail_usage("--schedule needs --stages P and --microbatches M");
  std::vector<Outcome> outcomes;
  for (const int m : read_small_integers("--microbatches", arguments.microbatches, 1, 10'000'000)) {
    outcomes.push_back(simulate_schedule(arguments, m));
  }
  if (outcomes.size() > 1) {
    ordered_json points = ordered_json::array();
    for (const Outcome& outcome : outcomes)
      points.push_back(outcome_json(outcome, arguments.iterations));
    console.print(sweep_table(outcomes, console.unicode()));
    console.result({{"points", std::move(points)}});
    return 0;
  }
  const Timeline& timeline = outcomes.front().timeline;
  write_trace_file(arguments.trace, timeline, {{"schedule", arguments.schedule}});
  console.print(draw(timeline, console.drawing()) + sentence(timeline));
  console.result(outcome_json(outcomes.front(), arguments.iterations));
  return 0;
}

int show_plan(Console& console, const SimulateArguments& arguments) {
  if (needs_events(arguments.links))
    fail_usage("--link-policy goes with --schedule; a plan's messages are asynchronous");
  const LoadedPlan loaded = load_plan(arguments.plan);
  console.input(loaded.path, loaded.hash);
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  require_safe(compiled.program);
  const Timeline timeline = simulate(compiled.program, compiled.costs);
  const Prediction prediction = predict(loaded.plan, compiled);
  for (const std::string& note : prediction.notes) console.note(note);
  write_trace_file(arguments.trace, timeline, {{"plan", loaded.hash}});
  console.print(draw(timeline, console.drawing()));
  console.print(plan_table(loaded.plan, loaded.profile.model, prediction, console.unicode()));
  console.print(prediction_sentence(prediction) + "\n");
  ordered_json result = timeline_json(timeline);
  add_memory(result, memory_peaks(timeline));
  result["fits"] = prediction.fits;
  if (arguments.iterations > 1) {
    const Timeline repeated = simulate(compiled.program, compiled.costs, options_of(arguments));
    result["steady_step_ns"] = steady_step(repeated, arguments.iterations).count();
  }
  console.result(result);
  return 0;
}

void declare_options(CLI::App& app, SimulateArguments& arguments) {
  app.add_option("plan", arguments.plan, "A plan; or leave it out and give --schedule")
      ->type_name("PLAN");
  app.add_option("--schedule", arguments.schedule, "A name of `stagecraft schedule list`")
      ->type_name("NAME");
  declare_shape(app, arguments.shape);
  app.add_option("--microbatches", arguments.microbatches,
                 "Per iteration; a list or range (4..128) makes a sweep")
      ->type_name("M");
  app.add_option("--forward", arguments.forward,
                 "One microbatch's forward on a device, or one per stage")
      ->type_name("D");
  app.add_option("--backward", arguments.backward, "Its backward")->type_name("D");
  app.add_option("--backward-input", arguments.backward_input, "Its input gradient")
      ->type_name("D");
  app.add_option("--backward-weight", arguments.backward_weight, "Its weight gradient")
      ->type_name("D");
  app.add_option("--fused", arguments.fused,
                 "A forward and a backward that overlap, in schedules that fuse them "
                 "(one after the other)")
      ->type_name("D");
  app.add_option("--transfer", arguments.transfer, "Latency of each message between devices (0)")
      ->type_name("D");
  declare_links(app, arguments.links);
  app.add_option("--recompute", arguments.recompute, "none or full")
      ->type_name("R")
      ->check(CLI::IsMember({"none", "full"}));
  app.add_option("--iterations", arguments.iterations,
                 "Repeat, and tell the steady time of one more (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--barrier", arguments.barrier, "on or off: do iterations wait for each other?")
      ->type_name("B")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--trace", arguments.trace, "Write the timeline for ui.perfetto.dev")
      ->type_name("FILE");
  app.add_flag("--draw", arguments.draw, "Draw the timeline (always done for people)");
}

}  // namespace

Action declare_simulate(CLI::App& app) {
  auto arguments = std::make_shared<SimulateArguments>();
  declare_options(app, *arguments);
  return [arguments](Console& console) {
    if (arguments->plan.empty() == arguments->schedule.empty()) {
      fail_usage("simulate needs either a PLAN or --schedule NAME; see stagecraft simulate --help");
    }
    return arguments->plan.empty() ? show_schedules(console, *arguments)
                                   : show_plan(console, *arguments);
  };
}

}  // namespace stagecraft
