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
  /// Throws Error (input) if there can be no checkpoints in the folder, or another run's would be
  /// lost, and Error (execution) if another run holds it.
  CheckpointWriter(Checkpoint about, const CheckpointOptions& options, int first_step,
                   bool leads = true);

  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// What has been begun and not ended goes away with it, when all ranks of this process have
  /// stopped.
  ~CheckpointWriter();

  /// Every rank calls it with its backend, and returns when the checkpoint is on disk. Throws Error
  /// (execution) on a rank that cannot write; older checkpoints are untouched then.
  void write(Transport& transport, Backend& backend, const std::vector<HeldState>& state,
             const TrainingPosition& position);

  /// On rank 0, what has been written, in order.
  const std::vector<WrittenCheckpoint>& written() const { return written_; }

 private:
  void end(const TrainingPosition& position, const std::vector<std::string>& of_ranks,
           Moment start);

  Checkpoint about_;
  CheckpointOptions options_;
  SystemCalls& calls_;
  std::optional<FolderLock> lock_;
  std::vector<WrittenCheckpoint> written_;
  std::optional<int> unfinished_;  ///< step; only on rank 0
};

}  // namespace stagecraft
