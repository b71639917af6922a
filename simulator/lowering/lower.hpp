// Lowering: from a schedule to a program, one chain of named passes for every schedule.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "simulator/values/program.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

/// How the samples of a microbatch meet the replicas of a stage.
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

/// Of a chunk's parameters, gradients and optimizer, what belongs to experts, which replicas may
/// hold different ones of.
struct ExpertMemory {
  Bytes parameters = 0;
  Bytes gradients = 0;
  Bytes optimizer = 0;
  bool operator==(const ExpertMemory&) const = default;
};

/// Bytes of one chunk: resident ones once, the others for its share (rows) of one microbatch.
struct ChunkMemory {
  Bytes parameters = 0;
  Bytes gradients = 0;
  Bytes optimizer = 0;         ///< these three whole; of what is sharded the chunk keeps its share,
                               ///< rounded up
  ExpertMemory experts = {};   ///< of these three
  Bytes saved = 0;             ///< from F to B (or I); with full recomputation from R to B
  Bytes saved_for_weight = 0;  ///< the part that stays from I to W
  Bytes input = 0;   ///< the stage's input: kept from arrival (or the local producer) to B (or W)
  Bytes output = 0;  ///< from F until its sends have ended
  Bytes workspace = 0;  ///< while computing
  // Known where a run traces its layers, and left out of estimates:
  Bytes saved_throughout = 0;  ///< on top of `saved`: from F (or R) to B, or to W if that is apart
  /// Of one piece of a sequence, but the last: what later pieces look at, from F until R has made
  /// it again (without recomputation it is part of `saved`), and its gradient as far as later
  /// pieces have found it, from the last one's B (or I) to its own.
  Bytes past = 0;
  Bytes past_gradients = 0;
  /// Of a forward whose results are not kept; else `saved` and `workspace` together.
  std::optional<Bytes> forward_alone;
  /// W reads the output's gradient, too, which is no part of `saved_for_weight`.
  bool weight_reads_output_gradient = false;
  /// Else the input is gone when F has handed it on.
  bool keeps_input = true;
  bool operator==(const ChunkMemory&) const = default;
};

/// What one of `holders` keeps of parameters, gradients and optimizer under this sharding, of
/// experts one of `expert_holders`: each share is rounded up. The shares stand in for the whole.
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
  /// Per stage, the program device of each replica; empty: one replica, program device = pipeline
  /// device. Stages of one pipeline device must have the same replicas.
  std::vector<std::vector<int>> replicas;
  ReplicaPolicy replica_policy = ReplicaPolicy::split;
  /// Samples of a microbatch; under `split` at least as many as any stage has replicas.
  int rows = 1;
  std::vector<Recompute> recompute;  ///< per stage; empty: none
  /// Per stage, whether it only hands on what it gets, both ways: it has no weights, so nothing is
  /// summed, updated or recomputed there. Empty: none does.
  std::vector<bool> passes_on = {};
  std::vector<std::vector<ChunkMemory>> memory;  ///< [stage][replica]; empty: no buffers at all
  /// Per stage, bytes a whole microbatch hands to the next stage; empty: zeros.
  std::vector<Bytes> boundary;
  std::vector<StageTie> ties;
  /// Over the replicas of a stage and of its copies in other pipes; nothing where there is one.
  Sharding sharding = Sharding::none;
  /// Only for schedules that flush.
  GradientNorm norm = GradientNorm::none;
  /// Data-parallel copies of everything described here, all alike, of which the program is the
  /// first: its collectives have members in every column, and shards are of all of them. Rows,
  /// microbatches and boundaries are those of one column. Not together with a norm.
  int columns = 1;
  /// Per stage, how many hold each of its experts, in all columns; empty: as many as hold the
  /// stage.
  std::vector<int> expert_holders = {};
  /// Whether buffers get offsets. Without them the program takes as long and has the same peaks,
  /// but nobody can run it.
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

/// What an instruction takes in the run by which the global order of communication is made
/// (simulator/lowering/order.cpp).
std::int64_t nominal_time(Op op);

}  // namespace stagecraft
