// Lowering: converts a schedule to a program, by one chain of named passes for every schedule.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "simulator/values/program.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// How the samples of a microbatch are distributed over the replicas of a stage.
enum class ReplicaPolicy {
  split,  ///< each replica takes its rows of every microbatch (DAPPLE); unequal counts exchange
          ///< slices
  round_robin,  ///< replica k mod r takes microbatch k whole (PipeDream)
};
std::string_view to_string(ReplicaPolicy policy);  ///< "split", "round_robin"
ReplicaPolicy read_replica_policy(std::string_view name);

enum class Recompute {
  none,
  full
};  ///< full: only the stage's input is kept; R runs right before B, after B's gradient has arrived
std::string_view to_string(Recompute recompute);
Recompute read_recompute(std::string_view name);

/// The experts' part of a chunk's parameters, gradients and optimizer states; replicas may hold
/// different experts.
struct ExpertMemory {
  Bytes parameters = 0;
  Bytes gradients = 0;
  Bytes optimizer = 0;
  bool operator==(const ExpertMemory&) const = default;
};

/// Bytes of one chunk: resident memory, and memory for its share (rows) of one microbatch.
struct ChunkMemory {
  Bytes parameters = 0;
  Bytes gradients = 0;
  Bytes optimizer = 0;         ///< `parameters`, `gradients` and `optimizer` are whole; of sharded
                               ///< ones the chunk keeps its share, rounded up
  ExpertMemory experts = {};   ///< the experts' part of these three
  Bytes saved = 0;             ///< from F to B (or I); with full recomputation from R to B
  Bytes saved_for_weight = 0;  ///< the part of `saved` that stays from I to W
  Bytes input = 0;   ///< the stage's input: kept from arrival (or the local producer) to B (or W)
  Bytes output = 0;  ///< from F until its sends have ended
  Bytes workspace = 0;  ///< while computing
  // Known only from runs that trace layers; estimates leave these out:
  Bytes saved_throughout = 0;  ///< on top of `saved`: from F (or R) to B, or to W if that is apart
  /// For each piece of a sequence but the last: bytes that later pieces read, from F until R has
  /// recomputed them (without recomputation they are part of `saved`), and their gradient,
  /// accumulated from the last piece's B (or I) to its own.
  Bytes past = 0;
  Bytes past_gradients = 0;
  /// Peak of a forward whose results are not kept; nothing: `saved` plus `workspace`.
  std::optional<Bytes> forward_alone;
  /// Whether W also reads the output's gradient, which is not part of `saved_for_weight`.
  bool weight_reads_output_gradient = false;
  /// False: the input is freed at the end of F.
  bool keeps_input = true;
  bool operator==(const ChunkMemory&) const = default;
};

/// The memory of one of `holders` under this sharding, and of one of `expert_holders` for experts:
/// each share of parameters, gradients and optimizer states is rounded up, and replaces the whole.
ChunkMemory shard_of(ChunkMemory memory, Sharding sharding, int holders, int expert_holders);

/// `owner` and `user` are stages of the first pipe that hold the same weights (and so do their
/// copies in others); their gradients are summed, owner's first.
struct StageTie {
  int owner = 0;
  int user = 0;
  Bytes bytes = 0;
  bool operator==(const StageTie&) const = default;
};

struct LowerOptions {
  /// Per stage, the program device of each replica; empty: one replica each, on program device =
  /// pipeline device. Stages of one pipeline device must have the same replicas.
  std::vector<std::vector<int>> replicas;
  ReplicaPolicy replica_policy = ReplicaPolicy::split;
  /// Samples of a microbatch; under `split` at least as many as any stage has replicas.
  int rows = 1;
  std::vector<Recompute> recompute;  ///< per stage; empty: none
  /// Per stage, whether it is empty and only forwards messages in both directions: it has no
  /// weights, so nothing is summed, updated or recomputed there. Empty: no stage does.
  std::vector<bool> passes_on = {};
  std::vector<std::vector<ChunkMemory>> memory;  ///< [stage][replica]; empty: no buffers at all
  /// Per stage, bytes of a whole microbatch's message to the next stage; empty: zeros.
  std::vector<Bytes> boundary;
  std::vector<StageTie> ties;
  /// Sharding over the replicas of a stage and of its copies in other pipes; no effect with a
  /// single one.
  Sharding sharding = Sharding::none;
  /// Only for schedules that flush.
  GradientNorm norm = GradientNorm::none;
  /// Number of columns, identical data-parallel replicas of the whole pipeline. The program is that
  /// of the first column; its collectives have members in every column, and shards are over all of
  /// them. Rows, microbatches and boundaries are those of one column. Excludes a norm.
  int columns = 1;
  /// Per stage, the number of holders of each of its experts, over all columns; empty: the holders
  /// of the stage.
  std::vector<int> expert_holders = {};
  /// Whether buffers get offsets. Without them the program has the same times and peaks, but cannot
  /// be executed.
  bool places_buffers = true;
};

/// The passes, in order: place stages → recomputation → transfers → evictions → reductions → norm →
/// updates → versions → gathers → validation → order of communication (one global order, so that
/// nothing can deadlock even with blocking, unbuffered sends) → buffers and offsets → waits. Throws
/// Error (input) if the schedule is not valid or the options do not fit it (a device used twice,
/// fewer rows than replicas, …). A schedule whose own order is circular is lowered all the same:
/// `check` shows the cycle.
///
/// Work is numbered in the global order, so that waits look back and every issue order ascends.
Program lower(const Schedule& schedule, const LowerOptions& options = {});

/// Duration of an instruction in the nominal run that determines the global order of communication
/// (simulator/lowering/order.cpp).
std::int64_t nominal_time(Op op);

}  // namespace stagecraft
