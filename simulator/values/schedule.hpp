// A schedule: for each pipeline device, the order of its compute instructions. No times and no
// communication.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/units.hpp"
#include "simulator/values/instruction.hpp"

namespace stagecraft {

/// Hints for automatic schedules: times of a whole device for one microbatch. Only ratios matter.
struct ScheduleHints {
  Duration forward{1'000};
  Duration backward_input{1'000};
  Duration backward_weight{1'000};
  Duration transfer{0};
  Bytes saved = 1;             ///< memory that a forward keeps until I …
  Bytes saved_for_weight = 1;  ///< … and the part of it that stays until W
  bool operator==(const ScheduleHints&) const = default;
};

/// Which weights a microbatch meets, and when they are updated.
enum class WeightPolicy {
  flush,          ///< one update at the end; every microbatch meets the weights before it
  stashing,       ///< PipeDream: an update after each `update_every` microbatches; a forward uses
                  ///< the newest weights of its device, and its backward the same. With round-robin
                  ///< replicas, an update after that many of each replica (1F1B-RR)
  vertical_sync,  ///< PipeDream: as stashing, but every device uses the version that the first
                  ///< one used for the microbatch's forward
  double_buffered,  ///< PipeDream-2BW: batch t (of `update_every` microbatches) is computed with
                    ///< the version before the newest, max(t - 1, 0)
};
/// "flush", "stashing", "vertical_sync", "double_buffered".
std::string_view to_string(WeightPolicy policy);
WeightPolicy read_weight_policy(std::string_view name);

/// The parameters of a schedule. A *pipeline device* stands for all replicas and tensor-parallel
/// peers of its stages.
struct ScheduleShape {
  int devices = 1;         ///< pipeline devices, p
  int microbatches = 1;    ///< per iteration, m
  int virtual_stages = 1;  ///< stages on each device, v; stages = devices * virtual_stages
  std::optional<int>
      group;  ///< interleaved: microbatches in a row per virtual stage, N; default: devices
  std::vector<int> warm_up;  ///< 1f1b, pipedream, pipedream-2bw: forwards before the first
                             ///< backward of each device, K(r); default: the schedule's own
  std::optional<int> in_flight = {};  ///< automatic: microbatches each device has memory for;
                                      ///< default: devices
  ScheduleHints hints = {};           ///< automatic
  int sequence_chunks = 1;            ///< seq1f1b: pieces of each sequence, K
  std::optional<int> pipes = {};      ///< chimera: copies of the model, even; default: 2
  int decode_steps = 0;               ///< inference: passes of each microbatch after the first
  bool operator==(const ScheduleShape&) const = default;
};

struct Schedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;                           ///< number of microbatches of each pipe
  std::vector<int> device_of_stage;               ///< the pipeline device of each stage
  std::vector<std::vector<Instruction>> devices;  ///< instructions of each pipeline device, in
                                                  ///< order

  /// Complete copies of the model, each with its own microbatches. Stages are numbered copy by
  /// copy: stage s and stage s + stages / pipes hold the same layers.
  int pipes = 1;
  /// Pieces of a sequence that pass one after the other: "microbatch" k counts pieces, and is piece
  /// k mod sequence_chunks of its sequence. Forwards need the pieces before them, backwards those
  /// behind.
  int sequence_chunks = 1;
  /// An instruction is about 1/parts of a microbatch of the shape: a piece of its sequences, or
  /// half of its samples.
  int parts = 1;
  /// Positions i on each device, ascending: instructions i (F) and i + 1 (B) of different
  /// microbatches or stages run as one, overlapped. Empty: none.
  std::vector<std::vector<int>> fused = {};
  bool trains = true;  ///< without, there are forwards only
  /// For forward-only schedules: the first stage's F of microbatch k + feedback needs the last
  /// stage's F of k, since a generated token is the next input. 0: no feedback.
  int feedback = 0;
  WeightPolicy weights = WeightPolicy::flush;
  int update_every = 0;  ///< microbatches per update without a flush; see `update_interval` for
                         ///< round-robin replicas
  bool operator==(const Schedule&) const = default;
};

inline int stages_per_pipe(const Schedule& schedule) {
  return schedule.stages / schedule.pipes;
}

/// The device that keeps what this one evicts, and the other way round: its mirror image.
inline int partner_of(const Schedule& schedule, int device) {
  return static_cast<int>(schedule.devices.size()) - 1 - device;
}

/// Throws Error (input) unless each stage does each microbatch's forward and backward (B, or I and
/// W) exactly once on its own device, with F before B or I, I before W, and R (if any) between F
/// and its backward. What is evicted is loaded again before its backward. Weights that are not
/// flushed are updated by whole batches, which each stage finishes one after the other. Pieces of a
/// sequence go forward in order, and backward in reverse; the copies of a stage are on different
/// devices; fused pairs are an F and a B that need nothing of each other.
void validate(const Schedule& schedule);

/// Forwards that have started and whose backward has not, at most, on each device, in units of
/// stages: an order-only count, so that plans can be costed without a clock. B and I release when
/// `until_input`, else B and W; without backwards F itself does. What is evicted counts on the
/// partner.
std::vector<int> peak_in_flight(const Schedule& schedule, bool until_input = true);

}  // namespace stagecraft
