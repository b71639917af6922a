// A program: a schedule with everything explicit. It is what `check` judges, `simulate` puts on a
// clock, and the executor carries out, so that a predicted and a measured timeline speak about the
// same instructions.
//
//   schedule      F0.0 F0.1 B0.0 …                     order of compute, per pipeline device
//      │ lower    place · transfers · recompute · reductions · updates · buffers · waits · order of
//      communication
//   program       F0.0 SF0.0 F0.1 SF0.1 RB0.0 B0.0 …   per device; each knows its lane, what it
//   waits for, allocates, frees
//
// Tables are flat and refer to each other by index: cost tables are parallel to `chunks`,
// `channels` and `groups`, so a change of costs never touches the program.

#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "profiles/units.hpp"
#include "simulator/values/instruction.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// Engines of a device that work side by side; one lane does one thing at a time, in issue order.
enum class Lane : std::uint8_t { compute, send, receive, collective };
inline constexpr std::array lanes{Lane::compute, Lane::send, Lane::receive, Lane::collective};
std::string_view to_string(Lane lane);
Lane lane_of(Op op);

enum class MemoryCategory : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  weight_versions,
  activations,
  transfer,
  workspace,
  reserve  ///< nothing of the program: what the framework takes (`Program::reserve`)
};
inline constexpr std::array memory_categories{
    MemoryCategory::parameters,      MemoryCategory::gradients,   MemoryCategory::optimizer,
    MemoryCategory::weight_versions, MemoryCategory::activations, MemoryCategory::transfer,
    MemoryCategory::workspace,       MemoryCategory::reserve};
std::string_view to_string(MemoryCategory category);
/// Bytes by category, in the order of `memory_categories`.
using MemoryUse = std::array<Bytes, memory_categories.size()>;
Bytes total(const MemoryUse& use);

/// Half open, [first, end).
struct IndexRange {
  int first = 0;
  int end = 0;
  int size() const { return end - first; }
  bool operator==(const IndexRange&) const = default;
};

/// One replica of a stage on its device.
struct Chunk {
  int stage = 0;
  int device = 0;
  int replica = 0;
  int replicas = 1;  ///< how many the stage has
  IndexRange rows;  ///< its samples of every microbatch it works on (all of them under round_robin)
  bool passes_on = false;  ///< see LowerOptions
  bool operator==(const Chunk&) const = default;
};

/// The contents of messages.
enum class Cargo : std::uint8_t {
  activation,
  gradient,
  evicted,     ///< saved activations, on the way to a partner's memory or back
  norm,        ///< the squares of the gradients of the devices so far
  validation,  ///< the norm of all gradients, on its way back
};
std::string_view to_string(Cargo cargo);  ///< "activations", "gradients", "evicted activations", …

/// Messages of one kind from one chunk to another (on another device).
struct Channel {
  int from = 0;  ///< chunk
  int to = 0;    ///< chunk
  Cargo cargo = Cargo::activation;
  IndexRange rows;  ///< the samples of the microbatch each message carries; none of a norm
  Bytes bytes = 0;  ///< bytes of each message
  bool operator==(const Channel&) const = default;
};

/// Chunks that take part in one collective operation; results are sums in the order of this list.
struct Group {
  Op op = Op::reduce_gradient;
  std::vector<int> chunks;
  Bytes bytes = 0;  ///< summed per member; gathered: of the whole
  bool operator==(const Group&) const = default;
};

/// The role of a buffer for its chunk.
enum class BufferRole : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  input,  ///< the stage's input; for a stage fed on its own device this is also the producer's
          ///< output
  saved,  ///< activations that the forward saves for the backward
  saved_throughout,  ///< the part of it that the weight gradient needs, too
  saved_for_weight,  ///< tensors that the input gradient leaves for the weight gradient
  past,              ///< tensors that later pieces of the sequence read, if the other activations
                     ///< are not kept
  past_gradients,    ///< gradient of those tensors
  evicted,           ///< activations of a partner, while this device keeps them
  output,            ///< the stage's output, until it is sent
  output_gradient,   ///< arrives for the backward; from a next stage on the same device it is that
                     ///< one's input gradient
  input_gradient,    ///< the backward's result, until it is sent
  workspace,         ///< while one instruction computes
};
inline constexpr std::size_t buffer_roles = static_cast<std::size_t>(BufferRole::workspace) + 1;
std::string_view to_string(BufferRole role);

/// A piece of one device's memory: `offset` bytes into its arena.
struct Buffer {
  int device = 0;
  MemoryCategory category = MemoryCategory::activations;
  Bytes bytes = 0;
  Bytes offset = 0;
  BufferRole role = BufferRole::input;
  int chunk = 0;
  int microbatch = 0;  ///< zero for parameters, gradients and optimizer
  bool operator==(const Buffer&) const = default;
};

