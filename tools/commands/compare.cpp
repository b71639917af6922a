// stagecraft compare PLAN TRACE: predicted against measured. stagecraft compare PLAN PLAN …: plans
// in one table.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/costs/compile.hpp"
#include "planner/costs/device_memory.hpp"
#include "planner/costs/predict.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/interop/other_files.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/missing_file.hpp"
#include "simulator/analyses/comparison.hpp"
#include "simulator/values/measured_steps.hpp"
#include "simulator/views/trace.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/measured_trace.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/change_options.hpp"
#include "tools/options/memory_options.hpp"
#include "tools/options/request_options.hpp"
#include "tools/options/risk_options.hpp"
#include "tools/options/schedule_argument.hpp"
#include "tools/options/time_limit.hpp"
#include "tools/reports/equal_memory.hpp"
#include "tools/reports/results.hpp"
#include "tools/reports/serving_report.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct CompareArguments {
  std::vector<std::string> files;
  ScenarioOptions scenario;
  ConditionOptions conditions;
  RiskOptions risk;
  std::optional<int> microbatches_in_flight;
  RequestOptions requests;
  MemoryOptions memory;
  ChangeFlags changes;
  std::string time_limit;
};

double ratio(Duration predicted, Duration measured) {
  return predicted.count() > 0 ? seconds(measured) / seconds(predicted) - 1 : 0;
}

/// Of a busy machine without a verdict on the prediction.
std::string comparison_text(const Comparison& comparison, bool was_busy, bool unicode) {
  std::string text =
      fmt::format("step   predicted {}   measured {}   {}\n", format_duration(comparison.predicted),
                  format_duration(comparison.measured),
                  was_busy ? "on a busy machine: no verdict"
                           : "prediction is off by " + signed_percent(comparison.error));
  Table table({"what", ">count", ">predicted", ">measured", ">difference"});
  for (const KindDifference& kind : comparison.kinds) {
    table.row(
        {fmt::format("stage {} {}", kind.stage, to_string(kind.op)), std::to_string(kind.count),
         format_duration(kind.predicted), format_duration(kind.measured),
         kind.predicted.count() > 0 ? signed_percent(ratio(kind.predicted, kind.measured)) : "-"});
  }
  for (const LinkDifference& link : comparison.links) {
    table.row(
        {fmt::format("link {}{}{}", link.from, unicode ? "→" : "->", link.to),
         std::to_string(link.count), format_duration(link.predicted),
         format_duration(link.measured),
         link.predicted.count() > 0 ? signed_percent(ratio(link.predicted, link.measured)) : "-"});
  }
  text += table.text(unicode);
  text += fmt::format("where the difference went, on device {}:\n", comparison.device);
  for (const Share& share : comparison.shares) {
    text += fmt::format("  {:<20} {}{}\n", share.what, share.extra.count() < 0 ? "-" : "+",
                        format_duration(std::chrono::abs(share.extra)));
  }
  if (!comparison.departure)
    return text + "every instruction ended within 1 % of the step of its predicted moment\n";
  const Departure& first = *comparison.departure;
  return text + fmt::format("first instruction that left the plan: {} on device {}, {} {} ({})\n",
                            to_string(first.instruction), first.device,
                            format_duration(std::chrono::abs(first.late)),
                            first.late.count() < 0 ? "early" : "late", first.because);
}

ordered_json comparison_json(const Comparison& comparison) {
  ordered_json kinds = ordered_json::array();
  ordered_json links = ordered_json::array();
  ordered_json shares = ordered_json::array();
  std::map<int, std::pair<Duration, Duration>> stages;
  for (const KindDifference& kind : comparison.kinds) {
    kinds.push_back({{"stage", kind.stage},
                     {"op", to_string(kind.op)},
                     {"count", kind.count},
                     {"predicted_ns", kind.predicted.count()},
                     {"measured_ns", kind.measured.count()}});
    if (!is_compute(kind.op)) continue;
    stages[kind.stage].first += kind.predicted * kind.count;
    stages[kind.stage].second += kind.measured * kind.count;
  }
  for (const LinkDifference& link : comparison.links) {
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"count", link.count},
                     {"predicted_ns", link.predicted.count()},
                     {"measured_ns", link.measured.count()}});
  }
  for (const Share& share : comparison.shares)
    shares.push_back({{"what", share.what}, {"extra_ns", share.extra.count()}});
  ordered_json stage_rows = ordered_json::array();
  for (const auto& [stage, times] : stages) {
    stage_rows.push_back({{"stage", stage},
                          {"predicted_ns", times.first.count()},
                          {"measured_ns", times.second.count()}});
  }
  ordered_json result{{"predicted_ns", comparison.predicted.count()},
                      {"measured_ns", comparison.measured.count()},
                      {"error", comparison.error}};
  result["stages"] = std::move(stage_rows);
  result["kinds"] = std::move(kinds);
  result["links"] = std::move(links);
  result["difference"] = {{"device", comparison.device}, {"shares", std::move(shares)}};
  result["first_departure"] = nullptr;
  if (comparison.departure) {
    const Departure& first = *comparison.departure;
    result["first_departure"] = {{"device", first.device},
                                 {"instruction", to_string(first.instruction)},
                                 {"late_ns", first.late.count()},
                                 {"because", first.because}};
  }
  return result;
}

