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
  std::string (*cell)(const SweepRow& row);
};

std::string numbers_only(const SweepRow& row, const std::string& text) {
  return row.refusal || row.figures.never_ends ? "-" : text;
}

std::string step_of(const SweepRow& row) {
  if (row.refusal) return "refused";
  return row.figures.never_ends ? "never ends" : format_duration(row.figures.step);
}

Bytes most_cache(const Serving& served) {
  return served.peak_cache.empty() ? 0 : std::ranges::max(served.peak_cache);
}

/// Times and rates that only some sweeps have.
void add_rarer_columns(const std::vector<SweepRow>& rows, std::vector<Column>& columns) {
  const auto any = [&](auto has) { return std::any_of(rows.begin(), rows.end(), has); };
  const bool serves = any([](const SweepRow& o) { return o.served.has_value(); });
  columns.insert(
      columns.end(),
      {{">highest memory",
        any([](const SweepRow& o) { return o.figures.highest_memory.has_value(); }),
        [](const SweepRow& o) {
          return numbers_only(o, format_bytes(o.figures.highest_memory.value_or(0)));
        }},
       {">further iteration", any([](const SweepRow& o) { return o.steady_step.has_value(); }),
        [](const SweepRow& o) { return o.steady_step ? format_duration(*o.steady_step) : "-"; }},
       {">latency p50", serves,
        [](const SweepRow& o) { return o.served ? format_duration(o.served->latency.p50) : "-"; }},
       {">tokens/s", serves,
        [](const SweepRow& o) { return o.served ? readable(o.served->tokens_per_second) : "-"; }},
       {">highest cache",
        any([](const SweepRow& o) { return o.served && most_cache(*o.served) > 0; }),
        [](const SweepRow& o) { return o.served ? format_bytes(most_cache(*o.served)) : "-"; }}});
}

std::vector<Column> columns_for(const std::vector<SweepRow>& rows) {
  const auto differ = [&](auto value) {
    return std::any_of(rows.begin(), rows.end(), [&](const SweepRow& row) {
      return value(row.setting) != value(rows.front().setting);
    });
  };
  const bool jittered = std::any_of(rows.begin(), rows.end(),
                                    [](const SweepRow& o) { return o.jittered.has_value(); });
  const bool with_failures = std::any_of(rows.begin(), rows.end(),
                                         [](const SweepRow& o) { return o.long_run.has_value(); });
  return {
      {"schedule", differ([](const ScheduleSetting& s) { return name_of(s); }),
       [](const SweepRow& o) { return name_of(o.setting); }},
      {">stages", differ([](const ScheduleSetting& s) { return s.shape.devices; }),
       [](const SweepRow& o) { return std::to_string(o.setting.shape.devices); }},
      {">virtual", differ([](const ScheduleSetting& s) { return s.shape.virtual_stages; }),
       [](const SweepRow& o) { return std::to_string(o.setting.shape.virtual_stages); }},
      {">microbatches", true,
       [](const SweepRow& o) { return std::to_string(o.setting.shape.microbatches); }},
      {">step", true, step_of},
      {">per microbatch", true,
       [](const SweepRow& o) {
         const int microbatches = std::max(1, o.setting.shape.microbatches);
         return numbers_only(o, format_duration(o.figures.step / microbatches));
       }},
      {">bubble", true,
       [](const SweepRow& o) { return numbers_only(o, percent(o.figures.bubble)); }},
      {">most in flight", true,
       [](const SweepRow& o) { return numbers_only(o, std::to_string(o.figures.most_in_flight)); }},
      {">jittered mean", jittered,
       [](const SweepRow& o) { return o.jittered ? format_duration(o.jittered->mean) : "-"; }},
      {">p95", jittered,
       [](const SweepRow& o) { return o.jittered ? format_duration(o.jittered->p95) : "-"; }},
      {">goodput", with_failures,
       [](const SweepRow& o) { return o.long_run ? percent(o.long_run->goodput) : "-"; }}};
}

}  // namespace

Figures figures_of(const EventRun& run) {
  const Timeline& timeline = run.timeline;
  Figures figures{.never_ends = !run.stranded.empty(), .highest_memory = {}};
  if (takes_memory(timeline)) figures.highest_memory = 0;
  if (figures.never_ends) return figures;
  figures.step = step_time(timeline);
  figures.bubble = bubble(timeline);
  for (const int held : peak_in_flight(timeline))
    figures.most_in_flight = std::max(figures.most_in_flight, held);
  if (!figures.highest_memory) return figures;
  for (const MemoryPeak& peak : memory_peaks(timeline))
    figures.highest_memory = std::max(*figures.highest_memory, peak.bytes);
  return figures;
}

SweepRow sweep_row(const Outcome& outcome) {
  return {.setting = outcome.setting,
          .figures = outcome.refusal ? Figures{} : figures_of(outcome.run),
          .steady_step = outcome.steady_step,
          .jittered = outcome.jittered,
          .long_run = outcome.long_run,
          .served = outcome.served,
          .refusal = outcome.refusal};
}

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

std::string sweep_table(const std::vector<SweepRow>& rows, bool unicode) {
  std::vector<Column> columns = columns_for(rows);
  add_rarer_columns(rows, columns);
  std::erase_if(columns, [](const Column& column) { return !column.shown; });
  std::vector<std::string> headings;
  for (const Column& column : columns) headings.push_back(column.heading);
  Table table(headings);
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.cell(row));
    table.row(std::move(cells));
  }
  return table.text(unicode);
}

}  // namespace stagecraft
