#include "tools/inputs/timeline_calibration.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/calibration/timeline_costs.hpp"
#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/json.hpp"
#include "tools/inputs/measured_trace.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

/// A plan's step as it was predicted before and after, against the measured one.
struct Verdict {
  Duration measured{0};  ///< the median step
  int steps = 0;
  Duration first{0};
  Duration second{0};
  double first_error() const { return seconds(first) / seconds(measured) - 1; }
  double second_error() const { return seconds(second) / seconds(measured) - 1; }
  bool closer() const { return std::abs(second_error()) < std::abs(first_error()); }
};

Trace read_run(Console& console, const std::string& path, const LoadedPlan& loaded) {
  Trace trace = read_measured_trace(console, path).trace;
  const auto fail_as = [&](const std::string& sentence) {
    throw Error(ErrorKind::input, sentence, SourcePlace{path, 1, 1});
  };
  const std::string again = concat("record one with stagecraft run ", loaded.path, " --trace FILE");
  if (trace.about.contains("kind") && trace.about.at("kind") != "measured")
    fail_as(concat("the timeline is ", trace.about.at("kind"), ", not measured; ", again));
  if (trace.about.contains("plan") && trace.about.at("plan") != loaded.hash) {
    fail_as(concat("the timeline is of another plan or version of it (", trace.about.at("plan"),
                   "; ", loaded.path, " is ", loaded.hash, "); ", again));
  }
  if (trace.about.contains("backend") && trace.about.at("backend") == "sleep")
    console.note("the run slept for predicted times: it says nothing about layers");
  return trace;
}

std::string link_text(const Link& link) {
  return fmt::format("{} + {}", format_duration(link.latency),
                     format_bandwidth(link.point_to_point));
}

std::string collective_text(const Link& link) {
  return format_bandwidth(link.collective);
}

std::string report(const Verdict& verdict, const TimelineCosts& costs, bool unicode) {
  std::string text = fmt::format("{} measured, median {}\n",
                                 verdict.steps == 1 ? "1 step" : concat(verdict.steps, " steps"),
                                 format_duration(verdict.measured));
  Table table({"what", ">count", ">before", ">measured", ">of it between", ">change"});
  for (const InstructionTimes& times : costs.instructions) {
    const bool known = times.before.count() > 0;
    table.row({fmt::format("stage {} {}", times.stage, to_string(times.op)),
               std::to_string(times.count), format_duration(times.before),
               format_duration(times.measured), format_duration(times.overhead),
               known ? signed_percent(seconds(times.measured) / seconds(times.before) - 1) : "-"});
  }
  text += table.text(unicode);
  for (const LinkTimes& link : costs.links) {
    text += fmt::format("{}: {}, collectives {} before; now {}, collectives {} ({} of {} to {})\n",
                        link.what, link_text(link.before), collective_text(link.before),
                        link_text(link.after), collective_text(link.after), link.count,
                        format_bytes(link.smallest), format_bytes(link.largest));
  }
  text += fmt::format("first prediction {} ({}), second {} ({})", format_duration(verdict.first),
                      signed_percent(verdict.first_error()), format_duration(verdict.second),
                      signed_percent(verdict.second_error()));
  const double points = 100 * (std::abs(verdict.first_error()) - std::abs(verdict.second_error()));
  text += verdict.closer() ? fmt::format(": {:.1f} points closer\n", points)
                           : fmt::format(": not closer, by {:.1f} points\n", -points);
  return text;
}

ordered_json link_json(const Link& link) {
  return {{"latency_ns", link.latency.count()},
          {"point_to_point_bytes_per_second", link.point_to_point.bytes_per_second},
          {"collective_bytes_per_second", link.collective.bytes_per_second}};
}

