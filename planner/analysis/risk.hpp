// Uncertainty of predictions, and plans that are good if predictions are wrong.
//
// Model: the real compute time, communication time and memory are the predictions times a
// log-normal factor of median 1. There is one factor for each class of cost, since errors within a
// class are common (a constant is wrong), and the classes are independent. So the median is the
// prediction. With D(c, q) the growth of the logarithm of the step if class c alone is at its
// quantile q, the step's quantile q is
//
//   T(q) = T exp(sqrt(D(compute, q)^2 + D(communication, q)^2))        q >= 1/2
//
// exact if the step is a product of powers of the factors, else the first-order reliability
// estimate. It is computed by simulation instead of derivatives, since a message that compute hides
// costs nothing until it is longer. A layer's own messages (of tensor-parallel peers) count as
// compute.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/analysis/answers.hpp"
#include "planner/costs/compile.hpp"
#include "planner/problem/problem.hpp"

namespace stagecraft {

/// Standard deviations of the logarithm of real over predicted, by class of cost.
struct Spreads {
  double compute = 0;
  double communication = 0;
  double memory = 0;
  bool operator==(const Spreads&) const = default;
};

/// Default spreads for costs of a provenance, with their source. A mean absolute error e of a
/// normal logarithm corresponds to a standard deviation of 1.25 e.
struct UsualSpreads {
  Provenance provenance;
  Spreads spreads;
  std::string_view rests_on;
};
inline constexpr std::array usual_spreads{
    UsualSpreads{Provenance::measured,
                 {0.04, 0.40, 0.02},
                 "layers as measured, within their own spread if that is more; links by datasheet"},
    UsualSpreads{Provenance::fitted,
                 {0.06, 0.25, 0.03},
                 "public sets, rows left out of a fit: mean errors of 3 % to 23 %, 5 % in the "
                 "middle; all-reduces 4 % to 7 %"},
    UsualSpreads{Provenance::datasheet,
                 {0.30, 0.40, 0.05},
                 "public sets with nothing fitted: mean errors of 4 % to 75 %, 23 % in the middle; "
                 "all-reduces 14 % and 20 %"},
};

/// The default spreads for the weakest provenance of the plan's costs; for measured layers at least
/// their own spread ((p90 - p10) / median is 2.56 standard deviations).
Spreads spreads_for(const Profile& profile, Provenance provenance);

/// A quantile to plan for: "p90".
struct RiskLevel {
  std::string_view name;
  int percent = 50;
  double deviations = 0;  ///< standard deviations of a normal variable from its median
};
inline constexpr std::array risk_levels{
    RiskLevel{"p50", 50, 0.0},      RiskLevel{"p75", 75, 0.674490}, RiskLevel{"p80", 80, 0.841621},
    RiskLevel{"p90", 90, 1.281552}, RiskLevel{"p95", 95, 1.644854}, RiskLevel{"p99", 99, 2.326348},
};
/// The level with this name. Throws Error (usage) for an unknown name.
const RiskLevel& risk_level(std::string_view name);

/// The step at `deviations` standard deviations (negative: below the median). It grows with them;
/// at 0 it is the simulated step.
Duration step_at(const Compiled& compiled, const Spreads& spreads, double deviations);
/// `step_at` for each of several numbers of deviations.
std::vector<Duration> steps_at(const Compiled& compiled, const Spreads& spreads,
                               const std::vector<double>& deviations);
/// The memory at `deviations` standard deviations, given the prediction `bytes`.
Bytes memory_at(Bytes bytes, const Spreads& spreads, double deviations);

/// A plan's step in good and bad cases.
struct StepInterval {
  Duration p10{0}, p50{0}, p90{0};
  Duration level{0};  ///< step at the requested level
};
StepInterval interval_of(const Compiled& compiled, const Spreads& spreads, const RiskLevel& level);

/// A predicted rate: the values that it reaches in nine of ten cases, and in one of ten.
struct RateRange {
  double low = 0, high = 0;
};
RateRange range_of(double rate, const StepInterval& interval);

/// The risk level to plan for. Spreads that are not given take the defaults for the plan's
/// provenance.
struct Risk {
  RiskLevel level;
  std::optional<double> compute, communication, memory;
};
Spreads spreads_of(const Risk& risk, const Profile& profile, const Compiled& compiled);

/// The plan to simulate, with the problem's costs.
Compiled compile_for(const Problem& problem, const Plan& plan);

/// Ranks plans by this quantile of their step, among those that fit with the same probability.
/// Candidates are the plans that the search finds by the median, and with links as slow as at this
/// level. The bound is that of the median, which also holds for every higher level; optimality is
/// not proved. Throws Error (usage) for objectives other than the step.
SearchResult search_at_risk(Search search, const Problem& problem, const SearchControl& control,
                            const Risk& risk);

}  // namespace stagecraft
