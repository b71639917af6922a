#include "tools/options/risk_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "tools/options/arguments.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

struct CostClass {
  std::string_view name;
  std::optional<double> Risk::*spread;
};
constexpr std::array cost_classes{CostClass{"compute", &Risk::compute},
                                  CostClass{"communication", &Risk::communication},
                                  CostClass{"memory", &Risk::memory}};
constexpr double most_spread = 500;  // per cent

void read_spreads(Risk& risk, const std::string& text) {
  for (const std::string& word : read_words("--spread", text)) {
    const std::size_t equals = word.find('=');
    const auto known = std::ranges::find(cost_classes, word.substr(0, equals), &CostClass::name);
    if (equals == std::string::npos || known == cost_classes.end()) {
      fail_usage("--spread: expected compute, communication or memory and a percentage, such as ",
                 "communication=40%, found \"", word, '"');
    }
    risk.*known->spread = read_percent("--spread", word.substr(equals + 1), most_spread);
  }
}

}  // namespace

void declare_risk(CLI::App& app, RiskOptions& options, const std::string& help) {
  app.add_option("--risk", options.level, help + ": p50 (as predicted) p75 p80 p90 p95 p99")
      ->type_name("LEVEL");
  app.add_option("--spread", options.spreads,
                 "With --risk: relative standard deviations of the costs: "
                 "compute=5%,communication=40%,memory=2% (usual values for their evidence)")
      ->type_name("LIST");
}

std::optional<Risk> read_risk(const RiskOptions& options) {
  if (options.level.empty()) {
    if (!options.spreads.empty()) fail_usage("--spread says how uncertain --risk p90 is; add it");
    return {};
  }
  Risk risk{.level = risk_level(options.level)};
  if (!options.spreads.empty()) read_spreads(risk, options.spreads);
  return risk;
}

std::string risk_sentence(const StepInterval& interval, const Spreads& spreads,
                          const RiskLevel& level) {
  return fmt::format(
      "step {} at {} (p10 {}, p50 {}, p90 {}); standard deviations: compute {}, communication {}, "
      "memory {}\n",
      format_duration(interval.level), level.name, format_duration(interval.p10),
      format_duration(interval.p50), format_duration(interval.p90), percent(spreads.compute),
      percent(spreads.communication), percent(spreads.memory));
}

StepInterval within_peak(StepInterval interval, Duration least) {
  for (Duration* step : {&interval.p10, &interval.p50, &interval.p90, &interval.level})
    *step = std::max(*step, least);
  return interval;
}

std::string range_sentence(const Prediction& prediction, const StepInterval& interval) {
  const bool has_tokens = prediction.tokens_per_second > 0;
  const RateRange range =
      range_of(has_tokens ? prediction.tokens_per_second : prediction.samples_per_second, interval);
  const std::string_view costs = to_string(prediction.provenance);
  constexpr double widest = 3;
  if (range.high > widest * range.low) {
    return fmt::format(
        "no interval: predictions from {} costs err by more than a factor of three here; {}\n",
        costs,
        prediction.provenance == Provenance::measured
            ? "times that spread less, of a quiet machine or of a run (calibrate), narrow it"
            : "measured layers and links narrow it (stagecraft profile, calibrate)");
  }
  return fmt::format("in eight of ten cases {} to {} {}, as predictions from {} costs err\n",
                     readable(range.low), readable(range.high),
                     has_tokens ? "tokens/s" : "samples/s", costs);
}

void add_risk(nlohmann::ordered_json& json, const std::optional<Risk>& risk, const Profile& profile,
              const Compiled& compiled, const PredictedRate& rate,
              const std::vector<Bytes>& peaks) {
  const Risk used = risk.value_or(Risk{.level = risk_level("p90")});
  const Spreads spreads = spreads_of(used, profile, compiled);
  const StepInterval interval =
      within_peak(interval_of(compiled, spreads, used.level), rate.least_step);
  const RateRange range = range_of(rate.samples_per_second, interval);
  std::vector<Bytes> at_level;
  for (const Bytes bytes : peaks)
    at_level.push_back(memory_at(bytes, spreads, used.level.deviations));
  json["risk"] = {{"level", used.level.name},
                  {"step_p10_ns", interval.p10.count()},
                  {"step_p50_ns", interval.p50.count()},
                  {"step_p90_ns", interval.p90.count()},
                  {"step_at_level_ns", interval.level.count()},
                  {"samples_per_second_p10", range.low},
                  {"samples_per_second_p90", range.high},
                  {"peak_memory_bytes", at_level},
                  {"spreads",
                   {{"compute", spreads.compute},
                    {"communication", spreads.communication},
                    {"memory", spreads.memory}}}};
}

}  // namespace stagecraft
