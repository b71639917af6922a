#include "tools/reports/equal_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "simulator/analyses/critical_path.hpp"
#include "simulator/schedules/variants.hpp"
#include "simulator/values/timeline.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

/// One variant of a schedule, simulated.
struct Row {
  ScheduleSetting setting;
  Timeline timeline;
  Duration step{0};
  double held = 0;                        ///< microbatches
  std::optional<std::int64_t> latencies;  ///< that the step contains; of the clock
  std::optional<Error> refusal;           ///< instead of all the rest
};

/// What the user asked for.
struct Question {
  const ScenarioOptions& scenario;
  const ConditionOptions& conditions;
};

Row measured(ScheduleSetting setting, const Question& question) {
  const Scenario scenario = scenario_of(std::move(setting), question.scenario);
  const auto environment = environment_of(question.conditions, scenario);
  Row row{.setting = scenario.setting,
          .timeline = run_under(environment, scenario.program, scenario.costs).timeline,
          .step = {},
          .held = microbatches_held(scenario.setting.kind->generate(scenario.setting.shape)),
          .latencies = {},
          .refusal = {}};
  if (!environment) row.latencies = latencies_in_step(scenario.program, scenario.costs);
  row.step = step_time(row.timeline);
  return row;
}

/// The fastest variant that fits, the smaller of equally fast ones; else the smallest.
Row best_variant(const ScheduleSetting& setting, const Question& question, int limit) {
  std::optional<Row> best;
  std::optional<Error> refusal;
  const auto rank = [&](const Row& row) {
    const bool fits = row.held <= limit;
    return std::tuple(!fits, fits ? 0.0 : row.held, row.step, row.held);
  };
  for (const ScheduleShape& shape : variants(*setting.kind, setting.shape, limit)) {
    try {
      Row row = measured({.kind = setting.kind, .shape = shape}, question);
      if (!best || rank(row) < rank(*best)) best = std::move(row);
    } catch (const Error& error) {
      if (!refusal) refusal = error;
    }
  }
  if (best) return *std::move(best);
  Row refused;
  refused.setting = setting;
  refused.refusal = refusal;
  return refused;
}

/// "warm-up 7 5 3 1", "group 8": what was chosen for it.
std::string knob(const ScheduleShape& shape) {
  std::vector<std::string> words;
  if (shape.virtual_stages > 1) words.push_back(fmt::format("virtual {}", shape.virtual_stages));
  if (!shape.warm_up.empty())
    words.push_back(fmt::format("warm-up {}", fmt::join(shape.warm_up, " ")));
  if (shape.group) words.push_back(fmt::format("group {}", *shape.group));
  if (shape.in_flight) words.push_back(fmt::format("in flight {}", *shape.in_flight));
  return fmt::format("{}", fmt::join(words, ", "));
}

int messages(const Timeline& timeline) {
  int sum = 0;
  for (const Span& span : timeline.spans) {
    const int times = timeline.repeat ? timeline.repeat->count(span.instruction.microbatch) : 1;
    sum += is_send(span.instruction.op) ? times : 0;
  }
  return sum;
}

ordered_json row_json(const Row& row, int limit) {
  ordered_json json = setting_json(row.setting);
  if (row.refusal) {
    json["refused"] = row.refusal->message();
    return json;
  }
  const ScheduleShape& shape = row.setting.shape;
  if (!shape.warm_up.empty()) json["warm_up"] = shape.warm_up;
  if (shape.group) json["group"] = *shape.group;
  if (shape.in_flight) json["in_flight"] = *shape.in_flight;
  json["fits"] = row.held <= limit;
  json["microbatches_held"] = row.held;
  if (row.latencies) json["latencies_in_step"] = *row.latencies;
  json.update(timeline_json(row.timeline));
  return json;
}

std::vector<std::string> cells(const Row& row, int limit) {
  const std::string name(row.setting.kind->name);
  if (row.refusal) return {name, "refused", "-", "-", "-", "-", "-", "-", "no"};
  return {name,
          knob(row.setting.shape),
          format_duration(row.step),
          percent(bubble(row.timeline)),
          percent(span_bubble(row.timeline)),
          readable(row.held),
          std::to_string(messages(row.timeline)),
          row.latencies ? fmt::format("{} x", *row.latencies) : "-",
          row.held <= limit ? "yes" : "no"};
}

void print(Console& console, const std::vector<Row>& rows, int limit) {
  Table table({"schedule", "with", ">step", ">bubble", ">span bubble", ">held", ">messages",
               ">latency", "fits"});
  ordered_json list = ordered_json::array();
  for (const Row& row : rows) {
    table.row(cells(row, limit));
    list.push_back(row_json(row, limit));
    if (row.refusal) console.note(row.refusal->message());
  }
  console.print(table.text(console.unicode()));
  console.print(
      fmt::format("  memory for {} microbatches per device; held = microbatches a device "
                  "holds at most;\n  latency = what a longer message costs the step\n",
                  limit));
  console.result({{"microbatches_in_flight", limit}, {"rows", std::move(list)}});
}

}  // namespace

int compare_schedules(Console& console, const ScenarioOptions& options,
                      const ConditionOptions& conditions,
                      std::optional<int> microbatches_in_flight) {
  const std::vector<ScheduleSetting> settings = settings_of(options, console);
  const int limit = microbatches_in_flight.value_or(settings.front().shape.devices);
  std::vector<Row> rows;
  for (const ScheduleSetting& setting : settings) {
    if (setting.file) {
      fail_usage("compare tries schedules in several shapes, but ", name_of(setting),
                 " is a file; give names of stagecraft schedule list");
    }
    rows.push_back(best_variant(setting, {options, conditions}, limit));
  }
  const auto rank = [limit](const Row& row) {
    return std::tuple(row.refusal.has_value(), row.held > limit, row.step, row.held);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& a, const Row& b) { return rank(a) < rank(b); });
  if (rows.front().refusal) throw *rows.front().refusal;
  print(console, rows, limit);
  return 0;
}

}  // namespace stagecraft
