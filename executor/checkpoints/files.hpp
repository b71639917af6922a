// Folders of checkpoints, and files that are on disk when we say so.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "profiles/units.hpp"

namespace stagecraft {

inline constexpr std::string_view manifest_name = "manifest.json";

/// "step-000123"; of one that is being written, "step-000123.part".
std::filesystem::path checkpoint_folder(const std::filesystem::path& folder, int step);
std::filesystem::path unfinished_folder(const std::filesystem::path& folder, int step);

/// A new file that is written from its beginning to its end. Its functions throw Error (execution)
/// naming the file, what it needs and a way out: "DIR/rank-2.bin: cannot be written: No space left
/// on device; it needs 1.2GiB; …".
class DurableFile {
 public:
  /// `whole`: how many bytes it will have.
  DurableFile(std::filesystem::path path, Bytes whole);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::string_view bytes);
  Bytes size() const { return size_; }
  /// Returns when all of it is on disk.
  void finish();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  Bytes whole_;
  int descriptor_;
  Bytes size_ = 0;
};

/// What happened in a folder (new, renamed and removed files) is on disk when this returns. Throws
/// Error (execution).
void make_durable(const std::filesystem::path& folder);

/// A folder for checkpoints, made if it is not there, without what earlier runs left unfinished.
/// Throws Error (input) unless it can be written to, or if it holds a checkpoint of a later step
/// than that with which the run begins.
void prepare_checkpoints(const std::filesystem::path& folder, int first_step);

/// Begins a checkpoint: its unfinished folder, empty. Throws Error (execution).
void begin_checkpoint(const std::filesystem::path& folder, int step);
/// Ends it: by now all files are on disk. From here on the checkpoint counts; of the others that
/// are complete the newest `keep` - 1 stay. Throws Error (execution).
void end_checkpoint(const std::filesystem::path& folder, int step, int keep);
/// Removes an unfinished one, as far as that is possible.
void abandon_checkpoint(const std::filesystem::path& folder, int step);

}  // namespace stagecraft
