#include "simulator/schedule.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

std::string_view to_string(WeightPolicy policy) {
  switch (policy) {
    case WeightPolicy::flush: return "flush";
    case WeightPolicy::stashing: return "stashing";
    case WeightPolicy::vertical_sync: return "vertical_sync";
    case WeightPolicy::double_buffered: return "double_buffered";
  }
  return "";
}

WeightPolicy read_weight_policy(std::string_view name) {
  return read_choice("weight policy", name,
                     {WeightPolicy::flush, WeightPolicy::stashing, WeightPolicy::vertical_sync,
                      WeightPolicy::double_buffered});
}

namespace {

/// Which instructions of one stage and microbatch have been seen so far.
struct Progress {
  bool forward = false;
  bool recompute = false;
  bool backward = false;  ///< B or I
  bool weight = false;    ///< B or W
};

void validate_shape(const Schedule& schedule) {
  if (schedule.stages < 1) fail("schedule: needs at least one stage");
  if (schedule.microbatches < 1) fail("schedule: needs at least one microbatch");
  if (schedule.device_of_stage.size() != static_cast<std::size_t>(schedule.stages)) {
    fail("schedule: places ", schedule.device_of_stage.size(), " of ", schedule.stages, " stages");
  }
  const int devices = static_cast<int>(schedule.devices.size());
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int device = schedule.device_of_stage[static_cast<std::size_t>(stage)];
    if (device < 0 || device >= devices) {
      fail("schedule: stage ", stage, " is placed on device ", device, " of ", devices);
    }
  }
}

void validate_place(const Schedule& schedule, const Instruction& instruction, int device) {
  const std::string name = to_string(instruction);
  if (instruction.op > Op::recompute) {
    fail("schedule: device ", device, " lists ", name, "; only F, B, I, W and R belong in it");
  }
  if (instruction.stage < 0 || instruction.stage >= schedule.stages) {
    fail("schedule: ", name, " on device ", device, " names stage ", instruction.stage, " of ",
         schedule.stages);
  }
  if (instruction.microbatch < 0 || instruction.microbatch >= schedule.microbatches) {
    fail("schedule: ", name, " on device ", device, " names microbatch ", instruction.microbatch,
         " of ", schedule.microbatches);
  }
  const int home = schedule.device_of_stage[static_cast<std::size_t>(instruction.stage)];
  if (home != device) {
    fail("schedule: ", name, " stands on device ", device, ", but stage ", instruction.stage,
         " is on device ", home);
  }
}

/// Marks `now`; complains unless it is the first time and `before` has happened.
void take(bool& now, bool before, const Instruction& instruction, std::string_view needs) {
  if (now) fail("schedule: ", to_string(instruction), " repeats work that was already done");
  if (!before) fail("schedule: ", to_string(instruction), " comes before its ", needs);
  now = true;
}

void advance(Progress& progress, const Instruction& instruction) {
  switch (instruction.op) {
    case Op::forward: take(progress.forward, true, instruction, ""); return;
    case Op::recompute:
      take(progress.recompute, progress.forward, instruction, "forward");
      if (progress.backward) {
        fail("schedule: ", to_string(instruction), " comes after its backward");
      }
      return;
    case Op::backward:
      take(progress.backward, progress.forward, instruction, "forward");
      take(progress.weight, true, instruction, "");
      return;
    case Op::backward_input:
      take(progress.backward, progress.forward, instruction, "forward");
      return;
    case Op::backward_weight:
      take(progress.weight, progress.backward, instruction, "input gradient");
      return;
    case Op::send_activation:
    case Op::receive_activation:
    case Op::send_gradient:
    case Op::receive_gradient:
    case Op::evict:
    case Op::take_in:
    case Op::give_back:
    case Op::load:
    case Op::reduce_gradient:
    case Op::reduce_tied:
    case Op::gather_parameters:
    case Op::update: return;  // validate_place has refused them
  }
}

void require_complete(const Schedule& schedule, const std::vector<Progress>& progress) {
  for (std::size_t i = 0; i < progress.size(); ++i) {
    const int stage = static_cast<int>(i) / schedule.microbatches;
    const int microbatch = static_cast<int>(i) % schedule.microbatches;
    const char* missing = !progress[i].forward    ? "forward"
                          : !progress[i].backward ? "backward"
                          : !progress[i].weight   ? "weight gradient"
                                                  : nullptr;
    if (missing != nullptr) {
      fail("schedule: stage ", stage, " has no ", missing, " of microbatch ", microbatch);
    }
  }
}

}  // namespace

void validate(const Schedule& schedule) {
  validate_shape(schedule);
  std::vector<Progress> progress(static_cast<std::size_t>(schedule.stages) *
                                 static_cast<std::size_t>(schedule.microbatches));
  for (std::size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Instruction& instruction : schedule.devices[device]) {
      validate_place(schedule, instruction, static_cast<int>(device));
      const int index = instruction.stage * schedule.microbatches + instruction.microbatch;
      advance(progress[static_cast<std::size_t>(index)], instruction);
    }
  }
  require_complete(schedule, progress);
}

std::vector<int> peak_in_flight(const Schedule& schedule, bool until_input) {
  const Op split_release = until_input ? Op::backward_input : Op::backward_weight;
  std::vector<int> peaks;
  for (const std::vector<Instruction>& order : schedule.devices) {
    int held = 0;
    int peak = 0;
    for (const Instruction& instruction : order) {
      if (instruction.op == Op::forward) peak = std::max(peak, ++held);
      if (instruction.op == Op::backward || instruction.op == split_release) --held;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace stagecraft
