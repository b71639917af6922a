// stagecraft report PLAN [TRACE]: everything about a plan on one page that opens offline, and
// simulates again in the browser.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "planner/costs/device_memory.hpp"
#include "planner/interop/load_plan.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "simulator/values/measured_steps.hpp"
#include "tools/commands.hpp"
#include "tools/inputs/measured_trace.hpp"
#include "tools/options/request_options.hpp"
#include "tools/options/time_limit.hpp"
#include "tools/reports/page_report.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ReportArguments {
  std::string plan, trace, against, time_limit;
  RequestOptions requests;
};

PageRun read_measured_run(Console& console, const LoadedPlan& loaded, const std::string& path) {
  const auto [trace, hash] = read_measured_trace(console, path);
  if (trace.about.contains("kind") && trace.about.at("kind") == "predicted") {
    console.note(
        concat(path, " is a prediction, not a run: the page shows it as if it were measured"));
  }
  const bool is_other = trace.about.contains("plan") && trace.about.at("plan") != loaded.hash;
  if (is_other) console.note("the trace was made from another version of this plan");
  const auto busy = trace.about.find("busy");
  return {.path = path,
          .hash = hash,
          .timeline = median_iteration(trace.timeline),
          .is_of_other_version = is_other,
          .busy = busy == trace.about.end() ? "" : busy->second};
}

LoadedPlan loaded_for_page(Console& console, const std::string& path,
                           const RequestOptions& requests) {
  LoadedPlan loaded = load_plan(path);
  console.input(loaded.path, loaded.hash);
  take_memory_of_question(loaded.cluster, loaded.plan);
  set_requests(requests, loaded);
  return loaded;
}

int report(Console& console, const ReportArguments& arguments) {
  const LoadedPlan loaded = loaded_for_page(console, arguments.plan, arguments.requests);
  PageQuestion question{.loaded = loaded, .measured = {}, .threads = console.options().threads};
  if (!arguments.trace.empty())
    question.measured = read_measured_run(console, loaded, arguments.trace);
  std::optional<LoadedPlan> other;
  if (!arguments.against.empty()) {
    other = loaded_for_page(console, arguments.against, arguments.requests);
    question.against = &*other;
  }
  const ordered_json json = page_json(question);
  for (const auto& note : json["plan"]["notes"]) console.note(note.get<std::string>());
  if (console.person_reads_output() && !console.json() && console.options().output.empty())
    fail_usage("a page is no text for a terminal: -o page.html writes it");
  const std::string text = page_text(json);
  const ordered_json& what_if = json["what_if"];
  ordered_json result{{"step_ns", json["plan"]["figures"]["step_ns"]},
                      {"page_bytes", text.size()},
                      {"programs", what_if["programs"].size()},
                      {"alternatives", json["alternatives"].size()}};
  if (json.contains("measured")) result["measured_ns"] = json["measured"]["measured_ns"];
  if (json.contains("against")) result["against_step_ns"] = json["against"]["figures"]["step_ns"];
  if (console.artefact(text)) {
    console.print(fmt::format("{}: {} kB, opens in any browser, offline\n",
                              console.options().output, (text.size() + 999) / 1000));
  } else {
    console.print(text);
  }
  console.result(result);
  return 0;
}

}  // namespace

Action declare_report(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
  app.add_option("plan", arguments->plan, "Plan file; - is standard input")
      ->type_name("PLAN")
      ->required();
  app.add_option("trace", arguments->trace,
                 "Trace of a run of the plan, as `stagecraft run --trace` writes it: the page "
                 "shows the prediction over the measurement")
      ->type_name("TRACE");
  app.add_option("--against", arguments->against, "Another plan to compare this one with")
      ->type_name("PLAN");
  declare_time_limit(app, arguments->time_limit);
  declare_requests(app, arguments->requests, "Of a plan for inference: ", true);
  return [arguments](Console& console) {
    const TimeLimit limit(console, arguments->time_limit);
    return report(console, *arguments);
  };
}

}  // namespace stagecraft
