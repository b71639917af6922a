#include "tools/reports/outcome.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

using nlohmann::ordered_json;

namespace {

/// A column of a sweep's table.
struct Column {
  std::string heading;
  bool shown = true;
  std::string (*cell)(const Outcome& outcome);
};

bool never_ends(const Outcome& outcome) {
  return !outcome.run.stranded.empty();
}

std::string numbers_only(const Outcome& outcome, const std::string& text) {
  return outcome.refusal || never_ends(outcome) ? "-" : text;
}

int most_in_flight(const Timeline& timeline) {
  const std::vector<int> held = peak_in_flight(timeline);
  return held.empty() ? 0 : *std::max_element(held.begin(), held.end());
}

std::string step_of(const Outcome& outcome) {
  if (outcome.refusal) return "refused";
  return never_ends(outcome) ? "never ends" : format_duration(step_time(outcome.run.timeline));
}

/// Of the device that holds most.
std::string highest_memory(const Outcome& outcome) {
  Bytes most = 0;
  for (const MemoryPeak& peak : memory_peaks(outcome.run.timeline))
    most = std::max(most, peak.bytes);
  return format_bytes(most);
}

Bytes most_cache(const Serving& served) {
  return served.peak_cache.empty() ? 0 : std::ranges::max(served.peak_cache);
}

/// Times and rates that only some sweeps have.
void add_rarer_columns(const std::vector<Outcome>& outcomes, std::vector<Column>& columns) {
  const auto any = [&](auto has) { return std::any_of(outcomes.begin(), outcomes.end(), has); };
  const bool serves = any([](const Outcome& o) { return o.served.has_value(); });
  columns.insert(
      columns.end(),
      {{">highest memory", any([](const Outcome& o) { return takes_memory(o.run.timeline); }),
        [](const Outcome& o) { return numbers_only(o, highest_memory(o)); }},
       {">further iteration", any([](const Outcome& o) { return o.steady_step.has_value(); }),
        [](const Outcome& o) { return o.steady_step ? format_duration(*o.steady_step) : "-"; }},
       {">latency p50", serves,
        [](const Outcome& o) { return o.served ? format_duration(o.served->latency.p50) : "-"; }},
       {">tokens/s", serves,
        [](const Outcome& o) { return o.served ? readable(o.served->tokens_per_second) : "-"; }},
       {">highest cache",
        any([](const Outcome& o) { return o.served && most_cache(*o.served) > 0; }),
        [](const Outcome& o) { return o.served ? format_bytes(most_cache(*o.served)) : "-"; }}});
}

std::vector<Column> columns_for(const std::vector<Outcome>& outcomes) {
  const auto differ = [&](auto value) {
    return std::any_of(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) {
      return value(outcome.setting) != value(outcomes.front().setting);
    });
  };
  const bool jittered = std::any_of(outcomes.begin(), outcomes.end(),
                                    [](const Outcome& o) { return o.jittered.has_value(); });
  const bool with_failures = std::any_of(outcomes.begin(), outcomes.end(),
                                         [](const Outcome& o) { return o.long_run.has_value(); });
  return {{"schedule", differ([](const ScheduleSetting& s) { return name_of(s); }),
           [](const Outcome& o) { return name_of(o.setting); }},
          {">stages", differ([](const ScheduleSetting& s) { return s.shape.devices; }),
           [](const Outcome& o) { return std::to_string(o.setting.shape.devices); }},
          {">virtual", differ([](const ScheduleSetting& s) { return s.shape.virtual_stages; }),
           [](const Outcome& o) { return std::to_string(o.setting.shape.virtual_stages); }},
          {">microbatches", true,
           [](const Outcome& o) { return std::to_string(o.setting.shape.microbatches); }},
          {">step", true, step_of},
          {">per microbatch", true,
           [](const Outcome& o) {
             const int microbatches = std::max(1, o.setting.shape.microbatches);
             return numbers_only(o, format_duration(step_time(o.run.timeline) / microbatches));
           }},
          {">bubble", true,
           [](const Outcome& o) { return numbers_only(o, percent(bubble(o.run.timeline))); }},
          {">most in flight", true,
           [](const Outcome& o) {
             return numbers_only(o, std::to_string(most_in_flight(o.run.timeline)));
           }},
          {">jittered mean", jittered,
           [](const Outcome& o) { return o.jittered ? format_duration(o.jittered->mean) : "-"; }},
          {">p95", jittered,
           [](const Outcome& o) { return o.jittered ? format_duration(o.jittered->p95) : "-"; }},
          {">goodput", with_failures,
           [](const Outcome& o) { return o.long_run ? percent(o.long_run->goodput) : "-"; }}};
}

}  // namespace

std::string steady_sentence(const std::optional<Duration>& steady_step) {
  if (!steady_step) return "";
  return fmt::format("each further iteration takes {}\n", format_duration(*steady_step));
}

void add_steady(ordered_json& result, const std::optional<Duration>& steady_step,
                const std::optional<CycleMean>& cycle_mean) {
  if (steady_step) result["steady_step_ns"] = steady_step->count();
  if (!cycle_mean) return;
  const auto [whole, rest] =
      std::div(cycle_mean->time.count(), std::int64_t{cycle_mean->iterations});
  if (rest == 0) {
    result["cycle_mean_ns"] = whole;
  } else {
    result["cycle_mean_ns"] =
        static_cast<double>(cycle_mean->time.count()) / cycle_mean->iterations;
  }
}

void add_jitter(ordered_json& result, const std::optional<Summary>& steps) {
  if (!steps) return;
  result["jitter"] = summary_json(*steps);
}

void add_conditions(ordered_json& result, const EventRun& run) {
  const std::vector<Duration>& waits = run.waiting_for_memory;
  const auto takes_time = [](Duration wait) { return wait > Duration{0}; };
  if (std::any_of(waits.begin(), waits.end(), takes_time)) {
    result["waiting_for_memory_ns"] = nanoseconds(waits);
  }
  if (!run.stranded.empty()) result["stranded"] = run.stranded;
}

ordered_json outcome_json(const Outcome& outcome) {
  ordered_json result = setting_json(outcome.setting);
  if (outcome.refusal) {
    result["refused"] = outcome.refusal->message();
    return result;
  }
  if (!outcome.link_policy.empty()) result["link_policy"] = outcome.link_policy;
  result.update(timeline_json(outcome.run.timeline));
  add_steady(result, outcome.steady_step, outcome.cycle_mean);
  add_jitter(result, outcome.jittered);
  if (takes_memory(outcome.run.timeline)) {
    add_memory(result, memory_peaks(outcome.run.timeline));
  }
  add_serving(result, outcome.served);
  add_conditions(result, outcome.run);
  add_goodput(result, outcome.long_run);
  if (outcome.explanation) add_explanation(result, *outcome.explanation);
  return result;
}

std::string sweep_table(const std::vector<Outcome>& outcomes, bool unicode) {
  std::vector<Column> columns = columns_for(outcomes);
  add_rarer_columns(outcomes, columns);
  std::erase_if(columns, [](const Column& column) { return !column.shown; });
  std::vector<std::string> headings;
  for (const Column& column : columns) headings.push_back(column.heading);
  Table table(headings);
  for (const Outcome& outcome : outcomes) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.cell(outcome));
    table.row(std::move(cells));
  }
  return table.text(unicode);
}

}  // namespace stagecraft
