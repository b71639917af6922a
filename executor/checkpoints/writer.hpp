// Writing checkpoints: all ranks together, through the file system.
//
//   rank 0   make the folder │ own file, fsync │ manifest, fsync, rename, fsync │
//   others                   │ own file, fsync ↗ what is where                  │ next step

#pragma once

#include <optional>
#include <vector>

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/checkpoints/folder_lock.hpp"
#include "executor/training/worker.hpp"
#include "executor/transports/transport.hpp"
#include "executor/weights/durable_file.hpp"

namespace stagecraft {

class CheckpointWriter {
 public:
  /// `about`: see `describe`. `leads`: this process has rank 0, which holds the folder for the run.
  /// Throws Error (input) if the folder cannot have checkpoints, or if another run's would be lost;
  /// Error (execution) if another run holds the folder.
  CheckpointWriter(Checkpoint about, const CheckpointOptions& options, int first_step,
                   bool leads = true);

  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Removes an unfinished checkpoint. All ranks of this process must have stopped.
  ~CheckpointWriter();

  /// Every rank must call it with its backend; returns when the checkpoint is on disk. Throws Error
  /// (execution) on a rank that cannot write; older checkpoints are then untouched.
  void write(Transport& transport, Backend& backend, const std::vector<HeldState>& state,
             const TrainingPosition& position);

  /// On rank 0: the checkpoints written, in order.
  const std::vector<WrittenCheckpoint>& written() const { return written_; }

 private:
  void end(const TrainingPosition& position, const std::vector<std::string>& of_ranks,
           Moment start);

  Checkpoint about_;
  CheckpointOptions options_;
  SystemCalls& calls_;
  std::optional<FolderLock> lock_;
  std::vector<WrittenCheckpoint> written_;
  std::optional<int> unfinished_;  ///< step of the unfinished checkpoint; only on rank 0
};

}  // namespace stagecraft
