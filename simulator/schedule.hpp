// A schedule: for each pipeline device, the order of its compute instructions. No times and no
// communication.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiles/units.hpp"
#include "simulator/instruction.hpp"

namespace stagecraft {

/// What automatic schedules reckon with: times of a whole device and one microbatch. Only ratios
/// matter.
struct ScheduleHints {
  Duration forward{1'000};
  Duration backward_input{1'000};
  Duration backward_weight{1'000};
  Duration transfer{0};
  Bytes saved = 1;             ///< what a forward keeps until I …
  Bytes saved_for_weight = 1;  ///< … and the part of it that stays until W
  bool operator==(const ScheduleHints&) const = default;
};

/// What a schedule is made for. A *pipeline device* stands for all replicas and tensor-parallel
/// peers of its stages.
struct ScheduleShape {
  int devices = 1;         ///< pipeline devices, p
  int microbatches = 1;    ///< per iteration, m
  int virtual_stages = 1;  ///< stages on each device, v; stages = devices * virtual_stages
  std::optional<int>
      group;  ///< interleaved: microbatches in a row per virtual stage, N; default: devices
  std::vector<int> warm_up;  ///< 1f1b: forwards before the first backward of each device, K(r);
                             ///< default: the schedule's own
  std::optional<int> in_flight = {};  ///< automatic: microbatches each device has memory for;
                                      ///< default: devices
  ScheduleHints hints = {};           ///< automatic
  bool operator==(const ScheduleShape&) const = default;
};

struct Schedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<int> device_of_stage;               ///< the pipeline device of each stage
  std::vector<std::vector<Instruction>> devices;  ///< what each pipeline device computes, in order
  bool operator==(const Schedule&) const = default;
};

/// Throws Error (input) unless each stage does each microbatch's forward and backward (B, or I and
/// W) exactly once on its own device, with F before B or I, I before W, and R (if any) between F
/// and its backward.
void validate(const Schedule& schedule);

/// Forwards that have started and whose backward has not, at most, on each device, in units of
/// stages: an order-only count, so that plans can be costed without a clock. B and I release when
/// `until_input`, else B and W.
std::vector<int> peak_in_flight(const Schedule& schedule, bool until_input = true);

}  // namespace stagecraft
