// The flags --risk and --spread, and the output of a step's uncertainty.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/analysis/risk.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given; empty: not given.
struct RiskOptions {
  std::string level, spreads;
};
void declare_risk(CLI::App& app, RiskOptions& options, const std::string& help);

/// Throws Error (usage) for malformed flags.
std::optional<Risk> read_risk(const RiskOptions& options);

/// "step 4.9s at p90 (p10 2.3s, p50 3.4s, p90 4.9s); standard deviations: compute 30 %, …".
std::string risk_sentence(const StepInterval& interval, const Spreads& spreads,
                          const RiskLevel& level);

/// The interval, limited to steps at which the devices do not exceed their peak compute: `least` is
/// the step at the peak, 0 if unknown.
StepInterval within_peak(StepInterval interval, Duration least);

/// "in eight of ten cases 20.12 to 42.75 samples/s, as predictions from datasheet costs err"; if
/// the upper value exceeds three times the lower, the reason why no interval is given.
std::string range_sentence(const Prediction& prediction, const StepInterval& interval);

/// A predicted rate, and the least possible step (`within_peak`).
struct PredictedRate {
  double samples_per_second = 0;
  Duration least_step{0};
};

/// risk {level, step_p10_ns, step_p50_ns, step_p90_ns, step_at_level_ns, samples_per_second_p10,
/// samples_per_second_p90, peak_memory_bytes[], spreads}: of the risk, else of p90.
void add_risk(nlohmann::ordered_json& json, const std::optional<Risk>& risk, const Profile& profile,
              const Compiled& compiled, const PredictedRate& rate, const std::vector<Bytes>& peaks);

}  // namespace stagecraft