/// With the cluster's numbers of the program's devices.
Comparison with_names(Comparison comparison, const std::vector<int>& names) {
  const auto rename = [&](int& device) { device = names.at(static_cast<std::size_t>(device)); };
  for (LinkDifference& link : comparison.links) {
    rename(link.from);
    rename(link.to);
  }
  rename(comparison.device);
  if (comparison.departure) rename(comparison.departure->device);
  return comparison;
}

/// A plan's timeline under the given conditions.
Timeline predicted_timeline(const ConditionOptions& conditions, const LoadedPlan& loaded,
                            const Compiled& compiled) {
  const Program& program = compiled.program;
  const auto environment =
      environment_of(conditions, program, compiled.costs, site_of(loaded, compiled));
  return run_under(environment, program, compiled.costs).timeline;
}

/// No step of the plan is shorter on devices that compute at their peak.
Duration least_step(const LoadedPlan& loaded, const Compiled& compiled) {
  const Prediction prediction = predict(loaded.plan, compiled);
  return shortest_step(
      prediction, utilisation_of(loaded.plan, loaded.profile.model, loaded.cluster, prediction));
}

/// Whether what was measured was to be expected.
std::string verdict_at_risk(const Risk& risk, const LoadedPlan& loaded, const Compiled& compiled,
                            Duration measured, bool was_busy) {
  const Spreads spreads = spreads_of(risk, loaded.profile, compiled);
  const StepInterval interval =
      within_peak(interval_of(compiled, spreads, risk.level), least_step(loaded, compiled));
  const bool inside = interval.p10 <= measured && measured <= interval.p90;
  if (was_busy) return risk_sentence(interval, spreads, risk.level);
  return risk_sentence(interval, spreads, risk.level) +
         fmt::format("measured {}: {}\n", format_duration(measured),
                     inside                    ? "between p10 and p90"
                     : measured > interval.p90 ? "beyond p90"
                                               : "below p10");
}

int compare_with_trace(Console& console, const CompareArguments& arguments) {
  const std::string& trace_path = arguments.files[1];
  const auto changes = one_change_set(arguments.changes, "compare of a plan and a trace");
  LoadedPlan given = load_plan(arguments.files[0]);
  take_memory_of_question(given.cluster, given.plan);
  set_requests(arguments.requests, given);
  const ChangedPlan changed = apply(arguments.changes, changes, std::move(given));
  for (const std::string& note : changed.notes) console.note(note);
  const LoadedPlan& loaded = changed.loaded;
  console.input(loaded.path, loaded.hash);
  const Trace trace = read_measured_trace(console, trace_path).trace;
  if (trace.about.contains("plan") && trace.about.at("plan") != loaded.hash) {
    console.note("the trace was made from another version of this plan");
  }
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  const ConditionOptions conditions = with_slow_devices(arguments.conditions, changed);
  const Comparison comparison = with_names(
      compare(predicted_timeline(conditions, loaded, compiled), median_iteration(trace.timeline)),
      compiled.devices);
  const auto busy = trace.about.find("busy");
  const bool was_busy = busy != trace.about.end();
  console.print(comparison_text(comparison, was_busy, console.unicode()));
  ordered_json result = comparison_json(comparison);
  const std::optional<Risk> risk = read_risk(arguments.risk);
  if (was_busy) console.print("busy machine: " + busy->second + "\n");
  result["busy"] = was_busy;
  if (risk) console.print(verdict_at_risk(*risk, loaded, compiled, comparison.measured, was_busy));
  const double rate = static_cast<double>(loaded.plan.batch.global) / seconds(comparison.predicted);
  const Duration least = least_step(loaded, compiled);
  if (console.json()) add_risk(result, risk, loaded.profile, compiled, {rate, least}, {});
  console.result(result);
  return 0;
}

