// SCHEDULE on the command line: a name of `schedule list`, or a torch CSV file.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/views/torch_csv.hpp"
#include "tools/console.hpp"
#include "tools/options/shape_options.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Whether the word is a schedule file: standard input (-), a name that ends in .csv, or a file
/// that looks like one.
bool is_schedule_file(const std::string& word);

/// Reads the file, and records it as an input of the verb.
TorchSchedule read_schedule_file(Console& console, const std::string& path,
                                 const TorchReading& reading = {});
/// As `read_schedule_file`, for a text that has already been read from the path.
TorchSchedule read_schedule_text(Console& console, const std::string& text, const std::string& path,
                                 const TorchReading& reading = {});

/// Formats of `schedule show --format`; those of torch may name a version.
inline constexpr std::array<std::string_view, 6> schedule_formats{"unicode",    "ascii", "torch",
                                                                  "torch-full", "svg",   "json"};

/// The schedule of the word: from the file, or by name with this shape.
TorchSchedule find_schedule(Console& console, const std::string& word, const ShapeOptions& shape,
                            int microbatches);

/// The program of the word; the repetition of a long named schedule is left out
/// (`Program::left_out`).
Program program_to_check(Console& console, const std::string& word, const ShapeOptions& options,
                         int microbatches);

/// Throws Error (usage) if a flag of a named schedule's shape was given, but all of these words are
/// files, which have their own shape.
void refuse_shape_of_files(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace stagecraft
