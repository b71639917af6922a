// A checkpoint: the complete training state after a step, in a folder, independent of the plan.
//
//   DIR/step-000123/   manifest.json   what is where, with hashes; the example opens
//                                      checkpoints/manifest.cpp
//                      rank-0.bin …    one file of each rank that had something to write, raw
//
// Every rank writes its own part, each of n copies of a layer the n-th part; no rank collects the
// model. Any other plan can read the elements that it needs. Between steps all programs are
// drained, so under every weight policy the state is the newest version of the weights and the
// optimizer's moments.

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

/// The position in training since its beginning.
struct TrainingPosition {
  int steps = 0;
  std::int64_t samples = 0;  ///< index of the first sample of the next step
  int updates = 0;           ///< updates of every weight without its own number (`StoredState`)
  bool operator==(const TrainingPosition&) const = default;
};

/// The parts of the state of every weight.
enum class StateKind { weight, first_moment, second_moment };
std::string_view to_string(StateKind kind);  ///< "weight", "first_moment", "second_moment"

/// Elements [first, end) of a weight in row-major order, within a tensor-parallel peer's part or
/// within the whole.
struct WeightSlice {
  std::optional<WeightShard> shard;
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t elements() const { return end - first; }
};

/// A slice stored in a file of the folder.
struct StoredSlice {
  WeightSlice slice;
  std::string file;
  std::int64_t offset = 0;  ///< offset in bytes
  std::string hash;         ///< "xxh3:…" of its bytes
};

/// A stored weight or moment, by canonical name. Tied weights are stored once; if layers use a
/// rounding to 16 bits, the master weight is stored.
struct StoredState {
  std::string name;
  StateKind kind = StateKind::weight;
  Precision precision = Precision::float32;
  std::vector<std::int64_t> shape;  ///< shape of the whole weight
  std::vector<StoredSlice> slices;  ///< each element is in exactly one
  int updates = 0;  ///< updates of the weight; may be fewer than others' with updates per round of
                    ///< replicas
};

struct Checkpoint {
  std::filesystem::path folder;
  std::string model;   ///< name of the model
  std::string shapes;  ///< "xxh3:…": hash of the names and shapes of its weights
  std::string plan;    ///< "xxh3:…": hash of the plan that wrote it
  WeightPolicy weights = WeightPolicy::flush;
  TrainingPosition position;
  std::uint64_t seed = 1;
  std::string data_source;  ///< the dataset's own name
  std::string data;         ///< "xxh3:…": hash of its samples
  OptimizerKind optimizer = OptimizerKind::adamw;
  AdamW adamw;
  Sgd sgd;
  std::vector<StoredState> states;
};

/// Reads the checkpoint in this folder, or the latest complete one of a folder of checkpoints.
/// Throws Error (input) unless there is one with an intact manifest and files of the right length.
/// The contents of the files are only read, and compared with their hashes, when they are used.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// Reads the whole checkpoint. Throws Error (input) if a file's content differs from what was
/// written.
void require_whole(const Checkpoint& checkpoint);

/// The newest intact checkpoint of a folder of checkpoints. A checkpoint without its manifest
/// counts as damaged.
struct WholeCheckpoint {
  std::optional<std::filesystem::path> folder;  ///< nothing if there is none
  std::vector<std::string> problems;            ///< the damage of each newer one, newest first
};
WholeCheckpoint newest_whole_checkpoint(const std::filesystem::path& folder);

/// "ck: all 3 of its checkpoints are damaged; the newest: …" if there are several and none is
/// intact; else empty.
std::string all_are_damaged(const std::filesystem::path& folder, const WholeCheckpoint& found);

/// The steps of the complete checkpoints in a folder of checkpoints, ascending; unfinished ones are
/// left out.
std::vector<int> checkpointed_steps(const std::filesystem::path& folder);
/// The folder of the latest complete checkpoint.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder);

/// Throws Error (input) unless this training can continue from the checkpoint as if it had never
/// stopped: with the same weights, precision, optimizer, samples and seed.
void require_resumable(const Checkpoint& checkpoint, const Training& training);

/// Number of updates of the weight. Throws Error (input) if there is none with this name.
int updates_of(const Checkpoint& checkpoint, std::string_view name);

/// These elements of a weight's state, in their order, in process memory. Throws Error (input) if
/// some are missing, or if their bytes differ from those that were written.
Tensor read_state(const Checkpoint& checkpoint, std::string_view name, StateKind kind,
                  const WeightSlice& wanted);

/// Where and how often checkpoints are written.
struct CheckpointOptions {
  std::filesystem::path folder;  ///< empty: no checkpoints
  int every = 0;                 ///< interval in steps; 0: only at the end of the run
  int keep = 2;                  ///< number of checkpoints to keep; older ones are removed
  /// Maximum size of a slice, which is hashed and read at once.
  Bytes slice_bytes = 16 << 20;
  SystemCalls* calls = nullptr;  ///< system calls that write files; null: the system's own
};

struct WrittenCheckpoint {
  int step = 0;  ///< step since training began
  Bytes bytes = 0;
  Duration time{0};  ///< time until it was on disk
};

}  // namespace stagecraft