/// A plan and what it is predicted to do.
struct PlanRow {
  std::string path;
  std::optional<std::vector<Change>> changes;  ///< none: the plan as it is
  Plan plan;
  Model model;
  Prediction prediction;
  std::optional<ServingTable> served;  ///< of inference
};

PlanRow predict_row(const CompareArguments& arguments, const LoadedPlan& given,
                    const std::optional<std::vector<Change>>& changes) {
  const ChangedPlan changed = apply(changes ? arguments.changes : ChangeFlags{},
                                    changes.value_or(std::vector<Change>{}), given);
  const LoadedPlan& loaded = changed.loaded;
  const Compiled compiled = compile_counted(loaded.plan, loaded.profile, loaded.cluster);
  const Timeline timeline =
      predicted_timeline(with_slow_devices(arguments.conditions, changed), loaded, compiled);
  return {.path = given.path,
          .changes = changes,
          .plan = loaded.plan,
          .model = loaded.profile.model,
          .prediction = predict(loaded.plan, compiled, timeline),
          .served = serving_for(loaded.plan, loaded.profile, loaded.cluster)};
}

/// The plan of the file as it is, and with each combination of changes.
std::vector<PlanRow> predict_rows(Console& console, const CompareArguments& arguments,
                                  const std::string& path) {
  LoadedPlan loaded = load_plan(path);
  console.input(loaded.path, loaded.hash);
  set_memory(arguments.memory, loaded, console);
  set_requests(arguments.requests, loaded);
  std::vector<PlanRow> rows{predict_row(arguments, loaded, std::nullopt)};
  if (!arguments.changes.any()) return rows;
  for (const std::vector<Change>& changes : change_sets(arguments.changes)) {
    try {
      rows.push_back(predict_row(arguments, loaded, changes));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::usage || error.kind() == ErrorKind::bug) throw;
      console.note(error.message());
    }
  }
  return rows;
}

std::string name_of(const PlanRow& row) {
  if (!row.changes) return row.path;
  return row.path + (row.changes->empty() ? " replanned" : " with " + to_string(*row.changes));
}

ordered_json row_json(const PlanRow& row) {
  ordered_json json{{"plan", name_of(row)},
                    {"microbatches", row.plan.batch.microbatches},
                    {"step_ns", row.prediction.step.count()},
                    {"samples_per_second", row.prediction.samples_per_second},
                    {"bubble", row.prediction.bubble},
                    {"peak_memory_bytes", device_peaks(row.plan, row.prediction)},
                    {"fits", row.prediction.fits}};
  add_memory_limits(json, row.plan, row.prediction);
  if (row.served) json["serving"] = serving_json(*row.served);
  return json;
}

/// Of plans for inference: one request, and all that there is room for.
void print_served(Console& console, const std::vector<PlanRow>& rows) {
  Table table({"plan", ">first token", ">each further", ">requests", ">each further", ">tokens/s"});
  bool any = false;
  for (const PlanRow& row : rows) {
    if (!row.served) continue;
    any = true;
    const ServingPoint& alone = row.served->points.front();
    const ServingPoint& full = row.served->points.back();
    table.row({name_of(row), format_duration(alone.first_token), format_duration(alone.next_token),
               fmt::format("{}", full.requests), format_duration(full.next_token),
               readable(full.tokens_per_second)});
  }
  if (any)
    console.print("with one request, and with all that fit\n" + table.text(console.unicode()));
}

/// Layers by name with their parameters: the same for all profiles and orders of a model.
std::map<std::string, std::int64_t> parameters_by_layer(const Model& model) {
  std::map<std::string, std::int64_t> result;
  for (const Layer& layer : model.layers) result[layer.name] = layer.parameters;
  return result;
}

std::string model_words(const PlanRow& row) {
  return fmt::format("{} is a plan of {} ({}, {} parameters)", row.path, row.model.name,
                     number_of(std::ssize(row.model.layers), "layer"),
                     grouped(parameters(row.model)));
}

/// A sample of one model is no sample of another.
void require_one_model(const std::vector<PlanRow>& rows) {
  const PlanRow& first = rows.front();
  for (const PlanRow& row : rows) {
    if (parameters_by_layer(row.model) == parameters_by_layer(first.model)) continue;
    throw Error(ErrorKind::input,
                fmt::format("compare takes plans of one model: {}, {}", model_words(first),
                            model_words(row)),
                SourcePlace{row.path, 0, 0});
  }
}

