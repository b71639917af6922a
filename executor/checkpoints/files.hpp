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

/// "step-000123"; of one that is being written, "step-000123.part".
std::filesystem::path checkpoint_folder(const std::filesystem::path& folder, int step);
std::filesystem::path unfinished_folder(const std::filesystem::path& folder, int step);

/// The steps of all in a folder that are called so, ascending, with a manifest or without.
std::vector<int> steps_in(const std::filesystem::path& folder);

/// What to do where a checkpoint cannot be written.
inline constexpr std::string_view checkpoint_remedy =
    "make room, or write to another folder with --checkpoint; earlier checkpoints are whole, "
    "--resume goes on from the last";

/// A folder for checkpoints, made if it is not there, with those above it, and on disk when this
/// returns. Throws Error (input) unless it can be written to.
void make_checkpoints_folder(const std::filesystem::path& folder,
                             SystemCalls& calls = system_calls());
/// By who holds the folder (see folder_lock.hpp): what earlier runs left unfinished goes. Throws
/// Error (input) if it holds a checkpoint of a later step than that with which the run begins; one
/// that is damaged is renamed to "step-000123.damaged" instead.
void prepare_checkpoints(const std::filesystem::path& folder, int first_step);

/// Begins a checkpoint: its unfinished folder, empty. Throws Error (execution).
void begin_checkpoint(const std::filesystem::path& folder, int step,
                      SystemCalls& calls = system_calls());
/// Ends it: by now all files are on disk. From here on the checkpoint counts; of the others that
/// are complete the newest `keep` - 1 stay. Throws Error (execution).
void end_checkpoint(const std::filesystem::path& folder, int step, int keep,
                    SystemCalls& calls = system_calls());
/// Removes an unfinished one, as far as that is possible.
void abandon_checkpoint(const std::filesystem::path& folder, int step,
                        SystemCalls& calls = system_calls());

}  // namespace stagecraft