/// A lowered instruction.
struct Work {
  Instruction instruction;
  int chunk = 0;
  Lane lane = Lane::compute;
  std::optional<int> channel;  ///< channel of sends and receives
  /// Group of collectives. A collective starts when its work on every member is ready.
  std::optional<int> group;
  std::optional<int> fused_with;  ///< the other half of a fused pair: both start when both are
                                  ///< ready, and end together
  int weight_version = 0;  ///< compute: the version it reads, counted from the program's start;
                           ///< update: the one it makes; gather: the one it collects
  IndexRange waits;  ///< in Program::waits: work that must have ended; a receive waits for its send
                     ///< to *start*, and a give-back is asked for: it waits for all its load does
  IndexRange allocates;  ///< in Program::allocations: buffers whose life begins when it starts
  IndexRange frees;      ///< in Program::releases: buffers whose life ends when it ends
  bool operator==(const Work&) const = default;
};

/// How optimizer state is spread over the chunks that hold the same layers.
enum class Sharding : std::uint8_t {
  none,
  zero1,  ///< each keeps and updates its share (ZeRO-1, Rajbhandari et al. 2020, optimizer states
          ///< only): gradients are reduce-scattered, updated parameters gathered
  zero2,  ///< sums of gradients, too: each microbatch's are scattered in its backward, so that the
          ///< reduce-scatter before an update only waits for the last of them
  zero3,  ///< parameters, too (FSDP): they are gathered in each forward and backward, so that there
          ///< is nothing left to gather after an update
};
inline constexpr std::array shardings{Sharding::none, Sharding::zero1, Sharding::zero2,
                                      Sharding::zero3};
/// Whether each microbatch's gradients are scattered on their own.
inline bool shards_gradients(Sharding sharding) {
  return sharding == Sharding::zero2 || sharding == Sharding::zero3;
}
std::string_view to_string(Sharding sharding);  ///< "none", "zero1", "zero2", "zero3"
Sharding read_sharding(std::string_view name);

/// Who knows the norm of all gradients before an update, to clip them or to skip a step that is not
/// finite.
enum class GradientNorm : std::uint8_t {
  none,
  global,          ///< every device: a small all-reduce stands before every update
  post_validated,  ///< no device waits: updates use the norm of the devices before theirs, and are
                   ///< validated while the next step warms up (Qi et al. 2024, section 4)
};
std::string_view to_string(GradientNorm norm);  ///< "none", "global", "post-validated"
GradientNorm read_gradient_norm(std::string_view name);

/// In the next iteration `work` waits until this iteration's `on` has ended; both on one device.
struct CarriedWait {
  int work = 0;
  int on = 0;
  bool operator==(const CarriedWait&) const = default;
};

/// Microbatches that a program leaves out, because they do what those before the drain do: its
/// times are those of the longer one, with what repeats counted (engines/repeats.hpp).
struct LeftOut {
  int microbatches = 0;  ///< left-out microbatches of each pipe, counted as in
                         ///< `Program::microbatches`
  int unit = 1;          ///< the period of the order in microbatches; divides their number
  int first = 0;         ///< microbatches [first, end) are where it does
  int end = 0;
  int in_flight = 1;  ///< microbatches at once, at most
  bool operator==(const LeftOut&) const = default;
};

struct Program {
  int devices = 0;
  int stages = 0;
  int microbatches = 0;  ///< of each pipe
  /// Microbatches that the program leaves out; nothing: the program is complete.
  std::optional<LeftOut> left_out = {};
  int pipes = 1;  ///< see Schedule, as for the next five
  int sequence_chunks = 1;
  bool trains = true;
  int feedback = 0;
  WeightPolicy weights = WeightPolicy::flush;
  /// Per stage: microbatches per update; empty with a flush. It is the schedule's number, or a
  /// round under stashing with round-robin replicas, so that each replica has its part.
  std::vector<int> update_every;
  Sharding sharding = Sharding::none;
  /// Data-parallel copies of all devices here, this one counted: members of its collectives that
  /// are not part of the program.
  int columns = 1;
  GradientNorm norm = GradientNorm::none;
  std::vector<Chunk> chunks;
  std::vector<Channel> channels;
  std::vector<Group> groups;
  std::vector<Buffer> buffers;
  std::vector<int> resident;  ///< buffers that live as long as the program
  std::vector<Bytes> arena;   ///< bytes each device's arena needs
  /// Bytes of each device, beside the arena, that are taken all the time; empty: none.
  std::vector<Bytes> reserve;
  std::vector<Work> work;
  std::vector<std::vector<int>> order;  ///< per device: indices of `work` in issue order, all lanes
  std::vector<int> waits;
  std::vector<CarriedWait> carried;  ///< ascending by work; in the first iteration nothing waits
  std::vector<int> allocations;
  std::vector<int> releases;
  bool operator==(const Program&) const = default;
};

/// Indices as a view.
inline const int* begin_of(const std::vector<int>& table, IndexRange range) {
  return table.data() + range.first;
}
inline const int* end_of(const std::vector<int>& table, IndexRange range) {
  return table.data() + range.end;
}

/// "SF0.3 on device 1 (stage 0, replica 1)": for messages. The replica is left out where the stage
/// has one.
std::string describe(const Program& program, int work, const std::vector<int>& device_names = {});

}  // namespace stagecraft