/// What plans may differ in, so that their steps say nothing by themselves.
struct Difference {
  const char* words;
  bool (*differ)(const PlanRow&, const PlanRow&);
  const char* advice;
};

constexpr std::array differences{
    Difference{"different batches",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.batch.global != b.plan.batch.global;
               },
               "compare samples/s"},
    Difference{"different numbers of microbatches",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.batch.global == b.plan.batch.global &&
                        a.plan.batch.microbatches != b.plan.batch.microbatches;
               },
               "compare samples/s"},
    Difference{"samples of different lengths",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.batch.sequence != b.plan.batch.sequence;
               },
               "a sample of one is no sample of the other"},
    Difference{"requests of other lengths, or other parts of the memory for them",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.batch.sequence == b.plan.batch.sequence &&
                        requests_of(a.plan) != requests_of(b.plan);
               },
               "--output-tokens, --chunk-tokens and --mem-limit make them alike"},
    Difference{"different clusters",
               [](const PlanRow& a, const PlanRow& b) { return a.plan.cluster != b.plan.cluster; },
               "the faster one may have more devices, or faster ones"},
    Difference{
        "different precisions",
        [](const PlanRow& a, const PlanRow& b) { return a.plan.precision != b.plan.precision; },
        "the faster one may compute less exactly"},
    Difference{"layers with different kernels",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.kernels.framework != b.plan.kernels.framework;
               },
               "simulate PLAN --set kernels=torch or megatron shows one with the other's"},
    Difference{"different dispatchers of tokens to experts",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.kernels.dispatcher != b.plan.kernels.dispatcher;
               },
               "simulate PLAN --set dispatcher=alltoall or deepep shows one with the other's"},
    Difference{"different CUDA graphs",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.kernels.graphs != b.plan.kernels.graphs;
               },
               "simulate PLAN --set cuda-graphs=none or layers shows one with the other's"},
    Difference{"different fp8 recipes",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.kernels.float8_recipe != b.plan.kernels.float8_recipe;
               },
               "simulate PLAN --set fp8-recipe=delayed or mxfp8 shows one with the other's"},
    Difference{"losses that go over the logits otherwise",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.kernels.fused_loss != b.plan.kernels.fused_loss;
               },
               "simulate PLAN --set fused-loss=native or none shows one with the other's"},
    Difference{"fused routers and others",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.kernels.router_fusion != b.plan.kernels.router_fusion;
               },
               "simulate PLAN --set router-fusion=on or off shows one with the other's"},
    Difference{"other messages beside kernels",
               [](const PlanRow& a, const PlanRow& b) {
                 return a.plan.kernels.overlap != b.plan.kernels.overlap;
               },
               "simulate PLAN --set overlap=none or experts shows one with the other's"},
    Difference{"other modules that selective recomputation does again",
               [](const PlanRow& a, const PlanRow& b) {
                 return modules_again(a.plan) != modules_again(b.plan);
               },
               "simulate PLAN --set recompute-modules=LIST shows one with the other's"},
    Difference{"different tasks",
               [](const PlanRow& a, const PlanRow& b) {
                 const auto infers = [](const PlanRow& row) {
                   return row.plan.schedule.name == "inference";
                 };
                 return infers(a) != infers(b);
               },
               "some train, some only infer"}};

void note_unequal(Console& console, const std::vector<PlanRow>& rows) {
  for (const Difference& difference : differences) {
    const bool unequal = std::any_of(rows.begin(), rows.end(), [&](const PlanRow& row) {
      return difference.differ(row, rows.front());
    });
    if (unequal)
      console.note(fmt::format("the plans have {}; {}", difference.words, difference.advice));
  }
}

/// What fits before what does not, and the fastest first.
int compare_plans(Console& console, const CompareArguments& arguments) {
  if (read_risk(arguments.risk))
    fail_usage("--risk goes with a plan and a trace; of a plan alone stagecraft simulate tells it");
  std::vector<PlanRow> rows;
  for (const std::string& path : arguments.files) {
    for (PlanRow& row : predict_rows(console, arguments, path)) rows.push_back(std::move(row));
  }
  require_one_model(rows);
  const auto rank = [](const PlanRow& row) {
    return std::pair(!row.prediction.fits, -row.prediction.samples_per_second);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const PlanRow& a, const PlanRow& b) { return rank(a) < rank(b); });
  note_unequal(console, rows);
  Table table({"plan", "what", ">step", ">samples/s", ">bubble", ">highest peak", "fits"});
  ordered_json list = ordered_json::array();
  for (const PlanRow& row : rows) {
    table.row({name_of(row), plan_words(row.plan, row.model, console.unicode()),
               format_duration(row.prediction.step), readable(row.prediction.samples_per_second),
               percent(row.prediction.bubble), highest_peak(row.prediction),
               row.prediction.fits ? "yes" : "no"});
    list.push_back(row_json(row));
  }
  console.print(table.text(console.unicode()));
  print_served(console, rows);
  console.result({{"rows", std::move(list)}});
  return 0;
}

