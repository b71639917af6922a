// The passes of lowering, and the draft program that they work on. Internal to the simulator.

#pragma once

#include <optional>
#include <span>
#include <vector>

#include "profiles/index.hpp"
#include "simulator/lowering/lower.hpp"

namespace stagecraft::lowering {

/// `work` waits until `on` has ended; a receive only until its send has started.
struct Wait {
  int work = 0;
  int on = 0;
};

/// The works of one chunk for one microbatch. Empty if a replica does not process this microbatch.
struct Passage {
  std::optional<int> forward;
  std::optional<int> recompute;
  std::optional<int> backward;  ///< B or I
  std::optional<int> weight;    ///< W, if it is separate
  bool coupled = false;         ///< the recomputation waits for the gradient, as its backward does
};

/// Values grouped by key in one flat table: the values of key k are [ranges[k].first,
/// ranges[k].end), in the order of insertion.
struct Grouped {
  std::vector<IndexRange> ranges;
  std::vector<int> values;
};
struct KeyedValue {
  int key = 0;
  int value = 0;
};
Grouped group_by_key(const std::vector<KeyedValue>& rows, std::size_t keys);

/// A program under construction. Until `order_communication`, works are numbered in order of
/// creation.
struct Draft {
  const Schedule& schedule;
  const LowerOptions& options;
  Program program;
  std::vector<std::vector<int>> chunks_of_stage;     ///< by replica
  std::vector<std::vector<int>> compute;             ///< per device: compute work in order
  std::vector<Passage> passages;                     ///< see `passage`
  std::vector<Wait> waits;                           ///< in any order
  std::vector<std::vector<int>> gradients_complete;  ///< [place_of_update]: works that the chunk's
                                                     ///< update waits for
  std::vector<int> versions_held;  ///< per chunk: versions of its weights it needs at once, at most
  std::vector<KeyedValue> begins;  ///< (buffer, work): its life begins with the first of these
  std::vector<KeyedValue> ends;    ///< (buffer, work): and ends with the last of these
};

// --- The passes, in order -----------------------------------------------------------------------

/// Throws Error (input) unless the schedule is valid and the options fit it.
void require_fitting(const Schedule& schedule, const LowerOptions& options);

/// A chunk for every replica of every stage, and its compute work in the schedule's order.
Draft place_stages(const Schedule& schedule, const LowerOptions& options);

/// Inserts R right before B or I if a stage recomputes and the schedule does not place R.
void add_recomputation(Draft& draft);

/// Adds sends and receives between stages on different devices, and the waits for them.
void add_transfers(Draft& draft);

/// Adds the transfers of evicted activations to a partner's memory and back.
void add_evictions(Draft& draft);

/// Gradients summed over replicas and copies, then over tied stages.
void add_reductions(Draft& draft);

/// Adds the works that give updates the norm of all gradients.
void add_norm(Draft& draft);

/// The optimizer's steps of each chunk.
void add_updates(Draft& draft);

/// Which version of its weights each instruction meets, and how many a chunk must keep.
void name_versions(Draft& draft);

/// Sharded parameters collected after their updates.
void add_gathers(Draft& draft);

/// The norm of the iteration before, where updates did not wait for it.
void add_validation(Draft& draft);

/// Renumbers all work in one global order, and merges it into the devices' issue order.
void order_communication(Draft& draft);

/// Every buffer, with what begins and ends its life.
void add_buffers(Draft& draft);

/// A place in the arena for each; writes reuse between lanes down as waits.
void place_buffers(Draft& draft);

/// Writes the waits into the program's table.
void write_waits(Draft& draft);

// --- What several of them need ------------------------------------------------------------------

inline Passage& passage(Draft& draft, int chunk, int microbatch) {
  return draft.passages[index(chunk) * index(draft.program.microbatches) + index(microbatch)];
}
inline const Passage& passage(const Draft& draft, int chunk, int microbatch) {
  return draft.passages[index(chunk) * index(draft.program.microbatches) + index(microbatch)];
}

/// Appends work of this chunk, and returns its index.
int add_work(Draft& draft, Instruction instruction, int chunk);

/// Appends a group, and returns its index.
int add_group(Draft& draft, Op op, std::vector<int> chunks, Bytes bytes);

/// The chunk's part in one operation of the group.
int add_member(Draft& draft, int group, int chunk, int microbatch);

/// One message: `producers` → send → receive; returns the receive, which follows its send.
int add_message(Draft& draft, int channel, int microbatch, std::span<const int> producers);

inline void add_wait(Draft& draft, int work, int on) {
  draft.waits.push_back({work, on});
}

/// Whether the chunk takes part in the microbatch: always under `split`, in turn under
/// `round_robin` (with all pieces of a sequence).
bool takes_part(const Draft& draft, const Chunk& chunk, int microbatch);

/// The replicas of the stage that take part in the microbatch.
std::span<const int> working_chunks(const Draft& draft, int stage, int microbatch);

/// The microbatches that both take part in, ascending.
std::vector<int> common_microbatches(const Draft& draft, const Chunk& one, const Chunk& other);

/// Whether this is a receive's wait for its own send.
bool is_message(const Draft& draft, const Wait& wait);

/// Updates of each of the stage's chunks, and the microbatches of each: one of all of them when
/// weights are flushed.
int updates(const Program& program, int stage);
int update_interval(const Program& program, int stage);
/// Of any stage.
int most_updates(const Program& program);

/// Where tables of all chunks' updates have this one: `most_updates` entries for each chunk.
std::size_t place_of_update(const Draft& draft, int chunk, int update);

/// Whether this stage sends to stage + 1; the last stage of a copy does not.
inline bool hands_on(const Program& program, int stage) {
  return (stage + 1) % (program.stages / program.pipes) != 0;
}

/// All chunks that hold the same layers as this stage: its replicas, and those of its copies in
/// other pipes.
std::vector<int> chunks_of_copies(const Draft& draft, int stage);

/// How many hold this stage's layers: such chunks, in every column.
int holders(const Draft& draft, int stage);

/// How many of them hold each of its experts.
int expert_holders(const Draft& draft, int stage);

/// Whether the stage is empty and only forwards messages.
bool passes_on(const Draft& draft, int stage);

/// Whether several chunks hold this stage's layers, and each keeps a shard of the optimizer.
bool is_sharded(const Draft& draft, int stage);

/// Whether both stages live on the same pipeline device.
bool same_device(const Schedule& schedule, int stage, int other);

}  // namespace stagecraft::lowering