ordered_json report_json(const Verdict& verdict, const TimelineCosts& costs) {
  ordered_json instructions = ordered_json::array();
  for (const InstructionTimes& times : costs.instructions) {
    instructions.push_back({{"stage", times.stage},
                            {"op", to_string(times.op)},
                            {"count", times.count},
                            {"before_ns", times.before.count()},
                            {"measured_ns", times.measured.count()},
                            {"overhead_ns", times.overhead.count()}});
  }
  ordered_json links = ordered_json::array();
  for (const LinkTimes& link : costs.links) {
    links.push_back({{"what", link.what},
                     {"count", link.count},
                     {"smallest_bytes", link.smallest},
                     {"largest_bytes", link.largest},
                     {"before", link_json(link.before)},
                     {"after", link_json(link.after)}});
  }
  return {{"steps", verdict.steps},
          {"measured_ns", verdict.measured.count()},
          {"first", {{"predicted_ns", verdict.first.count()}, {"error", verdict.first_error()}}},
          {"second", {{"predicted_ns", verdict.second.count()}, {"error", verdict.second_error()}}},
          {"closer", verdict.closer()},
          {"instructions", std::move(instructions)},
          {"links", std::move(links)}};
}

/// As a file has it: in the model's own order of layers.
std::string profile_file(const Plan& plan, const TimelineCosts& costs, int steps,
                         const std::string& source) {
  Profile profile = costs.profile;
  if (!plan.order.empty()) {
    std::vector<int> back(plan.order.size());
    for (std::size_t i = 0; i < back.size(); ++i)
      back[static_cast<std::size_t>(plan.order[i])] = static_cast<int>(i);
    profile = reordered(std::move(profile), back);
  }
  profile.source = concat("timeline of ", steps, steps == 1 ? " step" : " steps", " (",
                          plan_words(plan, costs.profile.model),
                          "); shares of a stage's layers as before: ", source);
  return write_profile(profile);
}

/// The same plan, of the new profile, with what is now predicted.
void write_again(Console& console, const TimelineCalibration& calibration, Plan plan,
                 const Prediction& prediction, const std::string& profile) {
  plan.model = console.options().output;
  if (plan.model == "-") fail_usage("-o -: the plan names the new profile's file; give it a name");
  plan.profile = content_hash(profile);
  if (!calibration.cluster_file.empty()) plan.cluster = calibration.cluster_file;
  plan.predicted = PredictedFigures{.step = prediction.step,
                                    .bubble = prediction.bubble,
                                    .peak_memory = device_peaks(plan, prediction)};
  plan.search.reset();
  write_file(calibration.plan_file, write_plan(plan));
}

}  // namespace

int calibrate_by_timeline(Console& console, const TimelineCalibration& calibration) {
  if (!calibration.plan_file.empty() && console.options().output.empty())
    fail_usage("--plan names the new profile: write it with -o FILE");
  const LoadedPlan loaded = load_plan(calibration.plan);
  console.input(loaded.path, loaded.hash);
  const Trace trace = read_run(console, calibration.trace, loaded);
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  const std::vector<MeasuredStep> steps = measured_steps(compiled.program, trace.timeline);
  const TimelineCosts costs =
      costs_from_timeline(loaded.plan, compiled, loaded.profile, loaded.cluster, steps);
  const Prediction second = predict(loaded.plan, costs.profile, costs.cluster);
  const Verdict verdict{.measured = std::max(median_time(steps), Duration{1}),
                        .steps = static_cast<int>(steps.size()),
                        .first = predict(loaded.plan, compiled).step,
                        .second = second.step};
  const std::string profile =
      profile_file(loaded.plan, costs, verdict.steps, loaded.profile.source);
  console.artefact(profile);
  if (!calibration.cluster_file.empty()) {
    write_file(calibration.cluster_file, write_cluster(costs.cluster));
  } else if (costs.cluster != loaded.cluster) {
    console.note("links of the cluster were measured, too; --cluster FILE takes it");
  }
  if (!calibration.plan_file.empty())
    write_again(console, calibration, loaded.plan, second, profile);
  console.print(report(verdict, costs, console.unicode()));
  console.result(report_json(verdict, costs));
  return 0;
}

}  // namespace stagecraft
