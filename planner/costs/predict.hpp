// The evaluator of all plans: it compiles a plan to a program with costs, and simulates it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// A plan's program with its costs. Program device i stands for cluster device `devices[i]` and its
/// tensor-parallel peers.
struct Compiled {
  Schedule schedule;
  LowerOptions lowering;
  Program program;
  Costs costs;
  std::vector<int> devices;
  /// For a program of one column (`compile_column`): for each of the plan's lead devices,
  /// ascending, the program device that stands for it. Empty: every lead device has its own.
  std::vector<int> stand_ins;
  std::vector<Bytes> memory_limits;               ///< per program device; INT64_MAX when unlimited
  Provenance provenance = Provenance::datasheet;  ///< weakest provenance of its layer costs
  std::vector<std::string> notes;                 ///< notes on scaled or assumed costs, for display
};

/// The profile must be in the plan's order (`in_plan_order`). A chunk's costs come from the
/// profile's entry for its share of the microbatch; if only the whole microbatch was measured,
/// times and bytes are scaled by rows and a note says so. Throws Error (input) if the plan is not
/// valid.
Compiled compile(const Plan& plan, const Profile& profile, const Cluster& cluster);

struct StagePrediction {
  LayerRange layers;
  Duration forward{0};  ///< forward time of one microbatch on one replica
  Duration backward{0};
  Duration send{0};  ///< transfer time of one microbatch's output to the next stage, with latency;
                     ///< zero if local
  double idle = 0;   ///< fraction of the step in which the device of its first replica does not
                     ///< compute
  bool operator==(const StagePrediction&) const = default;
};

struct Prediction {
  Duration step{0};
  /// Time of an iteration's microbatches in the steady state, rounded up to nanoseconds; only for
  /// schedules that never drain, if the planner computed it.
  std::optional<Duration> steady;
  double bubble = 0;
  double samples_per_second = 0;
  double tokens_per_second = 0;  ///< 0 if samples are not sequences
  std::vector<Duration> busy;    ///< per lead device, ascending, like the next two members
  std::vector<MemoryPeak> peaks;
  std::vector<Bytes> memory_limits;
  bool fits = true;
  std::vector<StagePrediction> stages;
  Provenance provenance = Provenance::datasheet;
  std::vector<std::string> notes;
};

/// Time per iteration in a long run: the steady time if there is one, else the step.
inline Duration pace(const Prediction& prediction) {
  return prediction.steady.value_or(prediction.step);
}

/// Peak memory of all devices that the plan uses, in device order; tensor-parallel peers have equal
/// peaks. Empty if the costs have no bytes.
std::vector<Bytes> device_peaks(const Plan& plan, const Prediction& prediction);

/// The figures of a prediction that a plan's file records.
PredictedFigures predicted_figures(const Plan& plan, const Prediction& prediction);

/// Simulates one iteration, of one column if all are equal. A plan that does not fit is predicted,
/// too, with `fits` false.
Prediction predict(const Plan& plan, const Profile& profile, const Cluster& cluster);
Prediction predict(const Plan& plan, const Compiled& compiled);
/// The prediction from a timeline that was simulated under other conditions.
Prediction predict(const Plan& plan, const Compiled& compiled, const Timeline& timeline);

}  // namespace stagecraft
