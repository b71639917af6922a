#include "simulator/values/schedule.hpp"

#include <algorithm>
#include <cassert>

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
  bool evict = false;
  bool load = false;
  bool recompute = false;
  bool backward = false;  ///< B or I
  bool weight = false;    ///< B or W
};

void validate_shape(const Schedule& schedule) {
  if (schedule.stages < 1) fail("schedule: needs at least one stage");
  if (schedule.microbatches < 1) fail("schedule: needs at least one microbatch");
  if (schedule.pipes < 1 || schedule.stages % schedule.pipes != 0) {
    fail("schedule: ", schedule.stages, " stages cannot be ", schedule.pipes,
         " copies of the same ones");
  }
  if (schedule.sequence_chunks < 1 || schedule.microbatches % schedule.sequence_chunks != 0) {
    fail("schedule: ", schedule.microbatches, " pieces cannot be sequences of ",
         schedule.sequence_chunks);
  }
  if (schedule.device_of_stage.size() != static_cast<std::size_t>(schedule.stages)) {
    fail("schedule: places ", schedule.device_of_stage.size(), " of ", schedule.stages, " stages");
  }
  const int devices = static_cast<int>(schedule.devices.size());
  if (!schedule.fused.empty() && schedule.fused.size() != schedule.devices.size()) {
    fail("schedule: lists fused pairs of ", schedule.fused.size(), " of ", devices, " devices");
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const int device = schedule.device_of_stage[static_cast<std::size_t>(stage)];
    if (device < 0 || device >= devices) {
      fail("schedule: stage ", stage, " is placed on device ", device, " of ", devices);
    }
  }
}

/// Their gradients are summed between devices.
void validate_copies(const Schedule& schedule) {
  const int stages = stages_per_pipe(schedule);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int copy = stage + stages; copy < schedule.stages; copy += stages) {
      const int device = schedule.device_of_stage[static_cast<std::size_t>(stage)];
      if (schedule.device_of_stage[static_cast<std::size_t>(copy)] != device) continue;
      fail("schedule: stages ", stage, " and ", copy,
           " are copies of each other, but both on device ", device);
    }
  }
}

/// Whether one of the two needs what the other computes: they work on the same sequences in the
/// same copy.
bool depend(const Schedule& schedule, const Instruction& a, const Instruction& b) {
  return a.stage / stages_per_pipe(schedule) == b.stage / stages_per_pipe(schedule) &&
         a.microbatch / schedule.sequence_chunks == b.microbatch / schedule.sequence_chunks;
}

void validate_fused(const Schedule& schedule, std::size_t device) {
  const std::vector<Instruction>& order = schedule.devices[device];
  int free = 0;
  for (const int first : schedule.fused[device]) {
    const auto i = static_cast<std::size_t>(first);
    if (first < free || i + 1 >= order.size()) {
      fail("schedule: the fused pair at ", first, " of device ", device,
           " overlaps another, or has no second half");
    }
    const bool pair = order[i].op == Op::forward && order[i + 1].op == Op::backward;
    if (!pair || depend(schedule, order[i], order[i + 1])) {
      fail("schedule: ", to_string(order[i]), " and ", to_string(order[i + 1]), " on device ",
           device, " cannot be fused; expected an F and a B of different microbatches");
    }
    free = first + 2;
  }
}