int compare_files(Console& console, const CompareArguments& arguments) {
  const std::vector<std::string>& files = arguments.files;
  if (files.size() == 1 && arguments.changes.any()) return compare_plans(console, arguments);
  if (files.size() < 2) {
    fail_usage("compare needs a plan and a trace, several plans, or a plan and --set KEY=VALUE");
  }
  if (!is_recorded_by_torch(files[1])) {
    require_file(files[1], {"`stagecraft run PLAN --trace FILE` writes a trace to compare with, "
                            "`stagecraft plan MODEL CLUSTER -o FILE` another plan"});
    const std::string second = read_file(files[1]);
    refuse_foreign_plan(second, files[1]);
    const bool is_second_plan =
        !is_perfetto_trace(second) && is_plan(Json::parse(second, files[1]));
    if (is_second_plan) return compare_plans(console, arguments);
  }
  if (files.size() > 2) fail_usage("compare takes one plan and one trace, or several plans");
  if (is_given(arguments.memory)) {
    fail_usage("--memory and --mem-limit judge several plans; a plan and a trace are compared by ",
               "their times; stagecraft simulate ", files[0], " takes these flags");
  }
  return compare_with_trace(console, arguments);
}

}  // namespace

Action declare_compare(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  app.add_option("files", arguments->files,
                 "A plan and a trace, or several plans; none with --schedule A,B,...")
      ->type_name("PLAN TRACE|PLAN...");
  declare_scenario(app, arguments->scenario);
  declare_conditions(app, arguments->conditions);
  app.add_option("--memory-in-flight", arguments->microbatches_in_flight,
                 "With schedules: microbatches that fit in each device's memory (P)")
      ->type_name("K")
      ->check(CLI::Range(1, 10'000'000));
  declare_requests(app, arguments->requests, "With plans for inference: ", true);
  declare_memory(app, arguments->memory, "With several plans");
  declare_risk(app, arguments->risk,
               "With a plan and a trace: predict this percentile of the step, and test whether the "
               "measured step is within the predicted interval");
  declare_changes(app, arguments->changes);
  declare_time_limit(app, arguments->time_limit);
  return [arguments, &app](Console& console) {
    refuse_idle_buffers(app, arguments->conditions.policy, arguments->conditions.protocol);
    if (!arguments->files.empty()) {
      refuse_flags_of_schedules(app, "each plan");
      refuse_given(app, {"--memory-in-flight"}, "is of --schedule A,B; plans know their memory");
    } else {
      refuse_given(app, {"--prompt-tokens", "--output-tokens", "--chunk-tokens"},
                   "is of PLANs, whose requests have tokens");
      refuse_given(app, {"--set", "--replan"},
                   "changes a PLAN; of schedules every value has its own flag");
      refuse_given(app, {"--risk", "--spread"}, "goes with a plan and a trace");
      refuse_given(app, {"--activations-for-weight"},
                   "is for simulate --schedule; compare counts whole microbatches in memory");
      if (!arguments->scenario.schedule.empty())
        refuse_shape_of_files(app, read_words("--schedule", arguments->scenario.schedule));
      if (arguments->conditions.memory_limit.empty()) {
        refuse_given(app, {"--activations"}, "changes nothing here without --memory-limit SIZE");
        if (arguments->scenario.bandwidth.empty())
          refuse_given(app, {"--message"}, "changes nothing here without --bandwidth RATE");
      }
    }
    if (arguments->files.empty() && arguments->scenario.schedule.empty()) {
      fail_usage("compare needs a plan and a trace, several plans, or --schedule A,B,...; see ",
                 "stagecraft compare --help");
    }
    const TimeLimit limit(console, arguments->time_limit);
    if (arguments->files.empty()) {
      if (is_given(arguments->memory)) {
        fail_usage("--memory and --mem-limit judge plans; of schedules --memory-in-flight K says ",
                   "how many microbatches a device has memory for");
      }
      return compare_schedules(console, arguments->scenario, arguments->conditions,
                               arguments->microbatches_in_flight);
    }
    return compare_files(console, *arguments);
  };
}

}  // namespace stagecraft
