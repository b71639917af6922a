// A checkpoint: all that training has come to after a step, in a folder, independent of the plan.
//
//   DIR/step-000123/   manifest.json   what is where, with hashes; the example opens
//                                      checkpoints/manifest.cpp
//                      rank-0.bin …    one file of each rank that had something to write, raw
//
// Every rank writes what it holds, of n copies of a layer each the n-th part; nobody collects the
// model. Any other plan reads the elements it needs from wherever they are. Between steps all
// programs are drained: whatever the weight policy, nothing but the newest version of the weights
// and the optimizer's moments goes on.

#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/layers/layer.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft {

struct Training;
class SystemCalls;

/// How far training has come, since it began.
struct TrainingPosition {
  int steps = 0;
  std::int64_t samples = 0;  ///< the next step begins with the sample of this index
  int updates = 0;           ///< of each weight that has no number of its own (`StoredState`)
  bool operator==(const TrainingPosition&) const = default;
};

/// What there is of every weight.
enum class StateKind { weight, first_moment, second_moment };
std::string_view to_string(StateKind kind);  ///< "weight", "first_moment", "second_moment"

/// Some elements of a weight: of a tensor-parallel peer's part of it, or else of the whole, the
/// elements [first, end) in row-major order.
struct WeightSlice {
  std::optional<WeightShard> shard;
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t elements() const { return end - first; }
};

/// A slice in a file of the folder.
struct StoredSlice {
  WeightSlice slice;
  std::string file;
  std::int64_t offset = 0;  ///< bytes
  std::string hash;         ///< "xxh3:…" of its bytes
};

/// Weights are stored once, by canonical name, whether tied or not; where layers compute with their
/// rounding to 16 bits, what they are rounded from.
struct StoredState {
  std::string name;
  StateKind kind = StateKind::weight;
  Precision precision = Precision::float32;
  std::vector<std::int64_t> shape;  ///< of the whole weight
  std::vector<StoredSlice> slices;  ///< each element is in exactly one
  int updates = 0;  ///< of the weight: fewer than others where replicas took turns between them
};

struct Checkpoint {
  std::filesystem::path folder;
  std::string model;   ///< its name
  std::string shapes;  ///< "xxh3:…" of the names and shapes of its weights
  std::string plan;    ///< "xxh3:…" of the plan that wrote it
  WeightPolicy weights = WeightPolicy::flush;
  TrainingPosition position;
  std::uint64_t seed = 1;
  std::string data_source;  ///< as a dataset calls itself
  std::string data;         ///< "xxh3:…" of its samples
  OptimizerKind optimizer = OptimizerKind::adamw;
  AdamW adamw;
  Sgd sgd;
  std::vector<StoredState> states;
};

/// Reads the checkpoint in this folder, or the latest complete one of a folder of checkpoints.
/// Throws Error (input) unless there is one whose manifest is whole and whose files are as long as
/// it says. What is in the files is read, and compared with its hashes, where it is used.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// Reads all of it. Throws Error (input) if something in its files is not what was written.
void require_whole(const Checkpoint& checkpoint);

/// The newest checkpoint of a folder of them of which every byte is what was written. One that has
/// lost its manifest is damaged, too.
struct WholeCheckpoint {
  std::optional<std::filesystem::path> folder;  ///< nothing if there is none
  std::vector<std::string> problems;            ///< what is wrong with each newer one, newest first
};
WholeCheckpoint newest_whole_checkpoint(const std::filesystem::path& folder);

/// "ck: all 3 of its checkpoints are damaged; the newest: …": where there are several, and none is
/// whole; otherwise empty.
std::string all_are_damaged(const std::filesystem::path& folder, const WholeCheckpoint& found);

/// The steps of the complete checkpoints in a folder of checkpoints, ascending; of unfinished ones,
/// none.
std::vector<int> checkpointed_steps(const std::filesystem::path& folder);
/// The folder of the last of them.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder);

/// Throws Error (input) unless this training can go on from there as if it had never stopped: the
/// same weights, precision, optimizer, samples and seed.
void require_resumable(const Checkpoint& checkpoint, const Training& training);

/// How often the weight has been updated. Throws Error (input) if there is none of this name.
int updates_of(const Checkpoint& checkpoint, std::string_view name);

/// These elements of a weight's state, in their order, in memory that belongs to no backend. Throws
/// Error (input) if they are not all there, or their bytes are not those that were written.
Tensor read_state(const Checkpoint& checkpoint, std::string_view name, StateKind kind,
                  const WeightSlice& wanted);

/// When checkpoints are written, and where to.
struct CheckpointOptions {
  std::filesystem::path folder;  ///< empty: none are written
  int every = 0;                 ///< steps; 0: only when the run ends
  int keep = 2;                  ///< older ones are removed
  /// The largest slice: what is hashed, and read, in one go.
  Bytes slice_bytes = 16 << 20;
  SystemCalls* calls = nullptr;  ///< what writes files; null: the system's own
};

struct WrittenCheckpoint {
  int step = 0;  ///< since training began
  Bytes bytes = 0;
  Duration time{0};  ///< until it was safe on disk
};

}  // namespace stagecraft
