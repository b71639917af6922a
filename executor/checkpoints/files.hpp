// Folders of checkpoints.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "executor/weights/durable_file.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

inline constexpr std::string_view manifest_name = "manifest.json";

/// "step-000123"; "step-000123.part" while it is being written.
std::filesystem::path checkpoint_folder(const std::filesystem::path& folder, int step);
std::filesystem::path unfinished_folder(const std::filesystem::path& folder, int step);

/// The steps of all folders with such names, ascending, with or without a manifest.
std::vector<int> steps_in(const std::filesystem::path& folder);

/// The remedy if a checkpoint cannot be written.
inline constexpr std::string_view checkpoint_remedy =
    "make room, or write to another folder with --checkpoint; earlier checkpoints are whole, "
    "--resume goes on from the last";

/// Creates a folder for checkpoints, with its parents, if missing, and syncs it to disk. Throws
/// Error (input) unless it is writable.
void make_checkpoints_folder(const std::filesystem::path& folder,
                             SystemCalls& calls = system_calls());
/// Must be called by the holder of the folder (see folder_lock.hpp). Removes unfinished checkpoints
/// of earlier runs. Throws Error (input) if there is a checkpoint of a later step than the run's
/// first one; a damaged one is renamed to "step-000123.damaged" instead.
void prepare_checkpoints(const std::filesystem::path& folder, int first_step);

/// Begins a checkpoint: creates its unfinished, empty folder. Throws Error (execution) on failure.
void begin_checkpoint(const std::filesystem::path& folder, int step,
                      SystemCalls& calls = system_calls());
/// Completes a checkpoint, whose files must be on disk, and removes all other complete ones but the
/// newest `keep` - 1. Throws Error (execution) on failure.
void end_checkpoint(const std::filesystem::path& folder, int step, int keep,
                    SystemCalls& calls = system_calls());
/// Removes an unfinished checkpoint, if possible.
void abandon_checkpoint(const std::filesystem::path& folder, int step,
                        SystemCalls& calls = system_calls());

}  // namespace stagecraft
