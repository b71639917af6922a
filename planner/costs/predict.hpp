// One evaluator for every plan: compile it to a program, cost the program, put it on the clock.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

/// A plan as a program, with its costs. Program device i stands for cluster device `devices[i]` and
/// its tensor-parallel peers.
struct Compiled {
  Schedule schedule;
  LowerOptions lowering;
  Program program;
  Costs costs;
  std::vector<int> devices;
  /// Of a program of one column only (`compile_column`): for each of the plan's lead devices,
  /// ascending, the program device that does the same. Empty: each does its own.
  std::vector<int> stand_ins;
  std::vector<Bytes> memory_limits;               ///< per program device; INT64_MAX when unlimited
  Provenance provenance = Provenance::datasheet;  ///< the weakest its layer costs rest on
  std::vector<std::string> notes;                 ///< for people: what was scaled or assumed
};

/// The profile is in the plan's order (`in_plan_order`). Costs of a chunk come from the profile's
/// entry for its share of the microbatch; where only the whole microbatch was measured, times and
/// bytes are scaled by rows and a note says so. Throws Error (input) if the plan does not validate.
Compiled compile(const Plan& plan, const Profile& profile, const Cluster& cluster);

struct StagePrediction {
  LayerRange layers;
  Duration forward{0};  ///< of one microbatch on one replica
  Duration backward{0};
  Duration send{
      0};  ///< of one microbatch's output to the next stage, latency included; zero if local
  double idle = 0;  ///< part of the step in which its (first replica's) device computes nothing
  bool operator==(const StagePrediction&) const = default;
};

struct Prediction {
  Duration step{0};
  /// What an iteration's microbatches take in the steady state, rounded up to nanoseconds: only of
  /// schedules that never drain, where the planner asked.
  std::optional<Duration> steady;
  double bubble = 0;
  double samples_per_second = 0;
  double tokens_per_second = 0;  ///< 0 where samples are not sequences
  std::vector<Duration> busy;    ///< per lead device, ascending, as the next two
  std::vector<MemoryPeak> peaks;
  std::vector<Bytes> memory_limits;
  bool fits = true;
  std::vector<StagePrediction> stages;
  Provenance provenance = Provenance::datasheet;
  std::vector<std::string> notes;
};

/// What an iteration takes in a long run: its steady time if it has one, else its step.
inline Duration pace(const Prediction& prediction) {
  return prediction.steady.value_or(prediction.step);
}

/// Peaks of all devices the plan uses, in device order; tensor-parallel peers hold the same. Empty
/// where the costs know no bytes.
std::vector<Bytes> device_peaks(const Plan& plan, const Prediction& prediction);

/// What a plan's file says of its prediction.
PredictedFigures predicted_figures(const Plan& plan, const Prediction& prediction);

/// Simulates one iteration, of one column where all are alike. A plan that does not fit is
/// predicted all the same, with `fits` false.
Prediction predict(const Plan& plan, const Profile& profile, const Cluster& cluster);
Prediction predict(const Plan& plan, const Compiled& compiled);
/// Of a simulation under other conditions.
Prediction predict(const Plan& plan, const Compiled& compiled, const Timeline& timeline);

}  // namespace stagecraft