void validate_place(const Schedule& schedule, const Instruction& instruction, int device) {
  const std::string name = to_string(instruction);
  const bool evicts = instruction.op == Op::evict || instruction.op == Op::load;
  if (instruction.op > Op::recompute && !evicts) {
    fail("schedule: device ", device, " lists ", name,
         "; only F, B, I, W, R, EV and LD belong in it");
  }
  if (instruction.op != Op::forward && !schedule.trains) {
    fail("schedule: device ", device, " lists ", name, ", but without training there is only F");
  }
  if (evicts && partner_of(schedule, device) == device) {
    fail("schedule: device ", device, " lists ", name, ", but has no partner to keep it");
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

void require_before_backward(const Progress& progress, const Instruction& instruction) {
  if (!progress.backward) return;
  fail("schedule: ", to_string(instruction), " comes after its backward");
}

void require_nothing_lost(const Progress& progress, const Instruction& instruction) {
  if (!progress.evict || !progress.recompute) return;
  fail("schedule: ", to_string(instruction), " is both evicted and recomputed");
}

void take_backward(Progress& progress, const Instruction& instruction) {
  const bool here = progress.load || !progress.evict;
  take(progress.backward, progress.forward && here, instruction,
       progress.forward ? "load" : "forward");
}

/// The piece of the same sequence whose forward (backward) comes before this one's.
std::optional<Instruction> piece_before(const Schedule& schedule, Instruction instruction) {
  const int piece = instruction.microbatch % schedule.sequence_chunks;
  const bool forward = instruction.op == Op::forward;
  if (piece == (forward ? 0 : schedule.sequence_chunks - 1)) return {};
  instruction.microbatch += forward ? -1 : 1;
  return instruction;
}

void advance(Progress& progress, const Instruction& instruction) {
  switch (instruction.op) {
    case Op::forward: take(progress.forward, true, instruction, ""); return;
    case Op::recompute:
      take(progress.recompute, progress.forward, instruction, "forward");
      require_nothing_lost(progress, instruction);
      return require_before_backward(progress, instruction);
    case Op::evict:
      take(progress.evict, progress.forward, instruction, "forward");
      require_nothing_lost(progress, instruction);
      return require_before_backward(progress, instruction);
    case Op::load:
      take(progress.load, progress.evict, instruction, "evict");
      return require_before_backward(progress, instruction);
    case Op::backward:
      take_backward(progress, instruction);
      take(progress.weight, true, instruction, "");
      return;
    case Op::backward_input: take_backward(progress, instruction); return;
    case Op::backward_weight:
      take(progress.weight, progress.backward, instruction, "input gradient");
      return;
    default: assert(false);  // validate_place has refused the rest
  }
}

/// Forwards pass what they have attended to on, backwards what is attended to their gradients.
void require_piece(const Progress& progress, const Instruction& before,
                   const Instruction& instruction) {
  const bool done = before.op == Op::forward ? progress.forward : progress.backward;
  const bool ordered =
      before.op == Op::forward || before.op == Op::backward || before.op == Op::backward_input;
  if (done || !ordered) return;
  fail("schedule: ", to_string(instruction), " comes before ", to_string(before),
       ", which the same sequence needs first");
}

void require_complete(const Schedule& schedule, const std::vector<Progress>& progress) {
  for (std::size_t i = 0; i < progress.size(); ++i) {
    const int stage = static_cast<int>(i) / schedule.microbatches;
    const int microbatch = static_cast<int>(i) % schedule.microbatches;
    const char* missing = !progress[i].forward    ? "forward"
                          : !schedule.trains      ? nullptr
                          : !progress[i].backward ? "backward"
                          : !progress[i].weight   ? "weight gradient"
                                                  : nullptr;
    if (missing != nullptr) {
      fail("schedule: stage ", stage, " has no ", missing, " of microbatch ", microbatch);
    }
  }
}

void validate_policy(const Schedule& schedule) {
  if (schedule.feedback < 0)
    fail("schedule: feeds back after ", schedule.feedback, " microbatches");
  if (schedule.trains && schedule.feedback > 0) {
    fail("schedule: trains, so no output can be the next input");
  }
  if (schedule.weights == WeightPolicy::flush) {
    if (schedule.update_every == 0) return;
    fail("schedule: flushes, so it cannot update every ", schedule.update_every, " microbatches");
  }
  if (!schedule.trains) fail("schedule: without training there are no updates");
  const int every = schedule.update_every;
  if (every >= 1 && schedule.microbatches % every == 0) return;
  fail("schedule: ", schedule.microbatches, " microbatches cannot be updated in batches of ",
       every);
}

/// The gradients of two batches must not mix: each stage finishes one batch after the other.
void validate_batches(const Schedule& schedule) {
  if (schedule.weights == WeightPolicy::flush) return;
  std::vector<int> finished(static_cast<std::size_t>(schedule.stages), 0);
  for (const auto& order : schedule.devices) {
    for (const Instruction& instruction : order) {
      if (instruction.op != Op::backward && instruction.op != Op::backward_weight) continue;
      int& count = finished[static_cast<std::size_t>(instruction.stage)];
      const int batch = count++ / schedule.update_every;
      if (instruction.microbatch / schedule.update_every == batch) continue;
      fail("schedule: ", to_string(instruction), " comes before batch ", batch,
           " is complete, whose update it would fall into");
    }
  }
}

}  // namespace

void validate(const Schedule& schedule) {
  validate_shape(schedule);
  validate_policy(schedule);
  validate_copies(schedule);
  std::vector<Progress> progress(static_cast<std::size_t>(schedule.stages) *
                                 static_cast<std::size_t>(schedule.microbatches));
  const auto progress_of = [&](const Instruction& instruction) -> Progress& {
    return progress[static_cast<std::size_t>(instruction.stage) *
                        static_cast<std::size_t>(schedule.microbatches) +
                    static_cast<std::size_t>(instruction.microbatch)];
  };
  for (std::size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Instruction& instruction : schedule.devices[device]) {
      validate_place(schedule, instruction, static_cast<int>(device));
      if (const auto before = piece_before(schedule, instruction)) {
        require_piece(progress_of(*before), *before, instruction);
      }
      advance(progress_of(instruction), instruction);
    }
  }
  require_complete(schedule, progress);
  validate_batches(schedule);
  for (std::size_t device = 0; device < schedule.fused.size(); ++device) {
    validate_fused(schedule, device);
  }
}

namespace {

/// What each device holds at most of its own, and of what it has evicted.
struct Holdings {
  std::vector<int> own;
  std::vector<int> away;
};

Holdings holdings_of(const Schedule& schedule, Op split_release) {
  Holdings most;
  for (const std::vector<Instruction>& order : schedule.devices) {
    int own = 0, away = 0, most_own = 0, most_away = 0;
    for (const Instruction& instruction : order) {
      const Op op = instruction.op;
      if (op == Op::evict) most_away = std::max(most_away, ++away);
      if (op == Op::load) --away;
      if (op == Op::forward || op == Op::load) most_own = std::max(most_own, ++own);
      const bool releases = op == Op::backward || op == split_release || op == Op::evict;
      if (releases || (op == Op::forward && !schedule.trains)) --own;
    }
    most.own.push_back(most_own);
    most.away.push_back(most_away);
  }
  return most;
}

}  // namespace

std::vector<int> peak_in_flight(const Schedule& schedule, bool until_input) {
  const Holdings most =
      holdings_of(schedule, until_input ? Op::backward_input : Op::backward_weight);
  std::vector<int> peaks;
  for (std::size_t device = 0; device < most.own.size(); ++device) {
    // Orders do not say when a partner's microbatches come: they may all be there at the peak.
    peaks.push_back(most.own[device] + most.away[most.away.size() - 1 - device]);
  }
  return peaks;
}

}  // namespace stagecraft
