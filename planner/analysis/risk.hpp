// How sure a prediction is, and plans that are good when it is wrong.
//
// What computing, communicating and keeping really take is what we predict times a factor, whose
// logarithm is normal around 0. There is one factor for each class of cost: all of a class is wrong
// together (a constant was wrong), and the classes are independent. So the median is the
// prediction, and with D(c, q) the growth of the logarithm of the step when class c alone takes
// what it exceeds in 1 - q of all cases, the step's quantile q is
//
//   T(q) = T exp(sqrt(D(compute, q)^2 + D(communication, q)^2))        q >= 1/2
//
// exact where the step is a product of powers of the factors, and else the first-order reliability
// estimate, which simulates instead of deriving: a message that compute hides costs nothing until
// it no longer is. A layer's own messages (tensor-parallel peers) are in its time, so in compute.

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

/// What is usual for costs of a provenance, and what that rests on. A mean error e of a normal
/// logarithm is a standard deviation of 1.25 e.
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

/// Usual for the weakest cost the plan rests on; of measured layers at least their own spread
/// ((p90 - p10) / median is 2.56 standard deviations).
Spreads spreads_for(const Profile& profile, Provenance provenance);

/// A quantile to plan for: "p90".
struct RiskLevel {
  std::string_view name;
  int percent = 50;
  double deviations = 0;  ///< of a normal variable, from the median
};
inline constexpr std::array risk_levels{
    RiskLevel{"p50", 50, 0.0},      RiskLevel{"p75", 75, 0.674490}, RiskLevel{"p80", 80, 0.841621},
    RiskLevel{"p90", 90, 1.281552}, RiskLevel{"p95", 95, 1.644854}, RiskLevel{"p99", 99, 2.326348},
};
/// Throws Error (usage) for an unknown name.
const RiskLevel& risk_level(std::string_view name);

/// The step at so many standard deviations (negative: below the median). Grows with them; at 0 it
/// is the simulated step.
Duration step_at(const Compiled& compiled, const Spreads& spreads, double deviations);
/// At each of several.
std::vector<Duration> steps_at(const Compiled& compiled, const Spreads& spreads,
                               const std::vector<double>& deviations);
/// Bytes that are predicted as `bytes`.
Bytes memory_at(Bytes bytes, const Spreads& spreads, double deviations);

/// A plan's step in good and bad cases.
struct StepInterval {
  Duration p10{0}, p50{0}, p90{0};
  Duration level{0};  ///< at the level that was asked for
};
StepInterval interval_of(const Compiled& compiled, const Spreads& spreads, const RiskLevel& level);

/// A rate that is predicted: what it reaches in nine of ten cases, and in one of ten.
struct RateRange {
  double low = 0, high = 0;
};
RateRange range_of(double rate, const StepInterval& interval);

/// What is planned for. Spreads that are not said are usual for what the plan rests on.
struct Risk {
  RiskLevel level;
  std::optional<double> compute, communication, memory;
};
Spreads spreads_of(const Risk& risk, const Profile& profile, const Compiled& compiled);

/// The plan to simulate, with the problem's costs.
Compiled compile_for(const Problem& problem, const Plan& plan);

/// Plans by the quantile of their step, among those that fit with this probability: of the plans
/// that the search finds by the median, and by links as slow as the level has them. The bound stays
/// that of the median, which is a bound for every level above it; nothing is proved. Throws Error
/// (usage) for objectives besides the step.
SearchResult search_at_risk(Search search, const Problem& problem, const SearchControl& control,
                            const Risk& risk);

}  // namespace stagecraft
