#include "simulator/schedules/shape.hpp"

#include "profiles/error.hpp"

namespace stagecraft {

void require_positive_counts(std::string_view schedule, const ScheduleShape& shape) {
  const auto require_positive = [&](std::string_view what, int count) {
    if (count < 1) {
      fail_usage(schedule, ": the number of ", what, " must be at least 1, not ", count);
    }
  };
  require_positive("devices", shape.devices);
  require_positive("microbatches", shape.microbatches);
  require_positive("virtual stages", shape.virtual_stages);
  if (shape.decode_steps != 0 && schedule != "inference") {
    fail_usage(schedule, ": trains, so it has no decode steps; leave them away, or use inference");
  }
}

void require_counts(std::string_view schedule, const ScheduleShape& shape) {
  require_positive_counts(schedule, shape);
  refuse_pipes(schedule, shape);
  refuse_sequence_chunks(schedule, shape);
}

void refuse_virtual_stages(std::string_view schedule, const ScheduleShape& shape,
                           std::string_view instead) {
  if (shape.virtual_stages == 1) return;
  fail_usage(schedule, ": each device holds one stage, so virtual stages must be 1, not ",
             shape.virtual_stages, "; ", instead, " takes more");
}

void refuse_group(std::string_view schedule, const ScheduleShape& shape) {
  if (!shape.group) return;
  fail_usage(schedule, ": has no microbatch groups; leave the group away, or use interleaved");
}

void refuse_warm_up(std::string_view schedule, const ScheduleShape& shape) {
  if (shape.warm_up.empty()) return;
  fail_usage(schedule, ": has no warm-up to choose; leave it away, or use 1f1b");
}

void require_warm_up(std::string_view schedule, const ScheduleShape& shape) {
  const std::vector<int>& warm_up = shape.warm_up;
  if (warm_up.empty()) return;
  if (warm_up.size() != static_cast<std::size_t>(shape.devices)) {
    fail_usage(schedule, ": the warm-up lists ", warm_up.size(), " devices; expected ",
               shape.devices);
  }
  for (std::size_t r = 0; r < warm_up.size(); ++r) {
    if (warm_up[r] < 1) {
      fail_usage(schedule, ": the warm-up of device ", r, " must be at least 1, not ", warm_up[r]);
    }
    if (r > 0 && warm_up[r] > warm_up[r - 1]) {
      fail_usage(schedule, ": the warm-up must not grow along the pipeline, but device ", r,
                 " has ", warm_up[r], " after ", warm_up[r - 1],
                 "; nearest legal value: ", warm_up[r - 1]);
    }
  }
}

void refuse_pipes(std::string_view schedule, const ScheduleShape& shape) {
  if (!shape.pipes) return;
  fail_usage(schedule, ": has no copies of the model to choose; leave the pipes away, or use ",
             "chimera");
}

void refuse_sequence_chunks(std::string_view schedule, const ScheduleShape& shape) {
  if (shape.sequence_chunks == 1) return;
  fail_usage(schedule, ": sequences pass whole, so sequence chunks must be 1, not ",
             shape.sequence_chunks, "; seq1f1b takes more");
}

void refuse_in_flight(std::string_view schedule, const ScheduleShape& shape,
                      std::string_view instead) {
  if (!shape.in_flight) return;
  fail_usage(schedule, ": has no memory to choose; leave the microbatches in flight away, or use ",
             instead);
}

int require_in_flight(std::string_view schedule, const ScheduleShape& shape) {
  const int in_flight = shape.in_flight.value_or(shape.devices);
  if (in_flight >= 1) return in_flight;
  fail_usage(schedule, ": each device needs memory for at least 1 microbatch in flight, not ",
             in_flight);
}

void require_hints(std::string_view schedule, const ScheduleShape& shape) {
  const ScheduleHints& hints = shape.hints;
  for (const Duration time :
       {hints.forward, hints.backward_input, hints.backward_weight, hints.transfer}) {
    if (time < Duration{0}) {
      fail_usage(schedule, ": a duration must be at least 0, not ", time.count(), "ns");
    }
  }
  if (hints.saved < 1 || hints.saved_for_weight < 0 || hints.saved_for_weight > hints.saved) {
    fail_usage(schedule, ": of ", hints.saved, " bytes of activations, ", hints.saved_for_weight,
               " cannot stay for the weight gradient");
  }
}

void require_two_virtual_stages(std::string_view schedule, const ScheduleShape& shape) {
  if (shape.virtual_stages == 2) return;
  fail_usage(schedule, ": each device holds a stage of the way down and one of the way up, so ",
             "virtual stages must be 2, not ", shape.virtual_stages);
}

Schedule empty_schedule(std::string_view name, const ScheduleShape& shape,
                        StagePlacement placement) {
  Schedule schedule{.name = std::string(name),
                    .stages = shape.devices * shape.virtual_stages,
                    .microbatches = shape.microbatches};
  for (int stage = 0; stage < schedule.stages; ++stage) {
    schedule.device_of_stage.push_back(device_of_stage(placement, stage, shape.devices));
  }
  schedule.devices.resize(static_cast<std::size_t>(shape.devices));
  return schedule;
}

}  // namespace stagecraft
